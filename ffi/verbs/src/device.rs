//! The RDMA devices of this host.

use super::error::Error;
use super::library::{Verbs, verbs};
use super::return_code::made;
use super::sys::{ibv_device, ibv_transport_type};
use crate::verb_error::last_errno;
use core::ffi::{CStr, c_int};
use core::ptr::NonNull;
use core::{fmt, slice};

/// The devices as they were when the list was made.
pub struct DeviceList {
    verbs: &'static Verbs,
    list: NonNull<*mut ibv_device>,
    len: usize,
}

/// A device of a list.
#[derive(Clone, Copy)]
pub struct Device<'list> {
    list: &'list DeviceList,
    raw: NonNull<ibv_device>,
}

/// Protocol of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// InfiniBand, or the same over Ethernet (RoCE).
    InfiniBand,
    /// iWARP: the active side sends first, and there is no write with immediate.
    Iwarp,
    /// Another one, by the header's number.
    Other(i32),
}

impl DeviceList {
    /// Lists the devices.
    ///
    /// # Errors
    /// The library is missing, or the kernel has no RDMA. No device is an empty list.
    pub fn get() -> Result<Self, Error> {
        Self::of(verbs()?)
    }

    pub(super) fn of(verbs: &'static Verbs) -> Result<Self, Error> {
        let mut count: c_int = 0;
        // SAFETY: the pointer is to an int of ours.
        let list = unsafe { verbs.required.ibv_get_device_list(&raw mut count) };
        if list.is_null() && matches!(last_errno(), libc::ENOSYS | libc::ENOENT) {
            return Err(Error::NoDevice);
        }
        let list = made(list, "ibv_get_device_list", || "list the RDMA devices")?;
        Ok(Self { verbs, list, len: usize::try_from(count).unwrap_or(0) })
    }

    /// Iterates over the devices.
    pub fn iter(&self) -> impl Iterator<Item = Device<'_>> {
        // SAFETY: the library made an array of so many pointers, which is freed when this list is dropped.
        let raws = unsafe { slice::from_raw_parts(self.list.as_ptr(), self.len) };
        raws.iter().filter_map(|&raw| Some(Device { list: self, raw: NonNull::new(raw)? }))
    }

    /// Finds a device by its name.
    ///
    /// # Errors
    /// No device has this name, or there is none at all.
    pub fn find(&self, name: &str) -> Result<Device<'_>, Error> {
        self.iter().find(|device| device.name() == name).ok_or_else(|| match self.len {
            0 => Error::NoDevice,
            _ => Error::NoSuchDevice {
                name: name.to_owned(),
                present: self.iter().map(|it| it.name()).collect(),
            },
        })
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: the list is the library's, and is freed once; a device that was opened has a reference of its own.
        unsafe { self.verbs.required.ibv_free_device_list(self.list.as_ptr()) };
    }
}

impl Device<'_> {
    pub(super) fn verbs(&self) -> &'static Verbs {
        self.list.verbs
    }

    pub(super) fn raw(&self) -> *mut ibv_device {
        self.raw.as_ptr()
    }

    /// Returns its name: `mlx5_0`, `rxe0`.
    #[must_use]
    pub fn name(&self) -> String {
        name_of(self.list.verbs, self.raw)
    }

    /// Returns its protocol.
    #[must_use]
    pub fn transport(&self) -> Transport {
        // SAFETY: the device is in the list, which is borrowed; the library does not change this field.
        Transport::of(unsafe { (*self.raw.as_ptr()).transport_type })
    }
}

impl Transport {
    pub(super) fn of(raw: ibv_transport_type) -> Self {
        match raw {
            ibv_transport_type::IBV_TRANSPORT_IB => Self::InfiniBand,
            ibv_transport_type::IBV_TRANSPORT_IWARP => Self::Iwarp,
            ibv_transport_type(other) => Self::Other(other),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InfiniBand => f.write_str("InfiniBand or RoCE"),
            Self::Iwarp => f.write_str("iWARP"),
            Self::Other(number) => write!(f, "transport {number}"),
        }
    }
}

/// The name of a device that a list or a context keeps alive.
pub(super) fn name_of(verbs: &Verbs, device: NonNull<ibv_device>) -> String {
    // SAFETY: the caller keeps the device alive.
    let name = unsafe { verbs.required.ibv_get_device_name(device.as_ptr()) };
    if name.is_null() {
        return "a device without a name".to_owned();
    }
    // SAFETY: the library answers a C string inside the device.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}
