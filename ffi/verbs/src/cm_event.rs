//! Events of rdma_cm: a step of connecting is done or has failed, or the peer is gone (`rdma_get_cm_event(3)`).

use super::cm_event_kind::{CmEventKind, CmFailure};
use super::cm_id::CmId;
use super::error::Error;
use super::event_channel::EventChannel;
use super::return_code::{errno_of, failed};
use super::sys::{rdma_cm_event, rdma_cm_event_type};
use super::wait::wait_readable;
use core::ptr::{self, NonNull};
use core::slice;
use std::os::fd::AsFd;
use std::time::Instant;

/// An event, copied out and acknowledged.
#[derive(Debug)]
#[non_exhaustive]
pub struct CmEvent {
    /// Kind of the event.
    pub kind: CmEventKind,
    /// 0, or the cause of a failure: a negative errno, or on InfiniBand and RoCE the number of a reason.
    pub status: i32,
    /// [`number`](CmId::number) of its id; of a connect request, that of the listening id.
    pub id: usize,
    /// Id of the new connection, of a connect request. Dropping it refuses the request.
    pub request: Option<CmId>,
    /// Private data of the peer; InfiniBand and RoCE pad it with zeros.
    pub private_data: Vec<u8>,
}

impl CmEvent {
    /// Returns the failure that it reports, if it does.
    #[must_use]
    pub fn failure(&self) -> Option<CmFailure> {
        self.kind.is_failure().then_some(CmFailure { kind: self.kind, status: self.status })
    }

    /// Copies the fields of an event.
    ///
    /// # Safety
    /// 1. `raw` came from rdma_get_cm_event, is of a connected id and is not yet acknowledged.
    pub(super) unsafe fn copied(raw: &rdma_cm_event, id: usize, request: Option<CmId>) -> Self {
        // SAFETY: events of connected ids have this member, which is zero where the kind has no parameters.
        let conn = unsafe { raw.param.conn };
        let private_data = if conn.private_data.is_null() {
            Vec::new()
        } else {
            // SAFETY: the library has put so many bytes there, which stay until the event is acknowledged.
            unsafe { slice::from_raw_parts(conn.private_data.cast::<u8>(), conn.private_data_len.into()) }
                .to_vec()
        };
        Self { kind: CmEventKind(raw.event.0), status: raw.status, id, request, private_data }
    }
}

impl EventChannel {
    /// Takes an event, if there is one.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn try_event(&self) -> Result<Option<CmEvent>, Error> {
        let turn = self.take_turn();
        let mut raw: *mut rdma_cm_event = ptr::null_mut();
        // SAFETY: the channel lives, and the pointer is to a local.
        let answer = unsafe { self.cm().rdma_get_cm_event(self.raw(), &raw mut raw) };
        match errno_of(answer) {
            Ok(()) => {}
            Err(libc::EAGAIN | libc::EINTR) => return Ok(None),
            Err(errno) => return Err(failed(errno, "rdma_get_cm_event", "take an event of rdma_cm")),
        }
        // SAFETY: the library has made the event, and frees it when it is acknowledged, below. Until then no id that
        // it names is destroyed (rdma_get_cm_event(3)).
        let event = unsafe { self.copied(&*raw) };
        // SAFETY: rdma_get_cm_event made the event, it is acknowledged once, here, and it is not used again.
        let _ = unsafe { self.cm().rdma_ack_cm_event(raw) };
        drop(turn);
        Ok(Some(event))
    }

    /// Waits for an event until `deadline`.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Interrupted`], or as for [`try_event`](Self::try_event).
    pub fn next_event(&self, deadline: Instant) -> Result<CmEvent, Error> {
        loop {
            match self.try_event()? {
                Some(event) => return Ok(event),
                None => wait_readable(self.as_fd(), deadline)?,
            }
        }
    }

    /// Waits for an event of the kind `due`, of any id. After an interruption the same call can be made again.
    ///
    /// # Errors
    /// Those of [`next_event`](Self::next_event); [`Error::Connection`] if a failure came, [`Error::Unexpected`] if
    /// anything else did.
    pub fn expect(&self, due: CmEventKind, deadline: Instant) -> Result<CmEvent, Error> {
        let event = self.next_event(deadline)?;
        match event.failure() {
            _ if event.kind == due => Ok(event),
            Some(failure) => Err(Error::Connection(failure)),
            None => Err(Error::Unexpected { due, came: event.kind }),
        }
    }

    /// # Safety
    /// 1. As for [`CmEvent::copied`]: `raw` was got from this channel, and is not yet acknowledged.
    unsafe fn copied(&self, raw: &rdma_cm_event) -> CmEvent {
        let is_request = raw.event == rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST;
        let about = if is_request { raw.listen_id } else { raw.id };
        // SAFETY: an id is not destroyed before its events are acknowledged; its context is the number that we gave it.
        let number = NonNull::new(about).map_or(0, |id| unsafe { (*id.as_ptr()).context }.addr());
        let request = NonNull::new(raw.id).filter(|_| is_request).map(|id| {
            // SAFETY: the library has made it for this request, and gives it to whoever takes the event.
            unsafe { CmId::adopt(self, id) }
        });
        // SAFETY: the caller promises that the event was not acknowledged.
        unsafe { CmEvent::copied(raw, number, request) }
    }
}
