//! Pairs of connected ends, in each kind of runtime.

use core::future::Future;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use superpipe_tokio::{Address, Connection, Listener, Options};

/// Ten times as long as a test takes on a busy host.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Runs a test in both kinds of runtime.
pub(crate) fn in_both<F: Future<Output = ()>>(test: impl Fn() -> F) {
    for mut builder in [tokio::runtime::Builder::new_current_thread(), multi()] {
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(DEADLINE, test()).await.expect("it hangs") });
    }
}

fn multi() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2);
    builder
}

/// Returns an address at which nobody listens, or any free port of the RDMA device whose address SUPERPIPE_RDMA is (vm/tests/tasks).
pub(crate) fn address() -> Address {
    if let Ok(host) = std::env::var("SUPERPIPE_RDMA") {
        return Address::Rdma { host, port: 0 };
    }
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("superpipe-tokio-{}-{number}.sock", std::process::id());
    Address::Shm(std::env::temp_dir().join(name))
}

/// Makes two ends.
pub(crate) async fn pair(options: Options) -> [Connection; 2] {
    let mut listener = Listener::bind(&address(), options).unwrap();
    let address = listener.local_addr().clone();
    let connecting = Connection::connect(&address, options, DEADLINE);
    let (accepted, connected) = tokio::join!(listener.accept(), connecting);
    [accepted.unwrap(), connected.unwrap()]
}

/// Makes two ends for which nothing but a wake-up brings what has arrived while they wait: one that is lost is not found in another way.
pub(crate) async fn pair_without_looks(options: Options) -> [Connection; 2] {
    pair(options).await.map(|connection| {
        let mut connection = connection.into_blocking().unwrap();
        connection.set_looks_while_armed(false);
        Connection::from_blocking(connection).unwrap()
    })
}

/// Returns bytes that differ from place to place.
pub(crate) fn payload(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251).to_le_bytes()[0] ^ seed).collect()
}
