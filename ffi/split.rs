//! Halves of a connection that was split, for two threads.

mod building;
mod loans;

use core::fmt;
use core::ops::Range;

use superpipe_core::driver::{Drive, Received, RecvOperation, SendOperation};
use superpipe_core::{Counters, Event, Incoming, Reason};

use crate::blocking::dispatch::{AnyHalf, dispatch};
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::description::{Description, Peer};
use crate::error::Error;
use crate::fabric::Registered;
use crate::outcome::{TryRecv, TrySend};
use crate::registered_buf::RegisteredBuf;
use crate::stream::{RecvInner, RecvStream, SendInner, SendStream};
use crate::trusted_buf::TrustedBuf;

/// Sending half of a connection: see [`Connection::split`]. Its calls are those of [`Connection`].
pub struct SendHalf {
    inner: AnyHalf,
    description: Description,
    peer: Peer,
}

/// Receiving half of a connection: see [`Connection::split`]. Its calls are those of [`Connection`].
pub struct RecvHalf {
    inner: AnyHalf,
    description: Description,
    peer: Peer,
}

impl Connection {
    /// Splits the connection into a sending and a receiving half, for two threads. The halves have the calls of the connection. They share
    /// its state behind a spin lock, which a half holds for a few attempts at a time and never while it waits: both can wait, and what
    /// arrives for one wakes both. A connection that is not split has no lock. A try that takes a long message holds it until it has copied all of
    /// that, and a call that registers or gives back memory until that is done; a deadline of the other half can pass meanwhile.
    ///
    /// Each half has its own waits, deadlines and operations. A call that does not wait, such as [`SendHalf::try_send`], also returns without
    /// result while the other half holds the lock.
    ///
    /// Dropping one half leaves the other half and the connection open. Dropping the second closes the connection, as dropping a
    /// [`Connection`] does. [`SendHalf::reunite`] joins the halves.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use superpipe::{Address, Connection, Error, Listener, Options, RecvHalf};
    /// # const DEADLINE: Duration = Duration::from_secs(30);
    /// /// Sends back every message.
    /// fn echo(connection: Connection) -> Result<Connection, Error> {
    ///     let (mut sending, mut receiving) = connection.split();
    ///     let (queue, messages) = std::sync::mpsc::channel::<Vec<u8>>();
    ///     let receiver = std::thread::spawn(move || -> Result<RecvHalf, Error> {
    ///         loop {
    ///             let mut message = vec![0; 1024];
    ///             let received = receiving.recv_into(&mut [&mut message], DEADLINE)?;
    ///             message.truncate(received.bytes);
    ///             if received.bytes == 0 || queue.send(message).is_err() {
    ///                 return Ok(receiving);
    ///             }
    ///         }
    ///     });
    ///     for message in messages {
    ///         sending.send(0, &[&message], DEADLINE)?;
    ///     }
    ///     let receiving = receiver.join().unwrap()?;
    ///     Ok(sending.reunite(receiving).expect("they are of one connection"))
    /// }
    /// # fn main() -> Result<(), Error> {
    /// # let path = std::env::temp_dir().join(format!("superpipe-split-doc-{}.sock", std::process::id()));
    /// # let mut listener = Listener::bind(&Address::Shm(path.clone()), Options::default())?;
    /// # let echoing = std::thread::spawn(move || echo(listener.accept(DEADLINE)?));
    /// # let mut connection = Connection::connect(&Address::Shm(path), Options::default(), DEADLINE)?;
    /// # connection.send(0, &[b"hello"], DEADLINE)?;
    /// # let mut message = [0; 5];
    /// # connection.recv_into(&mut [&mut message], DEADLINE)?;
    /// # assert_eq!(&message, b"hello");
    /// # connection.send(0, &[], DEADLINE)?;
    /// # echoing.join().unwrap()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn split(self) -> (SendHalf, RecvHalf) {
        let (inner, description, peer) = self.into_parts();
        let [sending, receiving] = inner.split();
        (SendHalf::new(sending, description, peer), RecvHalf::new(receiving, description, peer))
    }
}

impl SendHalf {
    pub(super) const fn new(inner: AnyHalf, description: Description, peer: Peer) -> Self {
        Self { inner, description, peer }
    }

    /// Joins the two halves of a connection.
    ///
    /// # Errors
    /// The halves are not of one connection. Both are returned unchanged.
    #[expect(clippy::result_large_err, reason = "the halves come back")]
    pub fn reunite(self, other: RecvHalf) -> Result<Connection, (Self, RecvHalf)> {
        let Self { inner, description, peer } = self;
        let reunited = inner.reunite(other.inner);
        reunited.map(|inner| Connection::new(inner, description, peer)).map_err(|[sending, receiving]| {
            (Self::new(sending, description, peer), RecvHalf::new(receiving, other.description, other.peer))
        })
    }

    /// Returns the peer.
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// Returns the fabric and the settings of the connection.
    #[must_use]
    pub const fn description(&self) -> Description {
        self.description
    }

    /// Sends a message: see [`Connection::send`].
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send(&mut self, tag: u64, slices: &[&[u8]], deadline: impl Into<Deadline>) -> Result<(), Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.send(tag, slices, deadline))
    }

    /// Sends a message if that is possible without waiting: see [`Connection::try_send`]. Returns [`TrySend::Full`] also while the other half
    /// holds the lock.
    ///
    /// # Errors
    /// As [`Connection::try_send`].
    pub fn try_send(&mut self, tag: u64, slices: &[&[u8]]) -> Result<TrySend, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.try_send(tag, slices))
    }

    /// Sends a part of a registered buffer as a message, as [`Connection::send_registered`] does.
    ///
    /// # Errors
    /// As [`Connection::send_registered`].
    pub fn send_registered(
        &mut self,
        tag: u64,
        buffer: &RegisteredBuf,
        part: Range<usize>,
        deadline: impl Into<Deadline>,
    ) -> Result<(), Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.send_registered(tag, buffer, part, deadline.into()))
    }

    /// Registers a buffer with the connection, as [`Connection::register`] does.
    ///
    /// # Errors
    /// As [`Connection::register`].
    pub fn register(
        &mut self,
        buffer: &RegisteredBuf,
        deadline: impl Into<Deadline>,
    ) -> Result<Registered, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.register(buffer, deadline.into()))
    }

    /// Returns true while the peer may read a buffer, as [`Connection::is_shared`] does.
    #[must_use]
    pub fn is_shared(&mut self, buffer: &RegisteredBuf) -> bool {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.is_shared(buffer))
    }

    /// Waits until a buffer is not shared any more, as [`Connection::wait_unshared`] does.
    ///
    /// # Errors
    /// As [`Connection::wait_unshared`].
    pub fn wait_unshared(
        &mut self,
        buffer: &RegisteredBuf,
        deadline: impl Into<Deadline>,
    ) -> Result<(), Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.wait_unshared(buffer, deadline.into()))
    }

    /// Sends the next part of a message: see [`Connection::drive_send`]. Returns [`Drive::Idle`] also while the other half
    /// holds the lock.
    ///
    /// # Errors
    /// As [`Connection::drive_send`].
    pub fn drive_send(&mut self, send: &mut SendOperation, slices: &[&[u8]]) -> Result<Drive<()>, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.drive_send(send, slices))
    }

    /// Cancels a message: see [`Connection::cancel_send`].
    pub fn cancel_send(&mut self, send: &mut SendOperation, reason: Reason) {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.cancel_send(send, reason));
    }

    /// Opens a stream: see [`Connection::open_stream`].
    ///
    /// # Errors
    /// As [`Connection::open_stream`].
    pub fn open_stream(&mut self, tag: u64, deadline: impl Into<Deadline>) -> Result<SendStream<'_>, Error> {
        Ok(SendStream(match &mut self.inner {
            AnyHalf::Shm(inner) => SendInner::ShmHalf(inner.open_stream(tag, deadline.into())?),
            #[cfg(feature = "verbs")]
            AnyHalf::Rdma(inner) => SendInner::RdmaHalf(inner.open_stream(tag, deadline.into())?),
        }))
    }

    /// Waits until the peer has acknowledged everything that was sent: see [`Connection::flush`].
    ///
    /// # Errors
    /// As [`Connection::flush`].
    pub fn flush(&mut self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.flush(deadline.into()))
    }

    /// Makes one round of progress: see [`Connection::progress`]. Returns false also while the other half holds the lock.
    pub fn progress(&mut self) -> bool {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.progress())
    }

    /// Runs `work` while a helper thread sends keepalives: see [`Connection::keep_alive_while`]. The other half is not affected.
    pub fn keep_alive_while<R>(&mut self, work: impl FnOnce() -> R) -> R {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.keep_alive_while(work))
    }

    /// Takes the oldest event of either half: see [`Connection::poll_event`].
    pub fn poll_event(&mut self) -> Option<Event> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.poll_event())
    }

    /// Returns the counters of the connection, for both directions.
    #[must_use]
    pub fn counters(&mut self) -> Counters {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.counters())
    }

    /// Sets the protocol of transfers that start from now on, for tests; programs propose one by [`Tuning::protocol`](crate::Tuning::protocol).
    #[cfg(feature = "internals")]
    pub fn set_protocol(&mut self, protocol: superpipe_core::Protocol) {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.set_protocol(protocol));
    }

    /// Closes both directions of the connection: see [`Connection::close`]. Calls of the other half then return an error of kind `Usage`, a
    /// call that sleeps within 50 ms.
    ///
    /// # Errors
    /// As [`Connection::close`].
    pub fn close(mut self, reason: Reason, deadline: impl Into<Deadline>) -> Result<(), Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.close(reason, deadline.into()))
    }
}

impl RecvHalf {
    pub(super) const fn new(inner: AnyHalf, description: Description, peer: Peer) -> Self {
        Self { inner, description, peer }
    }

    /// Returns the peer.
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// Returns the fabric and the settings of the connection.
    #[must_use]
    pub const fn description(&self) -> Description {
        self.description
    }

    /// Receives the next message: see [`Connection::recv_into`].
    ///
    /// # Errors
    /// As [`Connection::recv_into`].
    pub fn recv_into(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.recv_into(slices, deadline))
    }

    /// Receives as [`recv_into`](Self::recv_into) does, into memory that was not written yet: see [`Connection::recv_into_cold`].
    ///
    /// # Errors
    /// As [`Connection::recv_into_cold`].
    pub fn recv_into_cold(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.recv_into_cold(slices, deadline.into()))
    }

    /// Receives the next message into a registered buffer, as [`recv_into`](Self::recv_into) does.
    ///
    /// # Errors
    /// As [`recv_into`](Self::recv_into).
    pub fn recv_registered(
        &mut self,
        buffer: &mut RegisteredBuf,
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.recv_registered(buffer, deadline.into()))
    }

    /// Receives the next message into a trusted buffer, as [`Connection::recv_trusted`] does.
    ///
    /// # Errors
    /// As [`Connection::recv_trusted`].
    pub fn recv_trusted(
        &mut self,
        buffer: &mut TrustedBuf,
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.recv_trusted(buffer, deadline.into()))
    }

    /// Offers a trusted buffer to the peer, as [`Connection::offer`] does.
    ///
    /// # Errors
    /// As [`Connection::offer`].
    pub fn offer(&mut self, buffer: &mut TrustedBuf) -> Result<bool, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.offer(buffer))
    }

    /// Receives the next message if it is complete: see [`Connection::try_recv`]. Returns [`TryRecv::Nothing`] also while the other half holds
    /// the lock.
    ///
    /// # Errors
    /// As [`Connection::try_recv`].
    pub fn try_recv(&mut self, slices: &mut [&mut [u8]]) -> Result<TryRecv, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.try_recv(slices))
    }

    /// Returns the next transfer if its begin has arrived: see [`Connection::try_peek`]. Returns `None` also while the other half holds the
    /// lock.
    ///
    /// # Errors
    /// As [`Connection::try_peek`].
    pub fn try_peek(&mut self) -> Result<Option<Incoming>, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.try_peek())
    }

    /// Receives the next part of a message: see [`Connection::drive_recv`]. Returns [`Drive::Idle`] also while the other half holds the
    /// lock.
    ///
    /// # Errors
    /// As [`Connection::drive_recv`].
    pub fn drive_recv(
        &mut self,
        receive: &mut RecvOperation,
        slices: &mut [&mut [u8]],
    ) -> Result<Drive<Received>, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.drive_recv(receive, slices))
    }

    /// Gives a message up: see [`Connection::cancel_recv`].
    pub fn cancel_recv(&mut self, receive: &mut RecvOperation, reason: Reason) {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.cancel_recv(receive, reason));
    }

    /// Waits for the next transfer, and leaves it there: see [`Connection::peek`].
    ///
    /// # Errors
    /// As [`Connection::peek`].
    pub fn peek(&mut self, deadline: impl Into<Deadline>) -> Result<Incoming, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.peek(deadline.into()))
    }

    /// Waits for the next transfer, and receives it as a stream: see [`Connection::accept_stream`].
    ///
    /// # Errors
    /// As [`Connection::accept_stream`].
    pub fn accept_stream(&mut self, deadline: impl Into<Deadline>) -> Result<RecvStream<'_>, Error> {
        Ok(RecvStream(match &mut self.inner {
            AnyHalf::Shm(inner) => RecvInner::ShmHalf(inner.accept_stream(deadline.into())?),
            #[cfg(feature = "verbs")]
            AnyHalf::Rdma(inner) => RecvInner::RdmaHalf(inner.accept_stream(deadline.into())?),
        }))
    }

    /// Rejects the next transfer: see [`Connection::reject`].
    pub fn reject(&mut self, reason: Reason) -> bool {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.reject(reason))
    }

    /// Makes one round of progress: see [`Connection::progress`]. Returns false also while the other half holds the lock.
    pub fn progress(&mut self) -> bool {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.progress())
    }

    /// Runs `work` while a helper thread sends keepalives: see [`Connection::keep_alive_while`]. The other half is not affected.
    pub fn keep_alive_while<R>(&mut self, work: impl FnOnce() -> R) -> R {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.keep_alive_while(work))
    }

    /// Returns the counters of the connection, for both directions.
    #[must_use]
    pub fn counters(&mut self) -> Counters {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.counters())
    }
}

impl fmt::Debug for SendHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_half("SendHalf", &self.description, &self.peer, f)
    }
}

impl fmt::Debug for RecvHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_half("RecvHalf", &self.description, &self.peer, f)
    }
}

fn fmt_half(name: &str, description: &Description, peer: &Peer, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.debug_struct(name).field("description", description).field("peer", peer).finish()
}
