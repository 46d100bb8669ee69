//! The two halves of a connection that was split, for two threads.

use core::fmt;

use superpipe_core::driver::{Drive, Receive, Received, Send};
use superpipe_core::{Counters, Event, Incoming, Protocol, Reason};

use super::connection::{Connection, Description, Inner};
use super::deadline::Deadline;
use super::error::Error;
use super::hand_on::hand_on;
use super::outcome::{TryRecv, TrySend};
use super::over::{Half, Over};
use super::peer::Peer;
use super::streams::{RecvInner, RecvStream, SendInner, SendStream};
#[cfg(feature = "verbs")]
use crate::rdma::Rdma;
use crate::shm::fabric::Shm;

/// The half of a connection that sends: see [`Connection::split`]. Its calls are those of [`Connection`].
pub struct SendHalf {
    inner: HalfInner,
    description: Description,
    peer: Peer,
}

/// The half of a connection that receives: see [`Connection::split`]. Its calls are those of [`Connection`].
pub struct RecvHalf {
    inner: HalfInner,
    description: Description,
    peer: Peer,
}

/// One variant a fabric.
pub(super) enum HalfInner {
    Shm(Over<Half<Shm>>),
    #[cfg(feature = "verbs")]
    Verbs(Over<Half<Rdma>>),
}

impl Connection {
    /// Splits the connection into a half that sends and one that receives, for two threads. Each call of a half is as the
    /// connection's; the two share what they must behind a spin lock, which is held for a few attempts at a time and never
    /// while one waits: so both can wait, and what comes for one wakes both. A connection that is not split has no lock.
    ///
    /// Each half has waits, deadlines and operations of its own. A call that does not wait, as [`SendHalf::try_send`], also finds
    /// nothing to do while the other half is at work.
    ///
    /// Dropping one half leaves the other as it is, and the direction open; dropping the second closes the connection, as dropping a
    /// [`Connection`] does. [`SendHalf::reunite`] puts the two together again.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use superpipe::{Address, Connection, Error, Listener, Options, RecvHalf};
    /// # const DEADLINE: Duration = Duration::from_secs(30);
    /// /// Sends back all that comes.
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
        let [sending, receiving] = match inner {
            Inner::Shm(over) => over.split().map(HalfInner::Shm),
            #[cfg(feature = "verbs")]
            Inner::Verbs(over) => over.split().map(HalfInner::Verbs),
        };
        (SendHalf::new(sending, description, peer), RecvHalf::new(receiving, description, peer))
    }
}

impl HalfInner {
    fn reunite(self, other: Self) -> Result<Inner, [Self; 2]> {
        match (self, other) {
            (Self::Shm(one), Self::Shm(other)) => {
                one.reunite(other).map(Inner::Shm).map_err(|halves| halves.map(Self::Shm))
            }
            #[cfg(feature = "verbs")]
            (Self::Verbs(one), Self::Verbs(other)) => {
                one.reunite(other).map(Inner::Verbs).map_err(|halves| halves.map(Self::Verbs))
            }
            #[cfg(feature = "verbs")]
            (one, other) => Err([one, other]),
        }
    }
}

impl SendHalf {
    pub(super) const fn new(inner: HalfInner, description: Description, peer: Peer) -> Self {
        Self { inner, description, peer }
    }

    /// Puts the two halves together again.
    ///
    /// # Errors
    /// They are not of one connection: both are given back as they were.
    #[expect(clippy::result_large_err, reason = "the halves come back")]
    pub fn reunite(self, other: RecvHalf) -> Result<Connection, (Self, RecvHalf)> {
        let Self { inner, description, peer } = self;
        let reunited = inner.reunite(other.inner);
        reunited.map(|inner| Connection::new(inner, description, peer)).map_err(|[sending, receiving]| {
            (Self::new(sending, description, peer), RecvHalf::new(receiving, other.description, other.peer))
        })
    }

    /// The peer.
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// Fabric and settings of the connection.
    #[must_use]
    pub const fn describe(&self) -> Description {
        self.description
    }

    /// Sends a message: see [`Connection::send`].
    ///
    /// # Errors
    /// As there.
    pub fn send(&mut self, tag: u64, slices: &[&[u8]], deadline: impl Into<Deadline>) -> Result<(), Error> {
        hand_on!(HalfInner, &mut self.inner, over => over.send(tag, slices, deadline))
    }

    /// Sends a message if that needs no waiting: see [`Connection::try_send`]. [`TrySend::Full`] also while the other half is at
    /// work.
    ///
    /// # Errors
    /// As there.
    pub fn try_send(&mut self, tag: u64, slices: &[&[u8]]) -> Result<TrySend, Error> {
        hand_on!(HalfInner, &mut self.inner, over => over.try_send(tag, slices))
    }

    /// Sends the next part of a message: see [`Connection::drive_send`]. [`Drive::Idle`] also while the other half is at work.
    ///
    /// # Errors
    /// As there.
    pub fn drive_send(&mut self, send: &mut Send, slices: &[&[u8]]) -> Result<Drive<()>, Error> {
        hand_on!(HalfInner, &mut self.inner, over => over.drive_send(send, slices))
    }

    /// Gives a message up: see [`Connection::cancel_send`].
    pub fn cancel_send(&mut self, send: &mut Send, reason: Reason) {
        hand_on!(HalfInner, &mut self.inner, over => over.cancel_send(send, reason));
    }

    /// Opens a stream: see [`Connection::send_stream`].
    ///
    /// # Errors
    /// As there.
    pub fn send_stream(&mut self, tag: u64, deadline: impl Into<Deadline>) -> Result<SendStream<'_>, Error> {
        Ok(SendStream(match &mut self.inner {
            HalfInner::Shm(over) => SendInner::HalfShm(over.send_stream(tag, deadline.into())?),
            #[cfg(feature = "verbs")]
            HalfInner::Verbs(over) => SendInner::HalfVerbs(over.send_stream(tag, deadline.into())?),
        }))
    }

    /// Waits until the peer has taken out all that was sent: see [`Connection::flush`].
    ///
    /// # Errors
    /// As there.
    pub fn flush(&mut self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        hand_on!(HalfInner, &mut self.inner, over => over.flush(deadline.into()))
    }

    /// One round of progress: see [`Connection::progress`]. False also while the other half is at work.
    pub fn progress(&mut self) -> bool {
        hand_on!(HalfInner, &mut self.inner, over => over.progress())
    }

    /// Runs `work` while a helper thread shows life: see [`Connection::blocking`]. The other half goes on meanwhile.
    pub fn blocking<R>(&mut self, work: impl FnOnce() -> R) -> R {
        hand_on!(HalfInner, &mut self.inner, over => over.blocking(work))
    }

    /// Takes the oldest event of either half out.
    pub fn poll_event(&mut self) -> Option<Event> {
        hand_on!(HalfInner, &mut self.inner, over => over.poll_event())
    }

    /// Counters of the connection, of both directions.
    #[must_use]
    pub fn counters(&mut self) -> Counters {
        hand_on!(HalfInner, &mut self.inner, over => over.counters())
    }

    /// Sets the protocol of the transfers started from now on.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        hand_on!(HalfInner, &mut self.inner, over => over.set_protocol(protocol));
    }

    /// Closes the connection, both directions: see [`Connection::close`]. The other half learns of it by an error of kind `Usage`, in a
    /// call that sleeps within 50 ms.
    ///
    /// # Errors
    /// As there.
    pub fn close(mut self, reason: Reason, deadline: impl Into<Deadline>) -> Result<(), Error> {
        hand_on!(HalfInner, &mut self.inner, over => over.close(reason, deadline.into()))
    }
}

impl RecvHalf {
    pub(super) const fn new(inner: HalfInner, description: Description, peer: Peer) -> Self {
        Self { inner, description, peer }
    }

    /// The peer.
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// Fabric and settings of the connection.
    #[must_use]
    pub const fn describe(&self) -> Description {
        self.description
    }

    /// Receives the next message whole: see [`Connection::recv_into`].
    ///
    /// # Errors
    /// As there.
    pub fn recv_into(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        hand_on!(HalfInner, &mut self.inner, over => over.recv_into(slices, deadline))
    }

    /// Receives as [`recv_into`](Self::recv_into) does, into memory that was not written yet: see [`Connection::recv_into_cold`].
    ///
    /// # Errors
    /// As there.
    pub fn recv_into_cold(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        hand_on!(HalfInner, &mut self.inner, over => over.recv_into_cold(slices, deadline.into()))
    }

    /// Takes the next message if all of it has come: see [`Connection::try_recv`]. [`TryRecv::Nothing`] also while the other half is
    /// at work.
    ///
    /// # Errors
    /// As there.
    pub fn try_recv(&mut self, slices: &mut [&mut [u8]]) -> Result<TryRecv, Error> {
        hand_on!(HalfInner, &mut self.inner, over => over.try_recv(slices))
    }

    /// The next transfer, if it has come: see [`Connection::try_peek`]. None also while the other half is at work.
    ///
    /// # Errors
    /// As there.
    pub fn try_peek(&mut self) -> Result<Option<Incoming>, Error> {
        hand_on!(HalfInner, &mut self.inner, over => over.try_peek())
    }

    /// Takes the next part of a message: see [`Connection::drive_receive`]. [`Drive::Idle`] also while the other half is at work.
    ///
    /// # Errors
    /// As there.
    pub fn drive_receive(
        &mut self,
        receive: &mut Receive,
        slices: &mut [&mut [u8]],
    ) -> Result<Drive<Received>, Error> {
        hand_on!(HalfInner, &mut self.inner, over => over.drive_receive(receive, slices))
    }

    /// Gives a message up: see [`Connection::cancel_receive`].
    pub fn cancel_receive(&mut self, receive: &mut Receive, reason: Reason) {
        hand_on!(HalfInner, &mut self.inner, over => over.cancel_receive(receive, reason));
    }

    /// Waits for the next transfer, and leaves it there: see [`Connection::incoming`].
    ///
    /// # Errors
    /// As there.
    pub fn incoming(&mut self, deadline: impl Into<Deadline>) -> Result<Incoming, Error> {
        hand_on!(HalfInner, &mut self.inner, over => over.incoming(deadline.into()))
    }

    /// Waits for the next transfer, to be received as a stream: see [`Connection::recv_stream`].
    ///
    /// # Errors
    /// As there.
    pub fn recv_stream(&mut self, deadline: impl Into<Deadline>) -> Result<RecvStream<'_>, Error> {
        Ok(RecvStream(match &mut self.inner {
            HalfInner::Shm(over) => RecvInner::HalfShm(over.recv_stream(deadline.into())?),
            #[cfg(feature = "verbs")]
            HalfInner::Verbs(over) => RecvInner::HalfVerbs(over.recv_stream(deadline.into())?),
        }))
    }

    /// Refuses the transfer at the head. False if there is none.
    pub fn reject(&mut self, reason: Reason) -> bool {
        hand_on!(HalfInner, &mut self.inner, over => over.reject(reason))
    }

    /// One round of progress: see [`Connection::progress`]. False also while the other half is at work.
    pub fn progress(&mut self) -> bool {
        hand_on!(HalfInner, &mut self.inner, over => over.progress())
    }

    /// Runs `work` while a helper thread shows life: see [`Connection::blocking`]. The other half goes on meanwhile.
    pub fn blocking<R>(&mut self, work: impl FnOnce() -> R) -> R {
        hand_on!(HalfInner, &mut self.inner, over => over.blocking(work))
    }

    /// Counters of the connection, of both directions.
    #[must_use]
    pub fn counters(&mut self) -> Counters {
        hand_on!(HalfInner, &mut self.inner, over => over.counters())
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
