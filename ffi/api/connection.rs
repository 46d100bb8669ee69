//! A connection, over whichever fabric the peer was met by.
//!
//! One branch, which is always taken the same way, and no indirection: behind it everything is of one fabric.

use core::fmt;
#[cfg(feature = "recorder")]
use core::iter;

use superpipe_core::driver::{Drive, Receive, Received, Send};
#[cfg(feature = "recorder")]
use superpipe_core::recorder::Record;
use superpipe_core::{Counters, Event, Incoming, Protocol, Reason};

use super::deadline::Deadline;
use super::error::Error;
use super::hand_on::hand_on;
use super::outcome::{TryRecv, TrySend};
use super::over::{Over, Whole};
use super::peer::Peer;
use super::streams::{RecvInner, RecvStream, SendInner, SendStream};
use crate::os::WaitStrategy;
#[cfg(feature = "verbs")]
use crate::rdma::{DeviceName, Rdma};
use crate::shm::fabric::Shm;
use crate::tuning::Settled;

/// Fabric and settings of a connection, for reports.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The fabric.
    pub fabric: &'static str,
    /// The RDMA device.
    #[cfg(feature = "verbs")]
    pub device: Option<DeviceName>,
    /// Settings that both ends agreed on.
    pub settled: Settled,
    /// Reason for the arrival mode.
    pub arrival_reason: &'static str,
    /// Bytes of the process's [`Budget`](crate::Budget) that the connection takes: over shared memory both segments, over RDMA
    /// what this end registered.
    pub provisioned_bytes: u64,
}

/// One end of a connection.
///
/// Messages and streams of one direction arrive in the order in which they were sent; the two directions are
/// independent. A message that nobody receives holds its blocks, and then the sender waits: two ends that both only send
/// will both meet their deadlines.
///
/// Dropping closes the connection; the peer can still receive what was sent. A drop waits at most
/// [`Options::linger`](crate::Options::linger), until what was sent has left this end.
///
/// **After fork** the connection belongs to the process that made it: a child does not have its memory, and must not use it.
/// The child may drop it, or a stream of it, which harms nobody: over shared memory that closes the child's descriptors,
/// over RDMA it does nothing. Until it drops it, runs another program or ends, the peer does not see the socket close when the
/// parent ends, and learns of that from the parent's process, where it can see it.
pub struct Connection {
    inner: Inner,
    description: Description,
    peer: Peer,
}

/// One variant a fabric.
pub(super) enum Inner {
    Shm(Over<Whole<Shm>>),
    #[cfg(feature = "verbs")]
    Verbs(Over<Whole<Rdma>>),
}

impl From<Over<Whole<Shm>>> for Inner {
    fn from(over: Over<Whole<Shm>>) -> Self {
        Self::Shm(over)
    }
}

#[cfg(feature = "verbs")]
impl From<Over<Whole<Rdma>>> for Inner {
    fn from(over: Over<Whole<Rdma>>) -> Self {
        Self::Verbs(over)
    }
}

impl Connection {
    /// A connection over a fabric, from its parts.
    pub(super) const fn new(inner: Inner, description: Description, peer: Peer) -> Self {
        Self { inner, description, peer }
    }

    /// Parts of it, for its two halves.
    pub(super) fn into_parts(self) -> (Inner, Description, Peer) {
        let Self { inner, description, peer } = self;
        (inner, description, peer)
    }

    /// The peer.
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// Sends a message, gathered from slices; returns when the caller may use them again. The receiver has it then, or
    /// will, unless it closes or dies before it takes it: [`flush`](Self::flush) tells. That the peer has closed is seen by calls that
    /// wait and by [`progress`](Self::progress); until then what is sent, a full ring at most, is on its way to nobody.
    ///
    /// # Errors
    /// `Timeout`, `Interrupted`: the message was given up; a receiver that has begun it sees it cancelled with
    /// [`Reason::GIVEN_UP`], and the connection can still be used. With a deadline of
    /// [`Duration::ZERO`](core::time::Duration::ZERO) it is [`try_send`](Self::try_send), and nothing was begun.
    /// `Rejected`, `Closed`, `PeerLost`, `Protocol`, `Device`.
    #[inline]
    pub fn send(&mut self, tag: u64, slices: &[&[u8]], deadline: impl Into<Deadline>) -> Result<(), Error> {
        hand_on!(Inner, &mut self.inner, over => over.send(tag, slices, deadline))
    }

    /// Receives the next message whole, scattered into slices.
    ///
    /// # Errors
    /// `TooSmall`: the message is longer than the slices together, or a stream; it is still there. `Timeout`, `Interrupted`: what came of
    /// it is lost if a part was taken, and the rest is rejected; a message of which nothing was taken is still there. (Only an
    /// operation can go on where it stopped, since it is driven with the same slices each time. The next call of this method may come
    /// with other memory.) With a deadline of [`Duration::ZERO`](core::time::Duration::ZERO) it is [`try_recv`](Self::try_recv), and
    /// loses nothing. `Usage`: an operation or a stream has begun to take the message. `Cancelled`, `Closed`, `PeerLost`, `Protocol`,
    /// `Device`.
    #[inline]
    pub fn recv_into(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        hand_on!(Inner, &mut self.inner, over => over.recv_into(slices, deadline))
    }

    /// Sends a message if that needs no waiting: up to 40 bytes in a line, else up to 64 KiB. It makes no system call, unless the peer
    /// sleeps and is to be woken, allocates nothing and takes no lock.
    ///
    /// A loop of tries calls [`progress`](Self::progress) now and then: that shows the peer life and finds one that is gone.
    ///
    /// # Errors
    /// `Closed`, `PeerLost`, `Protocol`, `Device`.
    #[inline]
    pub fn try_send(&mut self, tag: u64, slices: &[&[u8]]) -> Result<TrySend, Error> {
        hand_on!(Inner, &mut self.inner, over => over.try_send(tag, slices))
    }

    /// Takes the next message if all of it has come, and it fits; a part of a message is never taken. It makes no system call,
    /// unless the peer sleeps and is to be woken, allocates nothing, takes no lock, and reads no clock while messages are there.
    ///
    /// A loop of tries calls [`progress`](Self::progress) now and then: that shows the peer life and finds one that is gone.
    ///
    /// # Errors
    /// `Closed`, `PeerLost`, `Protocol`, `Device`.
    #[inline]
    pub fn try_recv(&mut self, slices: &mut [&mut [u8]]) -> Result<TryRecv, Error> {
        hand_on!(Inner, &mut self.inner, over => over.try_recv(slices))
    }

    /// The next transfer, message or stream, if it has come; it is left there.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn try_peek(&mut self) -> Result<Option<Incoming>, Error> {
        hand_on!(Inner, &mut self.inner, over => over.try_peek())
    }

    /// Sends the next part of a message that [`Send::new`](crate::SendOperation::new) began, without waiting; each time from the same
    /// slices. [`Drive::Idle`]: there is no room now.
    ///
    /// # Errors
    /// `Usage`: the slices have not the bytes that the message was begun with; it was given up. `Rejected`, `Closed`, `PeerLost`,
    /// `Protocol`, `Device`.
    pub fn drive_send(&mut self, send: &mut Send, slices: &[&[u8]]) -> Result<Drive<()>, Error> {
        hand_on!(Inner, &mut self.inner, over => over.drive_send(send, slices))
    }

    /// Gives a message up; the receiver is told the reason if it has begun.
    pub fn cancel_send(&mut self, send: &mut Send, reason: Reason) {
        hand_on!(Inner, &mut self.inner, over => over.cancel_send(send, reason));
    }

    /// Takes the next part of a message that [`Receive::new`](crate::ReceiveOperation::new) began, without waiting; each time into the
    /// same slices. [`Drive::Idle`]: nothing more has come.
    ///
    /// # Errors
    /// `TooSmall`: the message is still there, and the operation has ended. `Usage`: the slices have less room than the message,
    /// which was begun with enough, and was given up; or the operation has ended. `Cancelled`, `Closed`, `PeerLost`, `Protocol`,
    /// `Device`.
    pub fn drive_receive(
        &mut self,
        receive: &mut Receive,
        slices: &mut [&mut [u8]],
    ) -> Result<Drive<Received>, Error> {
        hand_on!(Inner, &mut self.inner, over => over.drive_receive(receive, slices))
    }

    /// Gives a message up; the rest of it is rejected if it has begun, and the sender is told the reason.
    pub fn cancel_receive(&mut self, receive: &mut Receive, reason: Reason) {
        hand_on!(Inner, &mut self.inner, over => over.cancel_receive(receive, reason));
    }

    /// Receives as [`recv_into`](Self::recv_into) does, into memory that was not written yet: while the message arrives, huge pages
    /// are asked for where they fit, and each 2 MiB is made resident in one call just before it is written. Worth it from
    /// 64 KiB on, and many times over from 2 MiB on; memory that is resident already loses a little.
    ///
    /// A [`RecvBuf`](crate::RecvBuf) has its huge pages with `recv_into` as well. What is done is advice: a kernel that
    /// does not take it costs the speed and nothing else. No memory beyond the message is touched, and none before the
    /// peer was told that it may send. The kernel remembers the advice for huge pages
    /// ([`advise_huge_pages`](crate::os::cold::advise_huge_pages)).
    ///
    /// # Errors
    /// As [`recv_into`](Self::recv_into).
    pub fn recv_into_cold(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        hand_on!(Inner, &mut self.inner, over => over.recv_into_cold(slices, deadline.into()))
    }

    /// Waits for the next transfer, and leaves it there.
    ///
    /// # Errors
    /// `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn incoming(&mut self, deadline: impl Into<Deadline>) -> Result<Incoming, Error> {
        hand_on!(Inner, &mut self.inner, over => over.incoming(deadline.into()))
    }

    /// Refuses the transfer at the head. False if there is none.
    pub fn reject(&mut self, reason: Reason) -> bool {
        hand_on!(Inner, &mut self.inner, over => over.reject(reason))
    }

    /// Opens a stream: a transfer whose length shows when it ends. It waits while the transfer before is being cancelled.
    ///
    /// # Errors
    /// `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn send_stream(&mut self, tag: u64, deadline: impl Into<Deadline>) -> Result<SendStream<'_>, Error> {
        Ok(SendStream(match &mut self.inner {
            Inner::Shm(over) => SendInner::Shm(over.send_stream(tag, deadline.into())?),
            #[cfg(feature = "verbs")]
            Inner::Verbs(over) => SendInner::Verbs(over.send_stream(tag, deadline.into())?),
        }))
    }

    /// Waits for the next transfer, to be received as a stream whatever its length.
    ///
    /// # Errors
    /// `Usage`: an operation has begun to take the message. `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn recv_stream(&mut self, deadline: impl Into<Deadline>) -> Result<RecvStream<'_>, Error> {
        Ok(RecvStream(match &mut self.inner {
            Inner::Shm(over) => RecvInner::Shm(over.recv_stream(deadline.into())?),
            #[cfg(feature = "verbs")]
            Inner::Verbs(over) => RecvInner::Verbs(over.recv_stream(deadline.into())?),
        }))
    }

    /// Waits until the peer has taken out all that was sent, and said so. It says so when a message of more than 40 bytes
    /// (over RDMA: 64 KiB) or a stream ends; of the last few smaller ones at its next wait, progress or close.
    ///
    /// # Errors
    /// `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn flush(&mut self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        hand_on!(Inner, &mut self.inner, over => over.flush(deadline.into()))
    }

    /// Runs `work`, which may be blocked for long (a disk, another service), while a helper thread shows the peer that
    /// this end lives. The first call makes the thread.
    pub fn blocking<R>(&mut self, work: impl FnOnce() -> R) -> R {
        hand_on!(Inner, &mut self.inner, over => over.blocking(work))
    }

    /// Closes. With [`Reason::DONE`] the peer can take out what was sent before it sees the end; with another reason it
    /// sees that as soon as it looks, which is when it waits: what it takes without waiting can still be what was sent before.
    ///
    /// # Errors
    /// `Timeout` where the peer could not even be told.
    pub fn close(mut self, reason: Reason, deadline: impl Into<Deadline>) -> Result<(), Error> {
        hand_on!(Inner, &mut self.inner, over => over.close(reason, deadline.into()))
    }

    /// One round of progress, for a program with a loop of its own. It also shows the peer life, and looks for one that is gone:
    /// the next try then says so. Returns true if anything was done.
    pub fn progress(&mut self) -> bool {
        hand_on!(Inner, &mut self.inner, over => over.progress())
    }

    /// Takes the oldest event out: a transfer that the peer rejected. Sixteen are kept. If older ones were dropped, [`Event::Missed`]
    /// comes first, with their count.
    pub fn poll_event(&mut self) -> Option<Event> {
        hand_on!(Inner, &mut self.inner, over => over.poll_event())
    }

    /// Sets the protocol of the transfers started from now on.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        hand_on!(Inner, &mut self.inner, over => over.set_protocol(protocol));
    }

    /// Sets how to wait from now on.
    pub fn set_wait(&mut self, wait: WaitStrategy) {
        hand_on!(Inner, &mut self.inner, over => over.set_wait(wait));
    }

    /// Counters of the connection.
    #[must_use]
    pub fn counters(&mut self) -> Counters {
        hand_on!(Inner, &mut self.inner, over => over.counters())
    }

    /// Fabric and settings of the connection.
    #[must_use]
    pub const fn describe(&self) -> Description {
        self.description
    }

    /// Begins to record events, with an empty recorder, or stops and forgets what was recorded. Memory for
    /// [`recorder::CAPACITY`](superpipe_core::recorder::CAPACITY) records is allocated here; recording itself allocates
    /// nothing, and where there are more the oldest make room.
    ///
    /// Times are `CLOCK_MONOTONIC` in nanoseconds, which all processes of a host share.
    #[cfg(feature = "recorder")]
    pub fn record(&mut self, on: bool) {
        hand_on!(Inner, &mut self.inner, over => over.record(on));
    }

    /// Takes what was recorded out, the oldest first. Recording goes on.
    #[cfg(feature = "recorder")]
    pub fn take_records(&mut self) -> impl Iterator<Item = Record> + use<'_> {
        iter::from_fn(|| hand_on!(Inner, &mut self.inner, over => over.take_record()))
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
