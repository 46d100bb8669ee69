//! Streams: transfers whose length is known when they end. They implement `Read` and `Write`, and move data between files and the
//! blocks of the connection without a copy between.

use std::io;

use superpipe_core::{Length, Reason};

use crate::blocking::dispatch::dispatch_any;
use crate::blocking::{BlockingRecvStream, BlockingSendStream, Exclusive, Half};
use crate::deadline::Deadline;
use crate::error::{Error, StreamError};
#[cfg(feature = "verbs")]
use crate::fabric::rdma::Rdma;
use crate::fabric::shm::fabric::Shm;
use crate::io::{Digest, Sink, Source};

/// Sending end of a stream. Dropping it before [`finish`](Self::finish) cancels the stream.
///
/// Each `write` takes at least one chunk: wrap the stream in a [`BufWriter`](io::BufWriter) if writes are small.
///
/// ```
/// # use core::time::Duration;
/// # use std::io::{Read, Write};
/// # use superpipe::{Address, Connection, Listener, Options};
/// # const DEADLINE: Duration = Duration::from_secs(30);
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("superpipe-stream-doc-{}.sock", std::process::id()));
/// # let address = Address::Shm(path);
/// # let mut listener = Listener::bind(&address, Options::default())?;
/// # let peer = std::thread::spawn(move || -> std::io::Result<Vec<u8>> {
/// #     let mut connection = listener.accept(DEADLINE)?;
/// let mut stream = connection.accept_stream(DEADLINE)?;
/// let mut all = Vec::new();
/// stream.read_to_end(&mut all)?;
/// #     drop(stream);
/// #     Ok(all)
/// # });
/// # let mut connection = Connection::connect(&address, Options::default(), DEADLINE)?;
/// // At the other end:
/// let mut stream = connection.open_stream(0, DEADLINE)?;
/// stream.write_all(b"one part, ")?;
/// stream.write_all(b"and another")?;
/// stream.finish(DEADLINE)?;
/// # assert_eq!(peer.join().unwrap()?, b"one part, and another");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SendStream<'a>(pub(crate) SendInner<'a>);

/// Receiving end of a stream: see [`SendStream`] for an example. Dropping it before the stream's end rejects the rest.
#[derive(Debug)]
pub struct RecvStream<'a>(pub(crate) RecvInner<'a>);

/// One variant per fabric and kind of access.
#[derive(Debug)]
pub(crate) enum SendInner<'a> {
    Shm(BlockingSendStream<'a, Exclusive<Shm>>),
    ShmHalf(BlockingSendStream<'a, Half<Shm>>),
    #[cfg(feature = "verbs")]
    Rdma(BlockingSendStream<'a, Exclusive<Rdma>>),
    #[cfg(feature = "verbs")]
    RdmaHalf(BlockingSendStream<'a, Half<Rdma>>),
}

/// One variant per fabric and kind of access.
#[derive(Debug)]
pub(crate) enum RecvInner<'a> {
    Shm(BlockingRecvStream<'a, Exclusive<Shm>>),
    ShmHalf(BlockingRecvStream<'a, Half<Shm>>),
    #[cfg(feature = "verbs")]
    Rdma(BlockingRecvStream<'a, Exclusive<Rdma>>),
    #[cfg(feature = "verbs")]
    RdmaHalf(BlockingRecvStream<'a, Half<Rdma>>),
}

impl SendStream<'_> {
    /// Sets the deadline of later calls that wait, for the peer or for a source: [`Deadline::After`] applies to each call, [`Deadline::At`] to
    /// all of them. By default only the peer's silence bounds them. A call that reaches the deadline fails with `Timeout`, and the stream
    /// can continue with the next call.
    pub fn set_deadline(&mut self, deadline: impl Into<Deadline>) {
        dispatch_any!(SendInner, &mut self.0, stream => stream.set_deadline(deadline.into()));
    }

    /// Reads once from a source, at most `max_bytes` bytes, straight into blocks, and sends them. Waits for the source and for credit.
    /// Returns the bytes sent; 0 at the source's end.
    ///
    /// # Errors
    /// [`StreamError`]. After an error of the source the stream is still open. `Usage`: 0 bytes were asked for.
    pub fn read_from(
        &mut self,
        source: &mut Source,
        max_bytes: usize,
        digest: &mut Digest,
    ) -> Result<usize, StreamError> {
        dispatch_any!(SendInner, &mut self.0, stream => stream.read_from(source, max_bytes, digest))
    }

    /// Runs `work`, which may block for long, while a helper thread sends keepalives to the peer: see
    /// [`Connection::keep_alive_while`](crate::Connection::keep_alive_while).
    pub fn keep_alive_while<R>(&mut self, work: impl FnOnce() -> R) -> R {
        dispatch_any!(SendInner, &mut self.0, stream => stream.keep_alive_while(work))
    }

    /// Makes [`read_from`](Self::read_from) flip one bit of the byte at this offset of the stream after the digest has counted it, so that a
    /// test can check that the receiver detects it.
    #[cfg(feature = "internals")]
    pub const fn inject_flip(&mut self, offset: u64) {
        dispatch_any!(SendInner, &mut self.0, stream => stream.inject_flip(offset));
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// `Rejected`, `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn finish(self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        dispatch_any!(SendInner, self.0, stream => stream.finish(deadline.into()))
    }

    /// Cancels the stream. The receiver gets the reason.
    pub fn cancel(self, reason: Reason) {
        dispatch_any!(SendInner, self.0, stream => stream.cancel(reason));
    }
}

impl io::Write for SendStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        dispatch_any!(SendInner, &mut self.0, stream => stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RecvStream<'_> {
    /// Sets the deadline of later calls that wait, for the peer or for a sink: [`Deadline::After`] applies to each call, [`Deadline::At`] to all
    /// of them. By default only the peer's silence bounds them. A call that reaches the deadline fails with `Timeout`, and the stream can
    /// continue with the next call.
    pub fn set_deadline(&mut self, deadline: impl Into<Deadline>) {
        dispatch_any!(RecvInner, &mut self.0, stream => stream.set_deadline(deadline.into()));
    }

    /// Returns the sender's tag.
    #[must_use]
    pub const fn tag(&self) -> u64 {
        dispatch_any!(RecvInner, &self.0, stream => stream.tag())
    }

    /// Returns the length of the transfer, if the sender knew it.
    #[must_use]
    pub const fn length(&self) -> Length {
        dispatch_any!(RecvInner, &self.0, stream => stream.length())
    }

    /// Writes once to a sink, straight out of blocks that have arrived. Waits for the peer and for the sink. Returns the bytes written; 0 at
    /// the stream's end.
    ///
    /// # Errors
    /// [`StreamError`]. After an error of the sink nothing is lost.
    pub fn write_to(&mut self, sink: &mut Sink, digest: &mut Digest) -> Result<usize, StreamError> {
        dispatch_any!(RecvInner, &mut self.0, stream => stream.write_to(sink, digest))
    }

    /// Runs `work`, which may block for long, while a helper thread sends keepalives to the peer: see
    /// [`Connection::keep_alive_while`](crate::Connection::keep_alive_while).
    pub fn keep_alive_while<R>(&mut self, work: impl FnOnce() -> R) -> R {
        dispatch_any!(RecvInner, &mut self.0, stream => stream.keep_alive_while(work))
    }

    /// Rejects the rest. The sender gets the reason.
    pub fn reject(self, reason: Reason) {
        dispatch_any!(RecvInner, self.0, stream => stream.reject(reason));
    }
}

impl io::Read for RecvStream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        dispatch_any!(RecvInner, &mut self.0, stream => stream.read(bytes))
    }
}
