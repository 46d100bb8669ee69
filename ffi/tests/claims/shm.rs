//! Both ends over shared memory, by a handshake over a socket pair.

use std::sync::{Mutex, PoisonError};
use superpipe::MemoryNode;

use superpipe::Budget;
use superpipe::Tuning;
use superpipe::fabric::shm::Socket;
use superpipe::fabric::shm::fabric::Shm;
use superpipe::fabric::shm::handshake::{HalfOpen, Progress, ShmOptions};
use superpipe::os::monotonic_ns;
use superpipe_core::Fabric;

use crate::observed::Real;
use crate::story::{Connected, Ground};

/// One test at a time in this process.
pub(crate) static ALONE: Mutex<()> = Mutex::new(());

/// Bound of a handshake.
const HANDSHAKE_NS: u64 = 60_000_000_000;

/// Plays a test over shared memory.
pub(crate) fn play(test: impl Fn(&Ground<'_, Shm>)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    test(&Ground { connect: &connect, tuning: Tuning::default() });
    assert_eq!((Shm::kernel_bytes(), Shm::budget_bytes()), (0, 0), "nothing is left");
}

fn connect(tuning: &Tuning) -> Connected<Shm> {
    let options = ShmOptions {
        tuning,
        landing_bytes_max: 64 << 20,
        idle_timeout_ns: 30_000_000_000,
        memory_node: MemoryNode::Auto,
        deadline_ns: monotonic_ns() + HANDSHAKE_NS,
    };
    let (one, other) = Socket::pair().unwrap();
    let now = monotonic_ns();
    let mut half_open = [HalfOpen::connect(one, &options, now), HalfOpen::accept(other, &options, now)];
    let mut met = [None, None];
    while met.iter().any(Option::is_none) {
        for (end, met) in half_open.iter_mut().zip(&mut met) {
            if met.is_none() {
                match end.drive(monotonic_ns()) {
                    Progress::Pending => {}
                    Progress::Done(established) => *met = Some(established),
                    Progress::Failed(error) => panic!("{error}"),
                }
            }
        }
    }
    let [one, other] = met.map(Option::unwrap);
    let negotiated = one.negotiated;
    let [one_socket, other_socket] = half_open.map(HalfOpen::into_socket);
    let shares = [one.share.clone(), other.share.clone()];
    let attachments = [(one, one_socket), (other, other_socket)].map(|(met, socket)| {
        Shm::attach(met.segments, negotiated.layout, socket, met.fenced, met.serves, None)
    });
    (attachments, negotiated, Box::new(shares))
}

impl Real for Shm {
    fn make() -> Self {
        Self::new()
    }

    fn is_same_region(one: Self::Region, other: Self::Region) -> bool {
        one == other
    }

    fn is_same_remote(one: Self::Remote, other: Self::Remote) -> bool {
        one == other
    }

    /// Returns the bytes of the pages of segments that are there, each counted once for both mappings of it.
    fn kernel_bytes() -> u64 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (mut bytes, mut is_ours) = (0, false);
        for line in smaps.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("Pss:") if is_ours => bytes += 1024 * words.next().unwrap().parse::<u64>().unwrap(),
                Some(first) if !first.ends_with(':') => is_ours = line.contains("memfd:superpipe"),
                _ => {}
            }
        }
        bytes
    }

    fn listed_bytes() -> Option<u64> {
        None
    }

    /// Each end counts the pages of both, and both ends are in this process.
    fn budget_bytes() -> u64 {
        Budget::shared_bytes() / 2
    }
}

const _: () = assert!(Shm::DIRECT);
