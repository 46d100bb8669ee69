//! Connections: the calls of one end. Each chooses the fabric ([`dispatch`]) and hands the call to its blocking shell.

mod building;
mod loans;
mod planning;
mod settings;
mod streaming;

use core::fmt;
#[cfg(feature = "recorder")]
use core::iter;
use core::ops::Range;

use superpipe_core::driver::{Drive, Received, RecvOperation, SendOperation};
#[cfg(feature = "recorder")]
use superpipe_core::recorder::Record;
use superpipe_core::{Counters, Event, Incoming, Reason};

use crate::address::Address;
use crate::blocking::dispatch::{AnyConnection, dispatch};
use crate::blocking::{ReadyConnection, connect};
use crate::deadline::Deadline;
use crate::description::{Description, Peer};
use crate::error::Error;
use crate::fabric::Registered;
use crate::options::Options;
use crate::outcome::{TryRecv, TrySend};
use crate::registered_buf::RegisteredBuf;
use crate::stream::{RecvInner, RecvStream, SendInner, SendStream};
use crate::trusted_buf::TrustedBuf;

/// One end of a connection.
///
/// Messages and streams of one direction arrive in the order in which they were sent; the two directions are independent. A message that
/// the peer does not receive keeps its blocks of the landing buffer. Once these are full, the sender waits, so two ends that only send
/// both reach their deadlines.
///
/// ```
/// # use core::time::Duration;
/// # use superpipe::{Address, Connection, Error, Listener, Options, Reason};
/// const DEADLINE: Duration = Duration::from_secs(30);
/// # fn main() -> Result<(), Error> {
/// # let path = std::env::temp_dir().join(format!("superpipe-doc-{}.sock", std::process::id()));
/// # let address = Address::Shm(path);
/// let mut listener = Listener::bind(&address, Options::default())?;
/// let server = std::thread::spawn(move || -> Result<(), Error> {
///     let mut connection = listener.accept(DEADLINE)?;
///     let mut message = [0; 64];
///     let received = connection.recv_into(&mut [&mut message], DEADLINE)?;
///     connection.send(received.tag, &[b"got: ", &message[..received.bytes]], DEADLINE)?;
///     connection.flush(DEADLINE)
/// });
///
/// let mut connection = Connection::connect(&address, Options::default(), DEADLINE)?;
/// connection.send(7, &[b"hello"], DEADLINE)?;
/// let mut reply = [0; 64];
/// let received = connection.recv_into(&mut [&mut reply], DEADLINE)?;
/// assert_eq!((received.tag, &reply[..received.bytes]), (7, &b"got: hello"[..]));
/// connection.close(Reason::DONE, DEADLINE)?;
/// # let _ = server.join().unwrap();
/// # Ok(())
/// # }
/// ```
///
/// Dropping closes the connection; the peer can still drain what was sent. A drop waits until what was sent has left this end, for at
/// most [`Options::linger`](crate::Options::linger).
///
/// **After fork** the connection belongs to the process that made it. The child does not have its memory and must not use it. The child may
/// drop it, or a stream of it: over shared memory that closes the child's descriptors, over RDMA it does nothing. While the child keeps
/// it, the peer does not see the socket close when the parent ends; it learns of that from the parent's process if it can observe it.
pub struct Connection {
    inner: AnyConnection,
    description: Description,
    peer: Peer,
}

impl Connection {
    /// Makes a connection of its parts.
    pub(crate) const fn new(inner: AnyConnection, description: Description, peer: Peer) -> Self {
        Self { inner, description, peer }
    }

    /// Returns the connection behind its public face.
    pub(crate) const fn inner_mut(&mut self) -> &mut AnyConnection {
        &mut self.inner
    }

    /// Returns its parts.
    pub(crate) fn into_parts(self) -> (AnyConnection, Description, Peer) {
        let Self { inner, description, peer } = self;
        (inner, description, peer)
    }

    /// Connects to a listener. If there is none yet, retries until the deadline.
    ///
    /// # Errors
    /// The last cause: `Connect`, `Auth`, `Version`, `Protocol`, `Usage` (options that contradict those of the peer, or the address), `Limit`,
    /// `Device`, `PeerLost`, `Closed` (the peer closed at once), `Timeout`, `Interrupted`.
    pub fn connect(
        address: &Address,
        options: Options,
        deadline: impl Into<Deadline>,
    ) -> Result<Self, Error> {
        connect(address, options, None, deadline.into()).map(Self::from)
    }

    /// Returns the peer.
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// Sends a message, gathered from slices, and returns when the caller may use the slices again. The receiver can then take the message,
    /// unless it closes or ends before; [`flush`](Self::flush) waits until it has. Calls that wait, and [`progress`](Self::progress), detect
    /// that the peer has closed; what is sent until then, a full landing buffer at most, is lost.
    ///
    /// # Errors
    /// `Timeout`, `Interrupted`: this end cancelled the message; a receiver that has begun it gets `Cancelled` with
    /// [`Reason::GIVEN_UP`], and the connection can still be used. With a deadline of [`Duration::ZERO`](core::time::Duration::ZERO) the
    /// call is [`try_send`](Self::try_send) and cancels nothing; a message that is too long to be sent at once then fails with `Timeout` each
    /// time, where `try_send` returns [`TrySend::TooLong`].
    /// `Rejected`, `Closed`, `PeerLost`, `Protocol`, `Device`.
    #[inline]
    pub fn send(&mut self, tag: u64, slices: &[&[u8]], deadline: impl Into<Deadline>) -> Result<(), Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.send(tag, slices, deadline))
    }

    /// Receives the next message, scattered into slices.
    ///
    /// # Errors
    /// `TooSmall`: the message is longer than the slices together, or a stream; it is still there. `Timeout`, `Interrupted`: if a part was
    /// taken, it is lost and this end rejects the rest; a message of which nothing was taken is still there. (Only an operation can
    /// continue, since it gets the same slices each time.) If the peer's device may write the message into this memory by then
    /// ([`Protocol::Register`](superpipe_core::Protocol::Register)), the connection ends, since nothing else stops the device. With a
    /// deadline of [`Duration::ZERO`](core::time::Duration::ZERO) the call is [`try_recv`](Self::try_recv) and loses nothing. `Usage`: an
    /// operation or a stream has begun to take the message. `Cancelled`, `Closed`, `PeerLost`, `Protocol`, `Device`.
    #[inline]
    pub fn recv_into(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.recv_into(slices, deadline))
    }

    /// Sends a message of up to 64 KiB, and not longer than the landing buffer, if that is possible without waiting. Makes no system call,
    /// except to wake a peer that sleeps, allocates nothing and takes no lock.
    ///
    /// A loop of tries must call [`progress`](Self::progress) now and then, which sends keepalives and detects a peer that has ended.
    ///
    /// # Errors
    /// `Closed`, `PeerLost`, `Protocol`, `Device`.
    #[inline]
    pub fn try_send(&mut self, tag: u64, slices: &[&[u8]]) -> Result<TrySend, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.try_send(tag, slices))
    }

    /// Receives the next message if it is complete and fits; never takes a part of a message. Makes no system call, except to wake a peer
    /// that sleeps, allocates nothing, takes no lock, and reads no clock while messages are there.
    ///
    /// A loop of tries must call [`progress`](Self::progress) now and then, which sends keepalives and detects a peer that has ended.
    ///
    /// # Errors
    /// `Closed`, `PeerLost`, `Protocol`, `Device`.
    #[inline]
    pub fn try_recv(&mut self, slices: &mut [&mut [u8]]) -> Result<TryRecv, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.try_recv(slices))
    }

    /// Returns the next transfer, message or stream, if its begin has arrived, and leaves it there. Returns `None` also while a rejected one is
    /// still being discarded: a call discards 1,024 blocks at most.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn try_peek(&mut self) -> Result<Option<Incoming>, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.try_peek())
    }

    /// Sends the next part of a message that [`SendOperation::new`](crate::SendOperation::new) began, without waiting, from the same slices
    /// each time. [`Drive::Idle`]: there is no credit now. An operation lends no memory to a device: its message goes in blocks by any protocol.
    ///
    /// # Errors
    /// `Usage`: the slices do not have the bytes that the message was begun with; it was cancelled. `Rejected`, `Closed`, `PeerLost`,
    /// `Protocol`, `Device`.
    pub fn drive_send(&mut self, send: &mut SendOperation, slices: &[&[u8]]) -> Result<Drive<()>, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.drive_send(send, slices))
    }

    /// Cancels a message. If it has begun, the receiver gets the reason.
    pub fn cancel_send(&mut self, send: &mut SendOperation, reason: Reason) {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.cancel_send(send, reason));
    }

    /// Receives the next part of a message that [`RecvOperation::new`](crate::RecvOperation::new) began, without waiting, into the same
    /// slices each time. [`Drive::Idle`]: nothing more has arrived. An operation lends no memory to a device: its message comes in blocks by any
    /// protocol.
    ///
    /// # Errors
    /// `TooSmall`: the message is still there, and the operation has ended. `Usage`: the slices have less room than at first, and the message
    /// was rejected; or the operation has ended. `Cancelled`, `Closed`, `PeerLost`, `Protocol`,
    /// `Device`.
    pub fn drive_recv(
        &mut self,
        receive: &mut RecvOperation,
        slices: &mut [&mut [u8]],
    ) -> Result<Drive<Received>, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.drive_recv(receive, slices))
    }

    /// Gives a message up. If it has begun, this end rejects the rest, and the sender gets the reason.
    pub fn cancel_recv(&mut self, receive: &mut RecvOperation, reason: Reason) {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.cancel_recv(receive, reason));
    }

    /// Receives as [`recv_into`](Self::recv_into) does, into memory that was not written yet. While the message arrives, the call advises
    /// huge pages where they fit, and makes each 2 MiB resident just before it is written. It is faster from 64 KiB on, and many times
    /// faster from 2 MiB on; with memory that is resident already it is a little slower (docs/performance.md, "Cold memory").
    ///
    /// A [`RecvBuf`](crate::RecvBuf) has huge pages with `recv_into` as well. If the kernel ignores the advice, only speed is lost. The call
    /// touches no memory beyond the message, and none before the peer may send. The kernel keeps the advice after the call.
    ///
    /// # Errors
    /// As [`recv_into`](Self::recv_into).
    pub fn recv_into_cold(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.recv_into_cold(slices, deadline.into()))
    }

    /// Sends a part of a registered buffer as a message. With the protocol
    /// [`RegisterCached`](superpipe_core::Protocol::RegisterCached) a part of 4 KiB and more, over RDMA one longer than 64 KiB, goes without a
    /// copy through blocks. So it can with [`Auto`](superpipe_core::Protocol::Auto): over shared memory once the buffer has come again, over RDMA if that is
    /// expected to be faster. A shorter part, and any part with another protocol, is sent as by [`send`](Self::send).
    ///
    /// - **Over shared memory** the peer copies the message straight out of the buffer. The call returns once the message is on its way. The
    ///   buffer is then [shared](Self::is_shared) until the peer has received or rejected the message. To write to the buffer meanwhile is safe,
    ///   and changes what the peer receives: wait ([`wait_unshared`](Self::wait_unshared)), or send out of two buffers in turn. The first message
    ///   out of a buffer begins to register it with the connection; messages go through blocks until that is done. If the peer has offered a
    ///   [`TrustedBuf`], the call first writes the second half of the message into it. The peer can remove pages of that buffer: if the machine
    ///   then has none left, this process ends.
    /// - **Over RDMA** the device writes the message straight into the memory of a peer that receives it with
    ///   [`recv_registered`](Self::recv_registered), and through blocks otherwise. The call returns once the device has read all of it, so the
    ///   peer must receive it meanwhile. The first message out of a buffer registers it, beside the rendezvous.
    ///
    /// If registration is refused, messages go through blocks; see [`register`](Self::register).
    ///
    /// # Errors
    /// As [`send`](Self::send). With a deadline of zero a message of any length is sent at once over shared memory out of a buffer that the
    /// peer has mapped, and otherwise one that [`try_send`](Self::try_send) could send. `Usage`: the buffer has no such part.
    pub fn send_registered(
        &mut self,
        tag: u64,
        buffer: &RegisteredBuf,
        part: Range<usize>,
        deadline: impl Into<Deadline>,
    ) -> Result<(), Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.send_registered(tag, buffer, part, deadline.into()))
    }

    /// Receives the next message into a registered buffer, as [`recv_into`](Self::recv_into) does. Over RDMA, with the protocol
    /// [`RegisterCached`](superpipe_core::Protocol::RegisterCached) or [`Auto`](superpipe_core::Protocol::Auto), the peer's device can write a message longer than 64 KiB straight into it. The
    /// buffer is registered for that message only, unless the peer is trusted ([`Options::peer_trust`](crate::Options::peer_trust)).
    ///
    /// # Errors
    /// As [`recv_into`](Self::recv_into). If the peer's device may write the message by the deadline, the connection ends.
    pub fn recv_registered(
        &mut self,
        buffer: &mut RegisteredBuf,
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.recv_registered(buffer, deadline.into()))
    }

    /// Receives the next message into a trusted buffer. [`Options::peer_trust`](crate::Options::peer_trust) must be declared.
    ///
    /// Over shared memory, with the protocol [`RegisterCached`](superpipe_core::Protocol::RegisterCached), both ends copy a message at once that
    /// has 4 KiB or more and comes out of a [`RegisteredBuf`]: this end its first half, and the peer its second half. The peer does so
    /// if it knows of the buffer when it sends the message. The call [offers](Self::offer) the buffer itself if no message has arrived yet.
    /// A program that knows its buffer earlier offers it earlier: before it sends the request that the message answers.
    ///
    /// Nothing waits for any of this: a message arrives through blocks, by one copy, or by a copy of both ends. One whose second half has come
    /// into one buffer can be received into another one, or by any other call.
    ///
    /// # Errors
    /// As [`recv_into`](Self::recv_into). `Usage`: the peer is not declared to be trusted. `Limit`: another connection has offered the
    /// buffer, which needs [new memory](TrustedBuf), and there is none.
    pub fn recv_trusted(
        &mut self,
        buffer: &mut TrustedBuf,
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.recv_trusted(buffer, deadline.into()))
    }

    /// Offers a trusted buffer to the peer, which may then write a part of the next message into it, until that message is received. Returns
    /// true if the buffer is offered, also if it was before. The first call with a buffer only begins to expose it to the peer, and returns
    /// false. So does a call when a message is here already, another buffer is offered, no place is free, either end has no room in its
    /// budget, the buffer has 4 GiB or more, the connection has ended, or the fabric or the protocol knows no such memory. After a refusal the
    /// buffer is tried again with the 64th offer. Never waits.
    ///
    /// An offer cannot be taken back. Receive the message with [`recv_trusted`](Self::recv_trusted) into this buffer: into other memory its
    /// second half is copied once more.
    ///
    /// # Errors
    /// `Usage`: the peer is not declared to be trusted. `Limit`: another connection has offered the buffer, which needs [new
    /// memory](TrustedBuf), and there is none.
    pub fn offer(&mut self, buffer: &mut TrustedBuf) -> Result<bool, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.offer(buffer))
    }

    /// Registers a buffer with the connection, ahead of the first message out of it. Waits until that is done, or refused. Over shared memory
    /// the peer must drive its end meanwhile; over RDMA the call needs nothing of the peer.
    ///
    /// Over shared memory an end has eight places for its registered and trusted buffers together, and a connection keeps 64 registrations over
    /// RDMA. For a further buffer the call gives up the registered one that was used least recently, over shared memory of those that are not
    /// [shared](Self::is_shared); if there is none, a trusted one that is not offered. A buffer that is dropped is given up at the next call.
    /// Over shared memory a buffer of 4 GiB or more is refused. With [`Auto`](superpipe_core::Protocol::Auto) the peer maps 64 MiB of this end's
    /// buffers at most, and refuses one that would exceed that.
    ///
    /// # Errors
    /// `Usage`: the connection has another protocol than [`RegisterCached`](superpipe_core::Protocol::RegisterCached) and
    /// [`Auto`](superpipe_core::Protocol::Auto). `Timeout`, `Interrupted`,
    /// `Closed`, `PeerLost`, `Protocol`, `Device`.
    pub fn register(
        &mut self,
        buffer: &RegisteredBuf,
        deadline: impl Into<Deadline>,
    ) -> Result<Registered, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.register(buffer, deadline.into()))
    }

    /// Returns true while the peer may read a buffer, for a message out of it that it has neither received nor rejected. What is written
    /// meanwhile may become a part of that message. Once the connection has ended, it stays as it was. Over RDMA it is always false: there
    /// [`send_registered`](Self::send_registered) returns only once the device has read the message.
    #[must_use]
    pub fn is_shared(&mut self, buffer: &RegisteredBuf) -> bool {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.is_shared(buffer))
    }

    /// Waits until a buffer is not [shared](Self::is_shared) any more. [`flush`](Self::flush) waits for all messages.
    ///
    /// # Errors
    /// `Timeout`, `Interrupted`, `Closed`, `PeerLost`, `Protocol`, `Device`. Then the buffer may still be shared.
    pub fn wait_unshared(
        &mut self,
        buffer: &RegisteredBuf,
        deadline: impl Into<Deadline>,
    ) -> Result<(), Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.wait_unshared(buffer, deadline.into()))
    }

    /// Waits for the next transfer, message or stream, and leaves it there.
    ///
    /// # Errors
    /// `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn peek(&mut self, deadline: impl Into<Deadline>) -> Result<Incoming, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.peek(deadline.into()))
    }

    /// Rejects the next transfer. Returns false if there is none, or while a rejected one is still being discarded.
    pub fn reject(&mut self, reason: Reason) -> bool {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.reject(reason))
    }

    /// Opens a stream: a transfer whose length is known when it ends. Waits while the previous transfer is being cancelled.
    ///
    /// # Errors
    /// `Timeout`, also if a message that [`drive_send`](Self::drive_send) has begun is neither complete nor cancelled. `Closed`,
    /// `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn open_stream(&mut self, tag: u64, deadline: impl Into<Deadline>) -> Result<SendStream<'_>, Error> {
        Ok(SendStream(match &mut self.inner {
            AnyConnection::Shm(inner) => SendInner::Shm(inner.open_stream(tag, deadline.into())?),
            #[cfg(feature = "verbs")]
            AnyConnection::Rdma(inner) => SendInner::Rdma(inner.open_stream(tag, deadline.into())?),
        }))
    }

    /// Waits for the next transfer, and receives it as a stream, be it a message or a stream.
    ///
    /// # Errors
    /// `Usage`: an operation has begun to take the message. `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn accept_stream(&mut self, deadline: impl Into<Deadline>) -> Result<RecvStream<'_>, Error> {
        Ok(RecvStream(match &mut self.inner {
            AnyConnection::Shm(inner) => RecvInner::Shm(inner.accept_stream(deadline.into())?),
            #[cfg(feature = "verbs")]
            AnyConnection::Rdma(inner) => RecvInner::Rdma(inner.accept_stream(deadline.into())?),
        }))
    }

    /// Waits until the peer has received and acknowledged everything that was sent. The peer acknowledges a message of more than 104 bytes
    /// (over RDMA: 64 KiB) or a stream at its end, and the last few smaller messages at its next wait, progress or close.
    ///
    /// # Errors
    /// `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn flush(&mut self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.flush(deadline.into()))
    }

    /// Runs `work`, which may block for long (a disk, another service), while a helper thread sends keepalives to the peer. The first call
    /// makes the thread.
    pub fn keep_alive_while<R>(&mut self, work: impl FnOnce() -> R) -> R {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.keep_alive_while(work))
    }

    /// Closes the connection. With [`Reason::DONE`] the peer can drain what was sent before it sees the close. With another reason it sees the
    /// close at its next wait; calls that do not wait may still return what was sent before.
    ///
    /// # Errors
    /// `Timeout`: the close could not be sent to the peer.
    pub fn close(mut self, reason: Reason, deadline: impl Into<Deadline>) -> Result<(), Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.close(reason, deadline.into()))
    }

    /// Makes one round of progress, for a program with a loop of its own. It also sends keepalives, and detects a peer that has ended, which
    /// the next try then reports. Returns true if anything was done.
    pub fn progress(&mut self) -> bool {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.progress())
    }

    /// Takes the oldest event: a transfer that the peer rejected. Sixteen are kept. If older ones were dropped, [`Event::Missed`] comes first,
    /// with their count.
    pub fn poll_event(&mut self) -> Option<Event> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.poll_event())
    }

    /// Returns the counters of the connection.
    #[must_use]
    pub fn counters(&mut self) -> Counters {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.counters())
    }

    /// Returns the fabric and the settings of the connection.
    #[must_use]
    pub const fn description(&self) -> Description {
        self.description
    }

    /// Begins to record events, with an empty recorder, or stops and forgets what was recorded. Memory for
    /// [`recorder::CAPACITY`](superpipe_core::recorder::CAPACITY) records is allocated here; recording itself allocates
    /// nothing and overwrites the oldest records.
    ///
    /// Times are `CLOCK_MONOTONIC` in nanoseconds, which all processes of a host share.
    #[cfg(feature = "recorder")]
    pub fn record(&mut self, on: bool) {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.record(on));
    }

    /// Takes the records, oldest first. Recording continues.
    #[cfg(feature = "recorder")]
    pub fn take_records(&mut self) -> impl Iterator<Item = Record> + use<'_> {
        iter::from_fn(|| dispatch!(AnyConnection, &mut self.inner, inner => inner.take_record()))
    }
}

impl From<ReadyConnection> for Connection {
    fn from(ready: ReadyConnection) -> Self {
        let ReadyConnection { inner, description, peer } = ready;
        Self { inner, description, peer }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("description", &self.description)
            .field("peer", &self.peer)
            .finish()
    }
}
