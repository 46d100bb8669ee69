//! Two ends of a connection, in two threads, driven without the API.

use core::net::IpAddr;
use std::thread;
use superpipe::MemoryNode;
use superpipe::Tuning;
use superpipe::fabric::rdma::{
    Accepted, Accepting, AckTimeout, ConnectError, Established, Listener, Rdma, RdmaDevice, RdmaOptions,
    connect,
};
use superpipe::os::monotonic_ns;
use superpipe_core::{Endpoint, Origin};

pub(crate) const LANDING_BYTES_MAX: u32 = 64 << 20;

/// Ten times as long as any step takes in a guest.
pub(crate) fn deadline() -> u64 {
    monotonic_ns() + 20_000_000_000
}

pub(crate) fn options(tuning: &Tuning) -> RdmaOptions<'_> {
    RdmaOptions {
        tuning,
        landing_bytes_max: LANDING_BYTES_MAX,
        idle_timeout_ns: 30_000_000_000,
        device: RdmaDevice::default(),
        ack_timeout: AckTimeout::default(),
        memory_node: MemoryNode::Auto,
        shards: None,
    }
}

/// Bound of a handshake, as a listener has it: an attempt that was given up must not use up the time of the next.
fn handshake_deadline() -> u64 {
    monotonic_ns() + 5_000_000_000
}

/// Listens at a free port.
pub(crate) fn listen(ip: IpAddr) -> (Listener, u16) {
    let listener = Listener::bind(&ip.to_string(), 0, RdmaDevice::default()).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

pub(crate) fn accept(listener: &mut Listener, tuning: &Tuning) -> Result<Established, ConnectError> {
    let deadline = deadline();
    while monotonic_ns() < deadline {
        if let Some(accepting) =
            listener.try_accept(&options(tuning), handshake_deadline(), monotonic_ns())?
        {
            match finish(accepting) {
                Accepted::Done(met) => return Ok(met),
                Accepted::Pending(_) | Accepted::Nobody | Accepted::Failed(ConnectError::TimedOut) => {}
                Accepted::Failed(error) => return Err(error),
            }
        }
        thread::sleep(core::time::Duration::from_millis(1));
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
        thread::sleep(core::time::Duration::from_millis(1));
    }
}

/// Returns both ends of a connection, the active one first.
pub(crate) fn meet(
    ip: IpAddr,
    active: Tuning,
    passive: Tuning,
) -> (Result<Established, ConnectError>, Result<Established, ConnectError>) {
    let (mut listener, port) = listen(ip);
    thread::scope(|scope| {
        let there =
            scope.spawn(move || connect(&ip.to_string(), port, &options(&active), deadline(), &|| false));
        let here = accept(&mut listener, &passive);
        (there.join().unwrap(), here)
    })
}

/// An endpoint with its fabric.
pub(crate) struct End {
    pub(crate) fabric: Rdma,
    pub(crate) endpoint: Endpoint<Rdma>,
}

impl End {
    pub(crate) fn of(met: Established) -> Self {
        let Established { fabric, attachment, negotiated, .. } = met;
        let endpoint = Endpoint::new(&fabric, attachment, negotiated.config, Origin::default()).unwrap();
        Self { fabric, endpoint }
    }

    /// Makes progress until `done` returns true. Panics at the deadline.
    pub(crate) fn drive(&mut self, mut done: impl FnMut(&mut Endpoint<Rdma>, &mut Rdma) -> bool) {
        let deadline = deadline();
        let mut rounds = 0_u32;
        while !done(&mut self.endpoint, &mut self.fabric) {
            if self.endpoint.progress(&mut self.fabric) == 0 {
                thread::yield_now();
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(1024) {
                self.endpoint.poll_acknowledgements(&mut self.fabric);
                assert!(monotonic_ns() < deadline, "closed: {:?}", self.endpoint.closed());
            }
            assert_eq!(self.endpoint.closed(), None);
        }
    }
}
