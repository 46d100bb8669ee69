//! Connections.

use core::future::{Future, poll_fn};
use core::time::Duration;
use std::sync::Arc;

use superpipe::{
    Address, Connecting, Deadline, Description, Error, ErrorKind, Incoming, Options, Peer, Reason, Received,
};

use crate::message::{Message, RecvError};
use crate::ready::Source;
use crate::shared::Shared;
use crate::split::{RecvHalf, SendHalf};
use crate::stream::{RecvStream, SendStream};

/// One end of a connection, whose calls are futures: see [`superpipe::Connection`] for what they do, and the crate's page for what a dropped future does.
///
/// Dropping it closes the connection; over RDMA that waits until what was sent has left this end, for [`Options::linger`] at most. [`close`](Self::close) does not block the runtime.
#[derive(Debug)]
pub struct Connection {
    send: SendHalf,
    recv: RecvHalf,
}

impl Connection {
    /// Connects. Dropping the future gives up.
    ///
    /// # Errors
    /// Those of [`superpipe::Connection::connect`]. `Usage`: there is no runtime here.
    ///
    /// # Panics
    /// The runtime's I/O is not enabled.
    pub async fn connect(
        address: &Address,
        options: Options,
        deadline: impl Into<Deadline>,
    ) -> Result<Self, Error> {
        let connecting = Connecting::begin(address, options, deadline)?;
        let mut source = Source::new(connecting).map_err(|(_, error)| error)?;
        let connected = poll_fn(|cx| source.poll_until(cx, Connecting::try_finish, Connecting::arm)).await?;
        Self::from_blocking(connected).map_err(|(_, error)| error)
    }

    /// Takes a connection in that was made elsewhere.
    ///
    /// # Errors
    /// `Os`: too many files are open. `Usage`: there is no runtime here. The connection is in the error.
    ///
    /// # Panics
    /// The runtime's I/O is not enabled.
    #[cfg_attr(
        feature = "verbs",
        expect(clippy::result_large_err, reason = "the connection is no part of what failed, and goes on")
    )]
    pub fn from_blocking(connection: superpipe::Connection) -> Result<Self, (superpipe::Connection, Error)> {
        let (peer, description) = (connection.peer(), connection.description());
        let waitable = connection.into_waitable()?;
        let source =
            Source::new(waitable).map_err(|(waitable, error)| (waitable.into_connection(), error))?;
        let shared = Arc::new(Shared::new(source));
        let recv = RecvHalf::new(Arc::clone(&shared), peer, description);
        Ok(Self { send: SendHalf::new(shared), recv })
    }

    pub(crate) const fn of(send: SendHalf, recv: RecvHalf) -> Self {
        Self { send, recv }
    }

    /// Takes the connection out of the runtime.
    ///
    /// # Errors
    /// A part of a message was received by a [`recv_message`](Self::recv_message) that was dropped, and would be lost: call that again. The connection is in the error.
    #[cfg_attr(feature = "verbs", expect(clippy::result_large_err, reason = "the connection goes on"))]
    pub fn into_blocking(self) -> Result<superpipe::Connection, (Self, Error)> {
        if self.recv.shared.lock().receiving.is_some() {
            let text = "a message was received in part: call recv_message again, or reject it";
            return Err((self, Error::new(ErrorKind::Usage, text)));
        }
        Ok(self.into_inner())
    }

    fn into_inner(self) -> superpipe::Connection {
        let Self { send: SendHalf { shared, .. }, recv } = self;
        drop(recv);
        match Arc::try_unwrap(shared) {
            Ok(shared) => shared.into_blocking(),
            Err(_) => unreachable!("only the two halves have it"),
        }
    }

    /// Sets for how long a future tries before it waits for a wake-up. Default: zero.
    ///
    /// An answer that comes within that time is taken without a system call of either end, and many times sooner. The thread of the runtime does nothing else meanwhile: useful where few connections have threads enough,
    /// and harmful where both ends run on one thread.
    pub const fn set_spin(&mut self, spin: Duration) {
        self.send.set_spin(spin);
        self.recv.set_spin(spin);
    }

    /// Splits it into its two directions, for two tasks.
    #[must_use]
    pub fn split(self) -> (SendHalf, RecvHalf) {
        (self.send, self.recv)
    }

    /// Returns the peer, as the kernel or the device of this host reports it.
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.recv.peer()
    }

    /// Returns the fabric and the negotiated settings.
    #[must_use]
    pub const fn description(&self) -> Description {
        self.recv.description()
    }

    /// Sends a message, gathered from slices. Once it is ready, the caller may use the slices again, and the receiver can take the message. If the future is dropped before, a message that has begun is cancelled.
    ///
    /// # Errors
    /// `Rejected`, `Closed`, `PeerLost`, `Protocol`, `Device`. `Timeout`: the peer was silent for the idle timeout, and the message is cancelled.
    pub fn send<'a>(
        &'a mut self,
        tag: u64,
        slices: &'a [&[u8]],
    ) -> impl Future<Output = Result<(), Error>> + Send + 'a {
        self.send.send(tag, slices)
    }

    /// Waits until the peer has received everything that was sent.
    ///
    /// # Errors
    /// `Closed`, `PeerLost`, `Protocol`, `Device`, `Timeout`: the peer was silent for the idle timeout.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.send.flush().await
    }

    /// Receives the next message, scattered into slices, if it is short enough to be taken in one poll: up to C0 (64 KiB by default), and half of the landing buffer. A longer one is taken, too, if all of it is here already. If
    /// the future is dropped, nothing is lost.
    ///
    /// # Errors
    /// [`NeedsOwnedBuffer`](RecvError::NeedsOwnedBuffer): it is longer. [`TooSmall`](RecvError::TooSmall): it is longer than the slices, or a stream. In both cases it is still there.
    /// [`Connection`](RecvError::Connection): `Closed`, `PeerLost`, `Protocol`, `Device`, `Timeout`: the peer was silent for the idle timeout.
    pub fn recv<'a>(
        &'a mut self,
        slices: &'a mut [&mut [u8]],
    ) -> impl Future<Output = Result<Received, RecvError>> + Send + 'a {
        self.recv.recv(slices)
    }

    /// Receives the next message into a buffer of this connection, and returns it. If the future is dropped, the connection keeps what was received, and the next call goes on, whatever its `bytes_max`.
    ///
    /// # Errors
    /// [`TooSmall`](RecvError::TooSmall): the message is longer than `bytes_max`, or a stream. It is still there. [`Connection`](RecvError::Connection): as [`recv`](Self::recv); also `Cancelled`.
    pub async fn recv_message(&mut self, bytes_max: usize) -> Result<Message, RecvError> {
        self.recv.recv_message(bytes_max).await
    }

    /// Gives a buffer for a later [`recv_message`](Self::recv_message): what it wrote to before costs less than fresh memory.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.recv.recycle(buffer);
    }

    /// Waits until the begin of the next transfer is here, and leaves it there. While it waits, keepalives are sent.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn peek(&mut self) -> Result<Incoming, Error> {
        self.recv.peek().await
    }

    /// Rejects the next transfer, or the rest of one that a [`recv_message`](Self::recv_message) has begun to receive. Returns false if there is none.
    pub fn reject(&mut self, reason: Reason) -> bool {
        self.recv.reject(reason)
    }

    /// Opens a stream. While it is open, nothing else can be sent.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub async fn open_stream(&mut self, tag: u64) -> Result<SendStream<'_>, Error> {
        self.send.open_stream(tag).await
    }

    /// Waits for the next transfer, stream or message, and takes it as a stream.
    ///
    /// # Errors
    /// As [`flush`](Self::flush). `Usage`: a [`recv_message`](Self::recv_message) that was dropped has begun to receive it.
    pub async fn accept_stream(&mut self) -> Result<RecvStream<'_>, Error> {
        self.recv.accept_stream().await
    }

    /// Closes the connection, and waits until the peer knows, in a thread for what blocks: [`superpipe::Connection::close`].
    ///
    /// # Errors
    /// As there.
    pub async fn close(self, reason: Reason, deadline: impl Into<Deadline>) -> Result<(), Error> {
        let (connection, deadline) = (self.into_inner(), deadline.into());
        match tokio::task::spawn_blocking(move || connection.close(reason, deadline)).await {
            Ok(closed) => closed,
            Err(_) => Err(Error::new(ErrorKind::Interrupted, "the runtime has ended")),
        }
    }
}
