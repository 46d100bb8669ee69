//! Messages of a connection that are built in place.

use core::slice;

use super::Connection;
use crate::blocking::dispatch::{AnyConnection, dispatch};
use crate::deadline::Deadline;
use crate::error::Error;
use crate::outcome::TryReserve;
use crate::reserved::Reserved;
use crate::spans::{Holder, ReservedSpans};

impl Connection {
    /// Reserves space for a message of `bytes` bytes where it is sent from, to build it in place: no copy is made. Until it is
    /// [committed](Self::commit) or [abandoned](Self::abandon), nothing else can be sent: [`try_send`](Self::try_send) answers
    /// [`TrySend::Full`](crate::TrySend::Full), and calls that wait reach their deadlines. Receiving goes on. Never waits; makes no system call, except to
    /// wake a peer that sleeps, and allocates nothing.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use superpipe::{Address, Connection, Error, Listener, Options};
    /// # const DEADLINE: Duration = Duration::from_secs(30);
    /// # fn main() -> Result<(), Error> {
    /// # let path = std::env::temp_dir().join(format!("superpipe-reserve-doc-{}.sock", std::process::id()));
    /// # let address = Address::Shm(path);
    /// # let mut listener = Listener::bind(&address, Options::default())?;
    /// # let peer = std::thread::spawn(move || -> Result<Vec<u8>, Error> {
    /// #     let mut connection = Connection::connect(&address, Options::default(), DEADLINE)?;
    /// #     let mut message = vec![0; 100_000];
    /// #     let received = connection.recv_into(&mut [&mut message], DEADLINE)?;
    /// #     message.truncate(received.bytes);
    /// #     Ok(message)
    /// # });
    /// # let mut connection = listener.accept(DEADLINE)?;
    /// let reserved = connection.reserve(7, 100_000, DEADLINE)?;
    /// connection.copy_into(&reserved, 0, b"header")?;
    /// connection.copy_into(&reserved, 6, &vec![9; 99_994])?;
    /// connection.commit(reserved)?;
    /// # assert_eq!(peer.join().unwrap()?, [&b"header"[..], &vec![9; 99_994]].concat());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A message that is longer than the peer's landing buffer, with [landing on demand](crate::LandingMode::OnDemand), asks for a larger one: the call answers
    /// [`TryReserve::Pending`] until that is there. A loop of tries must call [`progress`](Self::progress) now and then.
    ///
    /// # Errors
    /// `Limit`: the message is longer than the largest landing buffer holds at once, or than the current one, if the peer grants no larger one; the text has
    /// the limit. `Usage`: space is reserved already. `Closed`, `PeerLost`, `Protocol`, `Device`.
    pub fn try_reserve(&mut self, tag: u64, bytes: usize) -> Result<TryReserve, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.try_reserve(tag, bytes))
    }

    /// Reserves space for a message, as [`try_reserve`](Self::try_reserve), and waits until there is room.
    ///
    /// # Errors
    /// As `try_reserve`; `Timeout`, also if an operation or a stream is open; `Interrupted`.
    pub fn reserve(
        &mut self,
        tag: u64,
        bytes: usize,
        deadline: impl Into<Deadline>,
    ) -> Result<Reserved, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.reserve(tag, bytes, deadline.into()))
    }

    /// Copies bytes to their place in a message that is built in place, from its byte `offset` on.
    ///
    /// # Errors
    /// `Usage`: the message has fewer bytes, or was reserved on another connection. Nothing was copied. `Closed`, `Protocol`, `Device`.
    pub fn copy_into(&mut self, reserved: &Reserved, offset: usize, from: &[u8]) -> Result<(), Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.copy_into(reserved, offset, from))
    }

    /// Returns the memory of a message that is built in place. Over shared memory it is one span, or two at the end of the ring; over RDMA there is one per
    /// block.
    ///
    /// # Errors
    /// `Usage`: the message was reserved on another connection. `Closed`, `Protocol`, `Device`.
    pub fn reserved_spans<'a>(&'a mut self, reserved: &'a Reserved) -> Result<ReservedSpans<'a>, Error> {
        dispatch!(AnyConnection, &self.inner, inner => inner.open_message(reserved))?;
        Ok(ReservedSpans::of_reserved(Holder::Connection(&self.inner), reserved))
    }

    /// Returns the memory of a message that is built in place as slices, for code that needs references. They hold any bytes.
    ///
    /// # Safety
    /// 1. Over shared memory the peer, and every process that has its memory, neither reads nor writes these bytes while a slice lives. A peer that follows the
    ///    protocol does not; one that is faulty or hostile can.
    /// 2. Over shared memory with landing on demand the peer removes no page of it.
    ///
    /// # Errors
    /// `Usage`: the message was reserved on another connection. `Closed`, `Protocol`, `Device`.
    pub unsafe fn reserved_slices<'a>(
        &'a mut self,
        reserved: &'a mut Reserved,
    ) -> Result<impl Iterator<Item = &'a mut [u8]> + use<'a>, Error> {
        let spans = self.reserved_spans(reserved)?;
        // SAFETY: the span is mapped for writing, and borrowed mutably with the connection, which therefore sends nothing out of it meanwhile; spans do not
        // overlap. The caller promises that nobody else uses it.
        Ok(spans.map(|span| unsafe { slice::from_raw_parts_mut(span.as_mut_ptr(), span.len()) }))
    }

    /// Sends a message that was built in place. Bytes that were not written are undefined. Never waits.
    ///
    /// # Errors
    /// `Usage`: the message was reserved on another connection, with which it is still open. `Closed`, `Protocol`, `Device`: nothing was sent. What was
    /// reserved is in the error, from which `?` makes an [`Error`].
    pub fn commit(&mut self, reserved: Reserved) -> Result<(), (Reserved, Error)> {
        let committed = dispatch!(AnyConnection, &mut self.inner, inner => inner.commit_message(&reserved));
        committed.map_err(|error| (reserved, error))
    }

    /// Gives reserved space up: nothing is sent.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn abandon(&mut self, reserved: Reserved) -> Result<(), (Reserved, Error)> {
        let abandoned = dispatch!(AnyConnection, &mut self.inner, inner => inner.abandon_message(&reserved));
        abandoned.map_err(|error| (reserved, error))
    }
}
