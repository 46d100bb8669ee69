//! Warming a new connection up. wire.md 6.7.

use superpipe_core::Reason;
use superpipe_core::driver::{Drive, Next, WarmUp, WarmUpFailed, WarmUpPlan};

use super::Over;
use super::access::Access;
use super::transport::{Transport, now};
use super::waiting::Waiting;
use super::whole::Whole;
use crate::api::deadline::Deadline;
use crate::api::error::{Error, ErrorKind};
use crate::os::WaitStrategy;
use crate::os::poll::PollFd;
use crate::port::Port;
use crate::tuning::Settled;

/// Text for a peer that does nothing, or a wire that loses too much.
const LATE: &str = "the handshake took too long: the connection was made, and its first messages did not come through in time";

/// Text for a peer that ran out of time, had no room, or ended.
const GIVEN_UP: &str = "the peer gave the connection up while its first messages were exchanged";
/// Text for a peer that sends something else.
const NOT_WARM: &str = "the peer does not warm the connection up";

/// Rounds of one try: a peer that is as fast as this end must not keep it from others.
const ROUNDS_MAX: u32 = 64;

/// Warming up, with the buffer that it takes.
pub(in crate::api) struct Warming {
    warm_up: WarmUp,
    room: Vec<u8>,
}

impl Warming {
    /// Begins; `is_first` says which of the two ends does.
    pub(in crate::api) fn new<P: Port>(settled: &Settled, is_first: bool) -> Self {
        let plan = WarmUpPlan::new(settled.layout, &settled.config, P::DIRECT);
        Self { warm_up: WarmUp::new(plan, is_first), room: vec![0; plan.room_bytes()] }
    }

    /// Count of messages that went or came whole.
    pub(in crate::api) const fn steps(&self) -> u32 {
        self.warm_up.steps()
    }

    /// Error of a warm-up that did not end in time.
    pub(in crate::api) fn late() -> Error {
        Error::new(ErrorKind::Timeout, LATE)
    }
}

impl<P: Port> Over<Whole<P>> {
    /// Exchanges the messages with the peer, which does the same. If that fails, the peer is told that the connection is given up, since
    /// it may be done with its part and take the connection for made.
    ///
    /// The deadline bounds the peer's silence, and the idle timeout does not: as before it accepts, the peer's program may be busy with
    /// something else.
    ///
    /// # Errors
    /// `Timeout`, `PeerLost`, `Interrupted`; `Protocol` where something else comes; `Device`.
    pub(in crate::api) fn warm_up(&mut self, warming: &mut Warming, deadline: Deadline) -> Result<(), Error> {
        let Warming { warm_up, room } = warming;
        let transport = self.transport();
        // Sleeping, and not the application's choice: the peer may have to run on this very core, and waiting for a silent peer must
        // not cost one.
        let wait = transport.options.wait;
        transport.set_wait(WaitStrategy::Sleep);
        transport.driver.set_idle_timeout(u64::MAX);
        let warm = transport.wait(deadline, |driver, port| driver.drive_warm_up(port, warm_up, room));
        transport.set_wait(wait);
        let idle_timeout_ns = transport.options.idle_timeout_ns();
        transport.driver.set_idle_timeout(idle_timeout_ns);
        let warm = match warm {
            Err(error) if error.kind() == ErrorKind::Timeout => Err(Warming::late()),
            Ok(warm) => warm.map_err(|failed| transport.warm_up_failed(failed)),
            Err(error) => Err(as_of_a_handshake(error)),
        };
        warm.inspect_err(|_| self.give_up_connection())
    }

    /// Exchanges what can be exchanged without waiting, in a bounded number of rounds. Returns true once the connection is warm.
    /// `is_ready`: what is ready when the peer's end goes was.
    ///
    /// # Errors
    /// As [`warm_up`](Self::warm_up), but for the deadline, which is the caller's.
    pub(in crate::api) fn try_warm_up(
        &mut self,
        warming: &mut Warming,
        is_ready: bool,
    ) -> Result<bool, Error> {
        let Warming { warm_up, room } = warming;
        let transport = self.transport().hold();
        if is_ready && !transport.port.is_alive(transport.driver.endpoint().link()) {
            transport.driver.peer_is_gone();
        }
        // Not every end of a peer makes something ready: one that broke a rule below the protocol is found by looking.
        transport.look_for_peer(now());
        let mut wait = transport.driver.begin_wait();
        for _ in 0..ROUNDS_MAX {
            let driven = transport.driver.drive_warm_up(&mut transport.port, warm_up, room);
            let failed = match driven {
                Drive::Done(Ok(())) => return Ok(true),
                Drive::Done(Err(failed)) => Some(transport.warm_up_failed(failed)),
                Drive::Moved | Drive::Idle => {
                    let has_moved = driven == Drive::Moved;
                    match transport.driver.round(&mut transport.port, &mut wait, has_moved) {
                        Next::Ended(ended) => Some(as_of_a_handshake(transport.ended(ended))),
                        Next::Rest(_) => {
                            // The peer's acknowledgements, which `round` may not look at, may break a rule. The next call
                            // returns that error.
                            transport.driver.endpoint_mut().look(&mut transport.port);
                            return Ok(false);
                        }
                        Next::Again | Next::Look => None,
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

    /// Gives the connection up, and tells the peer as far as that goes without waiting.
    pub(in crate::api) fn abandon(&mut self) {
        if self.is_ours() {
            let Transport { driver, port, .. } = self.transport().hold();
            driver.close(port, Reason::GIVEN_UP);
            driver.progress(port);
            port.end_by(driver.endpoint_mut().link_mut(), 0);
        }
    }

    /// Descriptor that becomes ready when the peer's end goes.
    pub(in crate::api) fn interests(&self) -> [PollFd<'_>; 1] {
        match &self.access {
            Some(transport) => transport.port.interests(transport.driver.endpoint().link()),
            None => [PollFd::none()],
        }
    }

    /// Closes with `GIVEN_UP`: the peer may take the connection for made.
    fn give_up_connection(&mut self) {
        let linger = self.transport().options.linger;
        // The call already fails, with the error that led here.
        let _ = self.close(Reason::GIVEN_UP, linger.into());
    }
}

impl<P: Port> Transport<P> {
    fn warm_up_failed(&self, failed: WarmUpFailed) -> Error {
        as_of_a_handshake(match (failed, self.driver.endpoint().closed()) {
            (WarmUpFailed::GivenUp(reason), _) => Error::cancelled(reason),
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
    use core::time::Duration;

    use super::*;
    use crate::api::by_shm;
    use crate::os::monotonic_ns;
    use crate::shm::{self, handshake};
    use crate::{Address, Connection, Options};
    use superpipe_core::Closed;

    /// A listener that agrees, and then does what `instead` says.
    fn meet(instead: impl FnOnce(&mut Connection) + Send) -> Error {
        let directory = std::env::temp_dir().join(format!("superpipe-warming-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join(format!("{:?}.sock", std::thread::current().id()));
        let address: Address = format!("shm:{}", path.display()).parse().unwrap();
        let listener = shm::Listener::bind(&path).unwrap();
        let options = Options { handshake_timeout: Duration::from_millis(300), ..Options::default() };
        let error = std::thread::scope(|scope| {
            scope.spawn(move || {
                let deadline_ns = monotonic_ns() + 10_000_000_000;
                let socket = listener.accept(deadline_ns).unwrap();
                let wishes = by_shm::wishes(&options, deadline_ns);
                let (socket, agreed) = handshake::accept(socket, &wishes, &|| false).unwrap();
                instead(&mut by_shm::join(socket, agreed, options, false).unwrap().into_connection());
            });
            Connection::connect(&address, options, Duration::from_millis(300)).unwrap_err()
        });
        let _ = std::fs::remove_dir(&directory);
        error
    }

    #[test]
    fn a_peer_that_does_something_else_is_no_peer() {
        let error = meet(|connection| {
            connection.recv_into(&mut [&mut vec![0; 1 << 20]], Duration::from_secs(10)).unwrap();
            connection.send(1, &[b"hello"], Duration::from_secs(10)).unwrap();
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
        let error = meet(|connection| {
            let mut room = vec![0; 1 << 20];
            heard = loop {
                match connection.recv_into(&mut [&mut room], Duration::from_secs(10)) {
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
