//! The connections that are compared: those that choose, and those with one way of copying for ever.

use superpipe::{Connection, CopyKernel};

/// Window of the contestant with a small one.
const SMALL_WINDOW: u32 = 128 << 10;

/// How a connection copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    /// `None`: chosen while data flow.
    copy_in: Option<CopyKernel>,
    copy_out: Option<CopyKernel>,
    window: Option<u32>,
}

const fn pinned(name: &'static str, copy_in: CopyKernel, copy_out: CopyKernel, window: u32) -> Contestant {
    Contestant { name, copy_in: Some(copy_in), copy_out: Some(copy_out), window: Some(window) }
}

use CopyKernel::{Fetching, Plain, Streaming, String};

/// All of them. The first [`ADAPTING`] choose.
pub(crate) const ALL: [Contestant; 10] = [
    Contestant { name: "kernels chosen", copy_in: None, copy_out: None, window: Some(u32::MAX) },
    Contestant { name: "kernels and window chosen", copy_in: None, copy_out: None, window: None },
    pinned("plain, plain", Plain, Plain, u32::MAX),
    pinned("string, plain", String, Plain, u32::MAX),
    pinned("fetching, plain", Fetching, Plain, u32::MAX),
    pinned("streaming, plain", Streaming, Plain, u32::MAX),
    pinned("plain, streaming", Plain, Streaming, u32::MAX),
    pinned("fetching, fetching", Fetching, Fetching, u32::MAX),
    pinned("streaming, streaming", Streaming, Streaming, u32::MAX),
    pinned("plain, plain, 128 KiB", Plain, Plain, SMALL_WINDOW),
];

/// Contestants that choose.
pub(crate) const ADAPTING: usize = 2;

impl Contestant {
    /// Prepares either end of the connection. Messages go one way, so each end uses one of the kernels.
    pub(crate) fn prepare(self, connection: &mut Connection) {
        connection.pin_copies(self.copy_in, self.copy_out);
        connection.set_window(self.window);
    }
}
