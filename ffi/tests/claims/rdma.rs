//! Both ends over a device of this host, by rdma_cm.

use core::net::IpAddr;
use core::time::Duration;
use std::process::Command;
use std::sync::PoisonError;
use std::{env, fs, thread};
use superpipe::MemoryNode;

use superpipe::fabric::rdma::{
    Accepted, Accepting, AckTimeout, ConnectError, Established, Listener, Rdma, RdmaDevice, RdmaOptions,
    connect,
};
use superpipe::os::monotonic_ns;
use superpipe::{Arrival, Budget, Tuning};

use crate::observed::Real;
use crate::shm::ALONE;
use crate::story::{Connected, Ground};

/// Bounds of a handshake, and of the attempts to make one.
const HANDSHAKE_NS: u64 = 5_000_000_000;
const ATTEMPTS_NS: u64 = 60_000_000_000;

/// Plays a test over each device, in the mode that both ends agree on without a wish, and in notify mode, which the devices of iWARP do
/// otherwise.
pub(crate) fn play(test: impl Fn(&Ground<'_, Rdma>)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let named = env::var("SUPERPIPE_RDMA").unwrap_or_default();
    if named.is_empty() {
        eprintln!("NOT CHECKED: SUPERPIPE_RDMA names no address of an RDMA device");
    }
    for address in named.split_whitespace() {
        let ip: IpAddr = address.parse().expect("SUPERPIPE_RDMA holds addresses");
        for arrival in [None, Some(Arrival::Notify)] {
            test(&Ground {
                connect: &|tuning| meet(ip, tuning),
                tuning: Tuning { arrival, ..Tuning::default() },
            });
            assert_eq!((Rdma::kernel_bytes(), Rdma::budget_bytes()), (0, 0), "nothing is left");
        }
    }
}

fn meet(ip: IpAddr, tuning: &Tuning) -> Connected<Rdma> {
    let mut listener = Listener::bind(&ip.to_string(), 0, RdmaDevice::default()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = RdmaOptions {
        tuning,
        landing_bytes_max: 64 << 20,
        idle_timeout_ns: 30_000_000_000,
        device: RdmaDevice::default(),
        ack_timeout: AckTimeout::default(),
        memory_node: MemoryNode::Auto,
        shards: None,
    };
    let deadline_ns = monotonic_ns() + ATTEMPTS_NS;
    let (there, here) = thread::scope(|scope| {
        let there = scope.spawn(|| connect(&ip.to_string(), port, &options, deadline_ns, &|| false));
        let here = accept(&mut listener, &options, deadline_ns);
        (there.join().unwrap().unwrap(), here.unwrap())
    });
    let negotiated = there.negotiated;
    let [one, other] = [there, here].map(|Established { attachment, share, .. }| (attachment, share));
    ([one.0, other.0], negotiated, Box::new([one.1, other.1]))
}

fn accept(
    listener: &mut Listener,
    options: &RdmaOptions<'_>,
    deadline_ns: u64,
) -> Result<Established, ConnectError> {
    while monotonic_ns() < deadline_ns {
        let now = monotonic_ns();
        if let Some(accepting) = listener.try_accept(options, now + HANDSHAKE_NS, now)? {
            match finish(accepting) {
                Accepted::Done(met) => return Ok(met),
                Accepted::Pending(_) | Accepted::Nobody | Accepted::Failed(ConnectError::TimedOut) => {}
                Accepted::Failed(error) => return Err(error),
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err(ConnectError::TimedOut)
}

/// Drives a handshake to its end.
fn finish(mut accepting: Accepting) -> Accepted {
    loop {
        match accepting.drive(monotonic_ns()) {
            Accepted::Pending(pending) => accepting = pending,
            over => return over,
        }
        thread::sleep(Duration::from_millis(1));
    }
}

impl Real for Rdma {
    fn make() -> Self {
        Self::new()
    }

    fn is_same_region(one: Self::Region, other: Self::Region) -> bool {
        one == other
    }

    fn is_same_remote(one: Self::Remote, other: Self::Remote) -> bool {
        one == other
    }

    /// Returns the bytes that the kernel has pinned for this process.
    fn kernel_bytes() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmPin:")).unwrap();
        1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    }

    /// SUPERPIPE_RDMA_ALONE names a device of which no other process has any, and this process has none of others.
    fn listed_bytes() -> Option<u64> {
        let device = format!("dev {} ", env::var("SUPERPIPE_RDMA_ALONE").ok()?);
        let output = Command::new("rdma").args(["resource", "show", "mr"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let bytes_of = |line: &str| {
            let (_, rest) = line.split_once("mrlen ").unwrap();
            rest.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        Some(text.lines().filter(|line| line.starts_with(&device)).map(bytes_of).sum())
    }

    fn budget_bytes() -> u64 {
        Budget::registered_bytes()
    }
}
