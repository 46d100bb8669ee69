//! Streams.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;

use superpipe::{Error, ErrorKind, IncomingStream, Length, OutgoingStream, Reason, StreamRead};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::shared::{Attempt, Shared, Side, WaitFor};

/// Sending end of a stream. Shut it down to end it (`AsyncWriteExt::shutdown`): dropping it before cancels the stream.
///
/// Each write takes at least one chunk: wrap it in a [`BufWriter`](tokio::io::BufWriter) if writes are small.
#[derive(Debug)]
pub struct SendStream<'a> {
    shared: &'a Shared,
    spin: Duration,
    stream: OutgoingStream,
    has_ended: bool,
}

/// Receiving end of a stream. Dropping it before the end rejects the rest. A stream that its sender cancelled ends with an error.
#[derive(Debug)]
pub struct RecvStream<'a> {
    shared: &'a Shared,
    spin: Duration,
    stream: IncomingStream,
    has_ended: bool,
}

impl<'a> SendStream<'a> {
    pub(crate) const fn new(shared: &'a Shared, spin: Duration, stream: OutgoingStream) -> Self {
        Self { shared, spin, stream, has_ended: false }
    }

    /// Cancels the stream. The receiver gets the reason.
    pub fn cancel(mut self, reason: Reason) {
        self.abandon(reason);
    }

    fn abandon(&mut self, reason: Reason) {
        if !core::mem::replace(&mut self.has_ended, true) {
            let Self { shared, stream, .. } = self;
            shared.with_connection(Side::Send, |inner| inner.connection().abandon_stream(stream, reason));
        }
    }
}

impl AsyncWrite for SendStream<'_> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { shared, spin, stream, has_ended } = self.get_mut();
        if *has_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let mut gathered: [&[u8]; SLICES_MAX] = [&[]; SLICES_MAX];
        let mut count = 0;
        for (place, slice) in gathered.iter_mut().zip(slices.iter().filter(|slice| !slice.is_empty())) {
            *place = slice;
            count += 1;
        }
        let gathered = gathered.get(..count).unwrap_or_default();
        if count == 0 {
            return Poll::Ready(Ok(0));
        }
        let written = shared.poll(Side::Send, *spin, cx, |inner| {
            Ok::<_, Error>(match inner.connection().write_stream(stream, gathered)? {
                0 => Attempt::Wait(WaitFor::Writable),
                bytes => Attempt::Done(bytes),
            })
        });
        written.map_err(io::Error::from)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: what was written is on its way.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the stream.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { shared, spin, stream, has_ended } = self.get_mut();
        if *has_ended {
            return Poll::Ready(Ok(()));
        }
        let finished = ready!(shared.poll(Side::Send, *spin, cx, |inner| {
            Ok::<_, Error>(match inner.connection().finish_stream(stream)? {
                true => Attempt::Done(()),
                false => Attempt::Wait(WaitFor::Writable),
            })
        }));
        *has_ended |= finished.is_ok();
        Poll::Ready(finished.map_err(io::Error::from))
    }
}

impl Drop for SendStream<'_> {
    fn drop(&mut self) {
        self.abandon(Reason::GIVEN_UP);
        self.shared.forget(Side::Send);
    }
}

impl<'a> RecvStream<'a> {
    pub(crate) const fn new(shared: &'a Shared, spin: Duration, stream: IncomingStream) -> Self {
        Self { shared, spin, stream, has_ended: false }
    }

    /// Returns the sender's tag.
    #[must_use]
    pub const fn tag(&self) -> u64 {
        self.stream.tag()
    }

    /// Returns the length, if the sender knew it.
    #[must_use]
    pub const fn length(&self) -> Length {
        self.stream.length()
    }

    /// Rejects the rest. The sender gets the reason.
    pub fn reject(mut self, reason: Reason) {
        self.give_up(reason);
    }

    fn give_up(&mut self, reason: Reason) {
        if !core::mem::replace(&mut self.has_ended, true) {
            let Self { shared, stream, .. } = self;
            shared.with_connection(Side::Recv, |inner| inner.connection().reject_stream(stream, reason));
        }
    }
}

impl AsyncRead for RecvStream<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { shared, spin, stream, has_ended } = self.get_mut();
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let room = buffer.initialize_unfilled();
        let read = ready!(shared.poll(Side::Recv, *spin, cx, |inner| {
            Ok::<_, Error>(match inner.connection().read_stream(stream, &mut [&mut *room])? {
                StreamRead::Nothing => Attempt::Wait(WaitFor::Readable),
                read => Attempt::Done(read),
            })
        }))?;
        match read {
            StreamRead::Bytes(bytes) => buffer.advance(bytes),
            StreamRead::Nothing | StreamRead::End => *has_ended = true,
            StreamRead::Cancelled(Reason(reason)) => {
                *has_ended = true;
                let text = format!("the sender cancelled the stream (reason {reason})");
                return Poll::Ready(Err(Error::new(ErrorKind::Cancelled(Reason(reason)), text).into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for RecvStream<'_> {
    fn drop(&mut self) {
        self.give_up(Reason::GIVEN_UP);
        self.shared.forget(Side::Recv);
    }
}

/// Slices that one write gathers.
const SLICES_MAX: usize = 16;
