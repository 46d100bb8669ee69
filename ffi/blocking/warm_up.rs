//! Warming up a new connection. wire.md 6.7.

use core::time::Duration;

use superpipe_core::Reason;
use superpipe_core::driver::setup::Negotiated;
use superpipe_core::driver::{Drive, Next, WarmUp, WarmUpFailed, WarmUpPlan};

use super::Blocking;
use super::access::DriverAccess;
use super::exclusive::Exclusive;
use super::host_driver::{HostDriver, now};
use super::waiting::Waiting;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fabric::HostFabric;
use crate::os::WaitStrategy;
use crate::os::poll::PollFd;

/// Error text for a peer that sends nothing, or a network that loses too much.
const LATE: &str =
    "the handshake took too long: the connection was made, but its first messages did not arrive in time";

/// Error text for a peer that reached its deadline, had no room, or ended.
const GIVEN_UP: &str = "the peer gave the connection up while its first messages were exchanged";
/// Error text for a peer that sends something else.
const NOT_WARM: &str = "the peer sends something else than the first messages of the handshake";

/// Longest wait until the peer is told so.
const GIVE_UP_LINGER: Duration = Duration::from_millis(100);

/// Most rounds of one try, so that a peer as fast as this end does not keep the listener from other peers.
const ROUNDS_MAX: u32 = 64;

/// A warm-up with its buffer.
pub(crate) struct WarmingUp {
    warm_up: WarmUp,
    room: Vec<u8>,
}

impl WarmingUp {
    /// Begins; `is_first` is true at the end that sends the first message.
    pub(crate) fn new<F: HostFabric>(negotiated: &Negotiated, is_first: bool) -> Self {
        let plan = WarmUpPlan::of(negotiated, F::DIRECT);
        Self { warm_up: WarmUp::new(plan, is_first), room: vec![0; plan.room_bytes()] }
    }

    /// Returns the count of messages that were sent or received.
    pub(crate) const fn steps(&self) -> u32 {
        self.warm_up.steps()
    }

    /// Returns the error of a warm-up that exceeded its deadline.
    pub(crate) fn late() -> Error {
        Error::new(ErrorKind::Timeout, LATE)
    }
}

impl<F: HostFabric> Blocking<Exclusive<F>> {
    /// Exchanges the messages of the warm-up. If that fails, this end closes with `GIVEN_UP`, since the peer may have done its part and
    /// consider the connection established.
    ///
    /// The deadline bounds the peer's silence, and the idle timeout does not: the peer's program may be busy with something else, as it
    /// may be before it accepts.
    ///
    /// # Errors
    /// `Timeout`, `PeerLost`, `Interrupted`; `Protocol` where something else comes; `Device`.
    pub(crate) fn warm_up(&mut self, warming: &mut WarmingUp, deadline: Deadline) -> Result<(), Error> {
        let WarmingUp { warm_up, room } = warming;
        let host = self.access();
        // The warm-up sleeps, whatever the application chose: the peer may need this core, and a silent peer must not cost one.
        let wait = host.options.wait;
        host.set_wait(WaitStrategy::Sleep);
        host.driver.set_idle_timeout(u64::MAX);
        let warm = host.wait(deadline, |driver, fabric| driver.drive_warm_up(fabric, warm_up, room));
        host.set_wait(wait);
        let idle_timeout_ns = host.options.idle_timeout_ns();
        host.driver.set_idle_timeout(idle_timeout_ns);
        let warm = match warm {
            Err(error) if error.kind() == ErrorKind::Timeout => Err(WarmingUp::late()),
            Ok(warm) => warm.map_err(|failed| host.warm_up_failed(failed)),
            Err(error) => Err(as_of_a_handshake(error)),
        };
        warm.inspect_err(|_| self.give_up_connection())
    }

    /// Exchanges what can be exchanged without waiting, in a bounded number of rounds. Returns true once the connection is warm.
    /// `is_ready`: a descriptor of [`interests`](Self::interests) was ready.
    ///
    /// # Errors
    /// As [`warm_up`](Self::warm_up), but for the deadline, which is the caller's.
    pub(crate) fn try_warm_up(&mut self, warming: &mut WarmingUp, is_ready: bool) -> Result<bool, Error> {
        let WarmingUp { warm_up, room } = warming;
        let host = self.access().hold();
        if is_ready && !host.fabric.is_alive(host.driver.endpoint().link()) {
            host.driver.note_peer_gone();
        }
        // Not every end of a peer makes something ready: one that broke a rule below the protocol is found by looking.
        host.check_peer(now());
        let mut wait = host.driver.begin_wait();
        for _ in 0..ROUNDS_MAX {
            let driven = host.driver.drive_warm_up(&mut host.fabric, warm_up, room);
            let failed = match driven {
                Drive::Done(Ok(())) => return Ok(true),
                Drive::Done(Err(failed)) => Some(host.warm_up_failed(failed)),
                Drive::Moved | Drive::Idle => {
                    let has_moved = driven == Drive::Moved;
                    match host.driver.round(&mut host.fabric, &mut wait, has_moved) {
                        Next::Ended(ended) => Some(as_of_a_handshake(host.ended(ended))),
                        Next::Rest(_) => {
                            // The peer's acknowledgements, which `round` may not look at, may break a rule. The next call
                            // returns that error.
                            host.driver.endpoint_mut().poll_acknowledgements(&mut host.fabric);
                            return Ok(false);
                        }
                        Next::Again | Next::CheckTime => None,
                    }
                }
            };
            if let Some(error) = failed {
                self.abandon();
                return Err(error);
            }
        }
        Ok(false)
    }

    /// Closes with `GIVEN_UP`, as far as that is possible without waiting.
    pub(crate) fn abandon(&mut self) {
        if self.is_ours() {
            let HostDriver { driver, fabric, .. } = self.access().hold();
            driver.close(fabric, Reason::GIVEN_UP);
            driver.progress(fabric);
            fabric.end_by(driver.endpoint_mut().link_mut(), 0);
        }
    }

    /// Returns a descriptor that becomes ready when the peer ends.
    pub(crate) fn interests(&self) -> [PollFd<'_>; 1] {
        match &self.access {
            Some(host) => host.fabric.interests(host.driver.endpoint().link()),
            None => [PollFd::none()],
        }
    }

    /// Closes with `GIVEN_UP`: the peer may consider the connection established. The call has reached its deadline, or its program wants it to end.
    fn give_up_connection(&mut self) {
        let linger = self.access().options.linger.min(GIVE_UP_LINGER);
        // The call already fails, with the error that led here.
        let _ = self.close(Reason::GIVEN_UP, linger.into());
    }
}

impl<F: HostFabric> HostDriver<F> {
    fn warm_up_failed(&self, failed: WarmUpFailed) -> Error {
        as_of_a_handshake(match (failed, self.driver.endpoint().closed()) {
            (WarmUpFailed::Cancelled(reason), _) => Error::cancelled(reason),
            (WarmUpFailed::Rejected(reason), _) => Error::rejected(reason),
            (WarmUpFailed::Closed, Some(closed)) => Error::closed(closed),
            _ => Error::new(ErrorKind::Protocol, NOT_WARM),
        })
    }
}

/// Turns an error of the warm-up into one of a handshake, since the caller has no connection yet. A close, cancel or reject with
/// `GIVEN_UP` means that the peer gave the connection up, as it may (wire.md 6.7). A peer that is through may be closed by its application:
/// with a reason other than DONE that is seen before its last message. All else is something that a peer may not do.
fn as_of_a_handshake(error: Error) -> Error {
    use ErrorKind::{Cancelled, Closed, Rejected};
    match error.kind() {
        Closed(Reason::GIVEN_UP) | Cancelled(Reason::GIVEN_UP) | Rejected(Reason::GIVEN_UP) => {
            Error::new(ErrorKind::PeerLost, GIVEN_UP)
        }
        Closed(Reason::DONE) | Cancelled(_) | Rejected(_) => {
            Error::new(ErrorKind::Protocol, format!("{error} while its first messages were exchanged"))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::shm::{join, shm_options};
    use crate::fabric::shm::scratch::Scratch;
    use crate::fabric::shm::{self, handshake};
    use crate::os::monotonic_ns;
    use crate::{Address, Connection, Options};
    use superpipe_core::Closed;

    /// Bounds a hang.
    const DEADLINE: Duration = Duration::from_secs(20);

    /// Connects, with this deadline, to a listener that agrees, and then does what `instead` says.
    fn meet(deadline: Duration, instead: impl FnOnce(&mut Connection) + Send) -> Error {
        let directory = Scratch::new();
        let path = directory.path().join("s");
        let address: Address = format!("shm:{}", path.display()).parse().unwrap();
        let listener = shm::Listener::bind(&path).unwrap();
        let options = Options { handshake_timeout: deadline, ..Options::default() };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let deadline_ns = monotonic_ns() + 20_000_000_000;
                let socket = listener.accept(deadline_ns).unwrap();
                let handshake_options = shm_options(&options, deadline_ns);
                let (socket, agreed) = handshake::accept(socket, &handshake_options, &|| false).unwrap();
                instead(&mut join(socket, agreed, options, false).unwrap().into_ready().into());
            });
            Connection::connect(&address, options, deadline).unwrap_err()
        })
    }

    #[test]
    fn a_peer_that_does_something_else_is_no_peer() {
        let error = meet(DEADLINE, |connection| {
            connection.recv_into(&mut [&mut vec![0; 1 << 20]], DEADLINE).unwrap();
            connection.send(1, &[b"hello"], DEADLINE).unwrap();
            std::thread::sleep(Duration::from_millis(100));
        });
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    }

    #[test]
    fn a_peer_that_is_warm_may_close_at_once_with_a_reason() {
        for (reason, kind) in
            [(Reason(3), ErrorKind::Closed(Reason(3))), (Reason::GIVEN_UP, ErrorKind::PeerLost)]
        {
            assert_eq!(as_of_a_handshake(Error::closed(Closed::ByPeer(reason))).kind(), kind);
        }
        let done = Error::closed(Closed::ByPeer(Reason::DONE));
        for error in [Error::cancelled(Reason(3)), Error::rejected(Reason(3)), done] {
            assert_eq!(as_of_a_handshake(error).kind(), ErrorKind::Protocol);
        }
    }

    #[test]
    fn a_peer_that_does_nothing_meets_the_deadline() {
        let mut heard = None;
        // Long enough to agree on a busy host.
        let error = meet(Duration::from_secs(3), |connection| {
            let mut room = vec![0; 1 << 20];
            heard = loop {
                match connection.recv_into(&mut [&mut room], DEADLINE) {
                    Ok(_) => {}
                    Err(error) => break Some(error.kind()),
                }
            };
        });
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_eq!(
            heard,
            Some(ErrorKind::Closed(Reason::GIVEN_UP)),
            "what it could take for a connection ends"
        );
    }
}
