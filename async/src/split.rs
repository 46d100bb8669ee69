//! The two directions of a connection, for two tasks.

use core::future::Future;
use core::time::Duration;
use std::sync::Arc;

use superpipe::{Description, Error, ErrorKind, Incoming, Peer, Reason, Received};

use crate::connection::Connection;
use crate::message::{Message, RecvError};
use crate::shared::{Attempt, Shared, Side, WaitFor};
use crate::stream::{RecvStream, SendStream};
use crate::{recv, send};

/// The sending half of a [`Connection`].
#[derive(Debug)]
pub struct SendHalf {
    pub(crate) shared: Arc<Shared>,
    spin: Duration,
}

/// The receiving half of a [`Connection`].
#[derive(Debug)]
pub struct RecvHalf {
    pub(crate) shared: Arc<Shared>,
    spin: Duration,
    peer: Peer,
    description: Description,
}

impl SendHalf {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared, spin: Duration::ZERO }
    }

    /// Sets for how long a future of this half tries before it waits: see [`Connection::set_spin`].
    pub const fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
    }

    /// Sends a message: [`Connection::send`].
    ///
    /// # Errors
    /// As there.
    pub async fn send(&mut self, tag: u64, slices: &[&[u8]]) -> Result<(), Error> {
        send::send(&self.shared, self.spin, tag, slices).await
    }

    /// Waits until the peer has received everything: [`Connection::flush`].
    ///
    /// # Errors
    /// As there.
    pub async fn flush(&mut self) -> Result<(), Error> {
        let is_delivered = |flushed: Result<(), Error>| match flushed {
            Ok(()) => Ok(Attempt::Done(())),
            Err(error) if error.kind() == ErrorKind::Timeout => Ok(Attempt::Wait(WaitFor::Acknowledged)),
            Err(error) => Err(error),
        };
        self.shared
            .until(Side::Send, self.spin, |inner| is_delivered(inner.connection().flush(Duration::ZERO)))
            .await
    }

    /// Opens a stream: [`Connection::open_stream`].
    ///
    /// # Errors
    /// As there.
    pub async fn open_stream(&mut self, tag: u64) -> Result<SendStream<'_>, Error> {
        let stream = self
            .shared
            .until(Side::Send, self.spin, |inner| {
                Ok::<_, Error>(match inner.connection().try_open_stream(tag)? {
                    Some(stream) => Attempt::Done(stream),
                    None => Attempt::Wait(WaitFor::Writable),
                })
            })
            .await?;
        Ok(SendStream::new(&self.shared, self.spin, stream))
    }

    /// Joins the halves of one connection.
    ///
    /// # Errors
    /// They are not of one connection, and are returned.
    #[cfg_attr(feature = "verbs", expect(clippy::result_large_err, reason = "both halves go on"))]
    pub fn reunite(self, other: RecvHalf) -> Result<Connection, (Self, RecvHalf)> {
        if Arc::ptr_eq(&self.shared, &other.shared) {
            Ok(Connection::of(self, other))
        } else {
            Err((self, other))
        }
    }
}

impl RecvHalf {
    pub(crate) fn new(shared: Arc<Shared>, peer: Peer, description: Description) -> Self {
        Self { shared, spin: Duration::ZERO, peer, description }
    }

    /// Sets for how long a future of this half tries before it waits: see [`Connection::set_spin`].
    pub const fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
    }

    /// Returns the peer: [`Connection::peer`].
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// Returns the fabric and the negotiated settings: [`Connection::description`].
    #[must_use]
    pub const fn description(&self) -> Description {
        self.description
    }

    /// Receives a short message: [`Connection::recv`].
    ///
    /// # Errors
    /// As there.
    pub fn recv<'a>(
        &'a mut self,
        slices: &'a mut [&mut [u8]],
    ) -> impl Future<Output = Result<Received, RecvError>> + Send + 'a {
        let whole_bytes_max = self.description.whole_bytes_max.into();
        self.shared.until(Side::Recv, self.spin, move |inner| recv::take(inner, slices, whole_bytes_max))
    }

    /// Receives a message of any length: [`Connection::recv_message`].
    ///
    /// # Errors
    /// As there.
    pub async fn recv_message(&mut self, bytes_max: usize) -> Result<Message, RecvError> {
        self.shared.until(Side::Recv, self.spin, |inner| recv::continue_message(inner, bytes_max)).await
    }

    /// Gives a buffer for a later message: [`Connection::recycle`].
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.shared.lock().spare = buffer;
    }

    /// Waits for the next transfer, and leaves it there: [`Connection::peek`].
    ///
    /// # Errors
    /// As there.
    pub async fn peek(&mut self) -> Result<Incoming, Error> {
        self.shared
            .until(Side::Recv, self.spin, |inner| {
                Ok::<_, Error>(match inner.connection().try_peek()? {
                    Some(incoming) => Attempt::Done(incoming),
                    None => Attempt::Wait(WaitFor::Readable),
                })
            })
            .await
    }

    /// Rejects the next transfer: [`Connection::reject`].
    pub fn reject(&mut self, reason: Reason) -> bool {
        self.shared.with_connection(Side::Recv, |inner| {
            inner.receiving = None;
            inner.connection().reject(reason)
        })
    }

    /// Takes the next transfer as a stream: [`Connection::accept_stream`].
    ///
    /// # Errors
    /// As there.
    pub async fn accept_stream(&mut self) -> Result<RecvStream<'_>, Error> {
        let stream = self
            .shared
            .until(Side::Recv, self.spin, |inner| {
                Ok::<_, Error>(match inner.connection().try_accept_stream()? {
                    Some(stream) => Attempt::Done(stream),
                    None => Attempt::Wait(WaitFor::Readable),
                })
            })
            .await?;
        Ok(RecvStream::new(&self.shared, self.spin, stream))
    }
}
