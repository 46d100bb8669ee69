//! Two connected ends, and bytes to send.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;

use superpipe::{Address, Connection, Listener, Options};

/// Ten times what anything here takes: a hang, no measure.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// The host's cores.
static CORES: RwLock<()> = RwLock::new(());

/// For a test that times something: beside it runs none that keeps cores busy.
pub(crate) fn undisturbed() -> RwLockReadGuard<'static, ()> {
    CORES.read().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that keeps cores busy.
pub(crate) fn disturbing() -> RwLockWriteGuard<'static, ()> {
    CORES.write().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("superpipe-api-{}-{number}.sock", std::process::id()))
}

/// Makes two ends, over the RDMA device whose address SUPERPIPE_RDMA is (vm/tests/loans), or else over shared memory.
pub(crate) fn pair_with(a: Options, b: Options) -> (Connection, Connection) {
    let address = std::env::var("SUPERPIPE_RDMA")
        .map_or_else(|_| Address::Shm(path()), |host| Address::Rdma { host, port: 0 });
    let mut listener = Listener::bind(&address, b).unwrap();
    let address = listener.local_addr().clone();
    let other = thread::spawn(move || listener.accept(DEADLINE).unwrap());
    let one = Connection::connect(&address, a, DEADLINE).unwrap();
    (one, other.join().unwrap())
}

pub(crate) fn pair() -> (Connection, Connection) {
    pair_with(Options::default(), Options::default())
}

/// Bytes that depend on the seed and their place; now and then some that look like flags and headers.
pub(crate) fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(count + 8);
    while out.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = if state.is_multiple_of(7) { state % 64 } else { state };
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(count);
    out
}
