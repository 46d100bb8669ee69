//! The messages that warm a new connection up, so that the application's first is as fast as any other. wire.md 6.7.
//!
//! A connection's memory is resident before it is used, and yet the first message through it is slow: no page of it is in
//! the TLB, no line in a cache, and no branch on its way was taken before. Some dozens of messages each way change that;
//! all of them together take less time than the sockets did before.

use core::time::Duration;
use std::time::Instant;

use superpipe_core::{Layout, Reason};

use super::{GOODBYE, Over};
use crate::api::error::{Error, ErrorKind};
use crate::os::{WaitStrategy, monotonic_ns};
use crate::port::Port;
use crate::tuning::Settled;

/// The tag of these messages.
const TAG: u64 = 0;
/// The most messages of one length.
const COUNT_MAX: u32 = 64;
/// The middle length.
const SHORT_BYTES: u32 = 1024;
/// The last length, in a slot line.
const TINY_BYTES: u32 = 8;
/// Messages of each length where they go over a wire, the longest first.
const COUNTS_POSTED: [u32; 4] = [1, 8, 4, 4];

/// A peer that does nothing, or a wire that loses too much.
const LATE: &str = "the handshake took too long: the connection was made, and its first messages did not come through in time";

/// Lengths and how many messages of each, the longest first: a few with a CTS, then the whole ring once or twice, as far
/// as that goes. Where the way is a wire, just a few: their packets take time, and can be lost, while the memory is
/// resident for the device's sake, and its caches matter less.
fn plan(settled: &Settled, is_direct: bool) -> [(u32, u32); 4] {
    let Layout { block_bytes, block_count, .. } = settled.layout;
    let ring_bytes = block_bytes * block_count;
    let c0_bytes = settled.config.c0_bytes;
    let long_bytes = c0_bytes.min(ring_bytes / 4);
    let short_bytes = SHORT_BYTES.min(long_bytes);
    let once = |count: u32| (count + 2).min(COUNT_MAX);
    let [rendezvous, long, short, tiny] = if is_direct {
        [2, once(ring_bytes / long_bytes.max(1)), once(block_count), once(block_count)]
    } else {
        COUNTS_POSTED
    };
    [(2 * c0_bytes, rendezvous), (long_bytes, long), (short_bytes, short), (TINY_BYTES, tiny)]
}

impl<P: Port> Over<P> {
    /// Exchanges the messages with the peer, which does the same; `first` says which of the two begins. A peer that got
    /// through, and takes the connection for made, is told that it is given up.
    ///
    /// # Errors
    /// `Timeout`, `PeerLost`, `Closed`, `Interrupted`; `Protocol` where something else comes.
    pub(in crate::api) fn warm_up(
        &mut self,
        settled: &Settled,
        first: bool,
        deadline_ns: u64,
    ) -> Result<(), Error> {
        let warm = self.exchange_all(settled, first, deadline_ns);
        if warm.is_err() {
            // Nobody is left to be told that the peer could not be.
            let _ = self.close(Reason::GIVEN_UP, GOODBYE.into());
        }
        warm
    }

    fn exchange_all(&mut self, settled: &Settled, first: bool, deadline_ns: u64) -> Result<(), Error> {
        let plan = plan(settled, P::DIRECT);
        let mut room = vec![0; plan[0].0 as usize];
        let deadline = Instant::now() + Duration::from_nanos(deadline_ns.saturating_sub(monotonic_ns()));
        // Whatever the application chose, its peer may have to run on this very core.
        let wait = self.transport().options.wait;
        self.set_wait(WaitStrategy::Yield);
        for (bytes, count) in plan {
            for _ in 0..count {
                self.exchange(&mut room[..bytes as usize], first, deadline).map_err(|error| {
                    match error.kind() {
                        ErrorKind::Timeout => Error::new(ErrorKind::Timeout, LATE),
                        _ => error,
                    }
                })?;
            }
        }
        self.set_wait(wait);
        self.transport().endpoint.reset_counters();
        Ok(())
    }

    /// One message each way.
    fn exchange(&mut self, message: &mut [u8], first: bool, deadline: Instant) -> Result<(), Error> {
        if first {
            self.send(TAG, &[message], deadline)?;
            self.expect(message, deadline)
        } else {
            self.expect(message, deadline)?;
            self.send(TAG, &[message], deadline)
        }
    }

    /// The peer's next message, which fills `room`.
    fn expect(&mut self, room: &mut [u8], deadline: Instant) -> Result<(), Error> {
        let out_of_turn = || Error::new(ErrorKind::Protocol, "the peer does not warm the connection up");
        match self.recv_into(&mut [room], deadline) {
            Ok(received) if received.bytes == room.len() && received.tag == TAG => Ok(()),
            Ok(_) => Err(out_of_turn()),
            Err(error) if error.kind() == ErrorKind::TooSmall => Err(out_of_turn()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::by_shm;
    use crate::shm::{self, handshake};
    use crate::tuning::{Terms, Tuning};
    use crate::{Address, Connection, Options};

    #[test]
    fn the_default_ring_is_gone_through_once_and_a_bit() {
        let settled = Tuning::default().settle(&Tuning::default(), &Terms::SHM).unwrap();
        assert_eq!(plan(&settled, true), [(128 << 10, 2), (64 << 10, 10), (1024, 34), (8, 34)]);
    }

    #[test]
    fn over_a_wire_a_few_are_enough() {
        let settled = Tuning::default().settle(&Tuning::default(), &Terms::SHM).unwrap();
        assert_eq!(plan(&settled, false), [(128 << 10, 1), (64 << 10, 8), (1024, 4), (8, 4)]);
    }

    #[test]
    fn absurd_rings_take_few_messages_that_fit() {
        for (block_bytes, landing_bytes) in
            [(128, 256), (128, 8 << 20), (1 << 20, 64 << 20), (64 << 10, 1 << 29)]
        {
            let wish = Tuning {
                block_bytes: Some(block_bytes),
                landing_bytes: Some(landing_bytes),
                ..Tuning::default()
            };
            let settled = wish.settle(&Tuning::default(), &Terms::SHM).unwrap();
            for (is_direct, rendezvous_count) in [(true, 2), (false, COUNTS_POSTED[0])] {
                let [rendezvous, rest @ ..] = plan(&settled, is_direct);
                assert_eq!(rendezvous, (2 * settled.config.c0_bytes, rendezvous_count));
                for (bytes, count) in rest {
                    assert!(
                        count <= COUNT_MAX && bytes > 0 && bytes <= settled.config.c0_bytes,
                        "{bytes} {count}"
                    );
                    assert!(bytes <= landing_bytes / 4 || bytes == TINY_BYTES);
                }
            }
        }
    }

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
                instead(&mut by_shm::join(socket, agreed, options, None).unwrap());
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
