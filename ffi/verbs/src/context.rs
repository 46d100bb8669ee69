//! An open device: its limits, its ports, its GIDs.

use super::cm_id_inner::IdInner;
use super::device::{Device, DeviceList, Transport, name_of};
use super::error::Error;
use super::gid::{Gid, GidEntry, GidKind, not_usable};
use super::library::Verbs;
use super::port::Port;
use super::return_code::{done, made};
use super::sys::{ibv_context, ibv_device, ibv_device_attr, ibv_gid, ibv_gid_entry, ibv_port_attr};
use core::fmt;
use core::mem::size_of;
use core::ptr::NonNull;
use std::sync::Arc;

/// An open device, which is closed after this handle and everything made from it.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    verbs: &'static Verbs,
    raw: NonNull<ibv_context>,
    /// None if it was opened here; else the CM id that found it, which keeps it open.
    kept_open_by: Option<Arc<IdInner>>,
}

// SAFETY: libibverbs' functions may be called from any thread at the same time (verbs(7)); what is read of the struct
// itself never changes while it is open.
unsafe impl Send for Inner {}
// SAFETY: libibverbs' functions may be called from several threads at a time (verbs(7)), and what is read of the struct never changes while it
// is open.
unsafe impl Sync for Inner {}

/// Limits of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceLimits {
    /// Work requests in a queue of a QP.
    pub queue_depth_max: u32,
    /// Completions in a CQ.
    pub cq_depth_max: u32,
    /// Bytes of an MR.
    pub mr_bytes_max: u64,
    /// Ports, numbered from 1.
    pub ports: u8,
}

impl Device<'_> {
    /// Opens the device.
    ///
    /// # Errors
    /// The user lacks permission, or the device is gone.
    pub fn open(&self) -> Result<Context, Error> {
        // SAFETY: the device is in the list, which is borrowed.
        let raw = unsafe { self.verbs().required.ibv_open_device(self.raw()) };
        let raw = made(raw, "ibv_open_device", || format!("open {}", self.name()))?;
        Ok(Context::opened(self.verbs(), raw))
    }
}

impl Context {
    /// Opens the device of this name.
    ///
    /// # Errors
    /// There is no such device, or it cannot be opened.
    pub fn open(name: &str) -> Result<Self, Error> {
        DeviceList::get()?.find(name)?.open()
    }

    pub(super) fn opened(verbs: &'static Verbs, raw: NonNull<ibv_context>) -> Self {
        Self(Arc::new(Inner { verbs, raw, kept_open_by: None }))
    }

    pub(super) fn of_cm_id(verbs: &'static Verbs, raw: NonNull<ibv_context>, id: Arc<IdInner>) -> Self {
        Self(Arc::new(Inner { verbs, raw, kept_open_by: Some(id) }))
    }

    /// Returns the name of the device.
    #[must_use]
    pub fn name(&self) -> String {
        self.device().map_or_else(String::new, |device| name_of(self.verbs(), device))
    }

    /// Returns the protocol of the device.
    #[must_use]
    pub fn transport(&self) -> Transport {
        // SAFETY: an open context keeps its device.
        self.device()
            .map_or(Transport::Other(-1), |it| Transport::of(unsafe { (*it.as_ptr()).transport_type }))
    }

    /// Queries its limits.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn limits(&self) -> Result<DeviceLimits, Error> {
        let mut attr = ibv_device_attr::default();
        // SAFETY: the context is open, and the pointer is to attributes of ours.
        let answer = unsafe { self.verbs().required.ibv_query_device(self.raw(), &raw mut attr) };
        done(answer, "ibv_query_device", || format!("query {}", self.name()))?;
        Ok(DeviceLimits {
            queue_depth_max: u32::try_from(attr.max_qp_wr).unwrap_or(0),
            cq_depth_max: u32::try_from(attr.max_cqe).unwrap_or(0),
            mr_bytes_max: attr.max_mr_size,
            ports: attr.phys_port_cnt,
        })
    }

    /// Queries a port; numbers begin at 1.
    ///
    /// # Errors
    /// There is no port of this number.
    pub fn port(&self, number: u8) -> Result<Port, Error> {
        let mut attr = ibv_port_attr::default();
        // SAFETY: the context is open. The library writes at most the attributes that it knows, which begin those of
        // ours; C's own header passes the same pointer.
        let answer =
            unsafe { self.verbs().required.ibv_query_port(self.raw(), number, (&raw mut attr).cast()) };
        done(answer, "ibv_query_port", || format!("query port {number} of {}", self.name()))?;
        Ok(Port::new(number, &attr))
    }

    /// Queries the GID at `index` of a port.
    ///
    /// # Errors
    /// The port has none there; the error lists those that it has.
    pub fn gid(&self, port: u8, index: u32) -> Result<GidEntry, Error> {
        let gids = self.gids(port)?;
        let found = gids.iter().find(|entry| entry.index == index).copied();
        found.ok_or_else(|| Error::BadGid(not_usable(index, port, &self.name(), &gids)))
    }

    /// Queries the GIDs of a port, without the empty entries.
    ///
    /// # Errors
    /// There is no such port, or the device does not answer.
    pub fn gids(&self, port: u8) -> Result<Vec<GidEntry>, Error> {
        let count = self.port(port)?.gid_count;
        (0..count).filter_map(|index| self.entry(port, index).transpose()).collect()
    }

    /// Queries an entry; none if it is empty.
    fn entry(&self, port: u8, index: u32) -> Result<Option<GidEntry>, Error> {
        let Ok(query) = &self.verbs().recent._ibv_query_gid_ex else {
            return self.gid_without_kind(port, index);
        };
        let mut entry = ibv_gid_entry::default();
        // SAFETY: the context is open, and the pointer is to an entry of ours of the size that the call gets.
        let answer =
            unsafe { query(self.raw(), port.into(), index, &raw mut entry, 0, size_of::<ibv_gid_entry>()) };
        if answer.saturating_abs() == libc::ENODATA {
            return Ok(None);
        }
        done(answer, "_ibv_query_gid_ex", || format!("query GID {index} of port {port} of {}", self.name()))?;
        let gid = Gid::new(entry.gid);
        Ok((!gid.is_empty()).then_some(GidEntry { index, gid, kind: GidKind::of(entry.gid_type) }))
    }

    /// Queries an entry by the call of libraries before rdma-core 31.
    fn gid_without_kind(&self, port: u8, index: u32) -> Result<Option<GidEntry>, Error> {
        let mut gid = ibv_gid::default();
        let place = i32::try_from(index).unwrap_or(i32::MAX);
        // SAFETY: the context is open, and the pointer is to a GID of ours.
        let answer = unsafe { self.verbs().required.ibv_query_gid(self.raw(), port, place, &raw mut gid) };
        done(answer, "ibv_query_gid", || format!("query GID {index} of port {port} of {}", self.name()))?;
        let gid = Gid::new(gid);
        Ok((!gid.is_empty()).then_some(GidEntry { index, gid, kind: GidKind::Unknown }))
    }

    pub(super) fn verbs(&self) -> &'static Verbs {
        self.0.verbs
    }

    pub(super) fn raw(&self) -> *mut ibv_context {
        self.0.raw.as_ptr()
    }

    /// Returns true if objects of both can be used together: they are of one device that was opened once.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.raw == other.0.raw
    }

    /// Refuses an object of another device, which a driver would take for its own.
    pub(super) fn check_same(&self, other: &Self, what: &'static str) -> Result<(), Error> {
        if self.is_same(other) { Ok(()) } else { Err(Error::Mismatch(what)) }
    }

    fn device(&self) -> Option<NonNull<ibv_device>> {
        // SAFETY: the context is open, and its device never changes.
        NonNull::new(unsafe { (*self.raw()).device })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.kept_open_by.is_none() {
            // SAFETY: it was opened here, and whatever was made from it held it, and is gone. A failure leaves it open.
            let _ = unsafe { self.verbs.required.ibv_close_device(self.raw.as_ptr()) };
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.name()).finish()
    }
}
