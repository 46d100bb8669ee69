//! This end, once the connection stands: what the cases try.

use core::time::Duration;
use std::thread;

use superpipe::{Budget, Connection, Reason, RecvStream, SendStream};

use crate::case::{Failed, GOODBYE, Seen, bounded, bounded_idle, interrupted};
use crate::peer::process::Peer;
use crate::peer::script::pattern;

/// Default of the process's limit of shared memory.
const SHARED_MAX: u64 = 1 << 30;

/// The connection, the peer's process, and the deadline of the case.
pub(crate) struct Us<'a> {
    connection: Option<Connection>,
    peer: &'a mut Peer,
    pub(crate) limit: Duration,
    idle_share: Option<u32>,
}

impl<'a> Us<'a> {
    pub(crate) const fn new(
        connection: Connection,
        peer: &'a mut Peer,
        limit: Duration,
        idle_share: Option<u32>,
    ) -> Self {
        Self { connection: Some(connection), peer, limit, idle_share }
    }

    pub(crate) const fn peer(&mut self) -> &mut Peer {
        self.peer
    }

    pub(crate) const fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().unwrap()
    }

    /// A call of the case, which must return within ten times the deadline.
    pub(crate) fn timed<T>(&mut self, call: impl FnOnce(&mut Connection, Duration) -> T) -> T {
        let (limit, connection) = (self.limit, self.connection.as_mut().unwrap());
        bounded_idle(limit, self.idle_share, || call(connection, limit))
    }

    /// Sets the interrupt flag after the deadline's time, while `call` runs with no deadline that matters.
    pub(crate) fn interrupted<T>(&mut self, call: impl FnOnce(&mut Connection) -> T) -> T {
        interrupted(self.limit, || self.timed(|connection, _| call(connection)))
    }

    /// Receives a message, and compares it with what the script says for its tag.
    pub(crate) fn receive(&mut self, room: usize) -> Result<u64, Failed> {
        let mut buffer = vec![0xEE; room];
        let received = self.timed(|connection, limit| connection.recv_into(&mut [&mut buffer], limit))?;
        let wrong = (0..received.bytes).find(|at| buffer[*at] != pattern(received.tag, *at));
        assert_eq!(wrong, None, "byte of message {received:?} that was never sent");
        Ok(received.tag)
    }

    /// The next stream is read until it ends or fails, and compared.
    pub(crate) fn read(&mut self) -> Seen {
        self.timed(|connection, limit| {
            let mut stream = connection.accept_stream(limit)?;
            read_all(&mut stream)
        })
    }

    /// Closes, with ten times the deadline as a bound.
    pub(crate) fn close(&mut self, reason: Reason) -> Seen {
        let connection = self.connection.take().unwrap();
        let limit = self.limit;
        Ok(bounded_idle(limit, self.idle_share, || connection.close(reason, limit))?)
    }

    /// Drops the connection, with a bound of its own.
    pub(crate) fn leave(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            println!("{:?}", connection.counters());
            bounded("drop", GOODBYE, || drop(connection));
        }
    }
}

impl Drop for Us<'_> {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.leave();
        }
    }
}

/// Reads a stream to its end, and compares it.
pub(crate) fn read_all(stream: &mut RecvStream<'_>) -> Seen {
    let (tag, mut at, mut some) = (stream.tag(), 0, vec![0; 10_000]);
    loop {
        let bytes = std::io::Read::read(stream, &mut some)?;
        if bytes == 0 {
            return Ok(());
        }
        for byte in &some[..bytes] {
            assert_eq!(*byte, pattern(tag, at), "byte {at} of stream {tag} was never sent");
            at += 1;
        }
    }
}

/// Writes to a stream until it fails.
pub(crate) fn write_on(stream: &mut SendStream<'_>) -> Failed {
    let some = vec![7; 10_000];
    loop {
        if let Err(error) = std::io::Write::write_all(stream, &some) {
            return error.into();
        }
    }
}

/// Sends a message of a length that the ring does not hold.
pub(crate) fn send_long(us: &mut Us) -> Seen {
    let message = vec![7; 2 << 20];
    Ok(us.timed(|connection, limit| connection.send(1, &[&message], limit))?)
}

/// Sends a message that a small buffer holds some twenty parts of.
pub(crate) fn send_parts(us: &mut Us) -> Seen {
    let message = vec![7; 16_000];
    Ok(us.timed(|connection, limit| connection.send(1, &[&message], limit))?)
}

/// Does the same, and then receives a message.
pub(crate) fn send_then_recv(us: &mut Us) -> Seen {
    send_long(us)?;
    recv(us)
}

/// Leaves nothing of the budget but what is in use, while `call` runs.
fn without_budget(us: &mut Us, call: fn(&mut Us) -> Seen) -> Seen {
    Budget::set_shared_max(Budget::shared_bytes());
    let seen = call(us);
    Budget::set_shared_max(SHARED_MAX);
    seen
}

/// Sends a long message where the budget has no room.
pub(crate) fn send_long_without_budget(us: &mut Us) -> Seen {
    without_budget(us, send_long)
}

/// Does the same as [`recv_three`] where the budget has no room.
pub(crate) fn recv_three_without_budget(us: &mut Us) -> Seen {
    without_budget(us, recv_three)
}

/// Sends messages in lines until one fails.
pub(crate) fn send_short(us: &mut Us) -> Seen {
    us.timed(|connection, limit| {
        loop {
            connection.send(1, &[b"tiny"], limit)?;
        }
    })
}

/// Receives one message.
pub(crate) fn recv(us: &mut Us) -> Seen {
    us.receive(1 << 20).map(|_| ())
}

/// Receives messages until one fails.
pub(crate) fn recv_all(us: &mut Us) -> Seen {
    loop {
        us.receive(1 << 20)?;
    }
}

/// Receives the messages of tags 1 to 3, and then what comes.
pub(crate) fn recv_three(us: &mut Us) -> Seen {
    for tag in 1..=3 {
        assert_eq!(us.receive(1 << 20).unwrap(), tag);
    }
    recv(us)
}

/// Waits for the peer to have taken everything.
pub(crate) fn flush(us: &mut Us) -> Seen {
    Ok(us.timed(|connection, limit| {
        connection.send(1, &[b"tiny"], limit)?;
        connection.flush(limit)
    })?)
}

/// Closes with reason 0.
pub(crate) fn close(us: &mut Us) -> Seen {
    us.close(Reason::DONE)
}

/// Drops the connection.
pub(crate) fn leave(us: &mut Us) -> Seen {
    us.leave();
    Ok(())
}
