//! Receiving into memory that was never written: made huge and resident a window ahead of the copy.

use superpipe_core::{End, Endpoint, Pulled};

use super::Over;
use crate::api::connection::Received;
use crate::api::deadline::Deadline;
use crate::api::error::Error;
use crate::os::cold::{advise_huge_pages, make_resident, to_huge_page_end};
use crate::port::Port;

impl<P: Port> Over<P> {
    /// As [`recv_into`](Self::recv_into), into memory that was not written yet.
    pub(in crate::api) fn recv_into_cold(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: Deadline,
    ) -> Result<Received, Error> {
        self.recv_slowly(slices, None, deadline, true)
    }
}

/// What was done so far for one message's destination.
///
/// Nothing is, before the peer was told that it may send (CTS), nor for more bytes than it will send.
pub(super) struct Cold {
    begun: bool,
    /// The window that is copied to, as a slice's index and an offset in it.
    index: usize,
    at: usize,
    /// Bytes of the message that are yet to come.
    left: usize,
    /// Bytes of the window that are resident, as far as they are whole pages.
    resident: usize,
}

impl Cold {
    /// For a message of `bytes` bytes.
    pub(super) const fn new(bytes: usize) -> Self {
        Self { begun: false, index: 0, at: 0, left: bytes, resident: 0 }
    }

    /// Takes what has arrived, as [`Endpoint::pull`] does.
    pub(super) fn pull<P: Port>(
        &mut self,
        endpoint: &mut Endpoint<P>,
        port: &mut P,
        slices: &mut [&mut [u8]],
    ) -> Pulled {
        if !self.begun {
            self.begun = true;
            // With no room this only answers the RTS, or takes an empty message.
            let pulled = endpoint.pull(port, &mut []);
            if pulled.end != End::No {
                return pulled;
            }
            advise_all(slices, self.left);
        }
        let mut bytes = 0;
        loop {
            let window = self.window(slices);
            let pulled = endpoint.pull_cached(port, &mut [window]);
            bytes += pulled.bytes;
            self.pass(pulled.bytes);
            if pulled.bytes == 0 || pulled.end != End::No {
                return Pulled { bytes, end: pulled.end };
            }
        }
    }

    /// Where the next bytes go, up to the end of a huge page; resident, if the kernel will.
    fn window<'a>(&mut self, slices: &'a mut [&mut [u8]]) -> &'a mut [u8] {
        while slices.get(self.index).is_some_and(|slice| slice.len() == self.at) {
            (self.index, self.at) = (self.index + 1, 0);
        }
        let slice = slices.get_mut(self.index).and_then(|slice| slice.get_mut(self.at..)).unwrap_or_default();
        let room = slice.len().min(self.left);
        let slice = slice.get_mut(..room).unwrap_or_default();
        let bytes = to_huge_page_end(slice);
        let window = slice.get_mut(..bytes).unwrap_or_default();
        if self.resident == 0 {
            self.resident = window.len();
            // Refused, the copy does it page by page.
            make_resident(window);
        }
        window
    }

    fn pass(&mut self, bytes: usize) {
        self.at += bytes;
        self.left -= bytes;
        self.resident -= bytes;
    }
}

/// Asks for huge pages for the first `bytes` bytes of the slices together.
fn advise_all(slices: &mut [&mut [u8]], mut bytes: usize) {
    for slice in slices {
        let part = slice.len().min(bytes);
        advise_huge_pages(slice.get_mut(..part).unwrap_or_default());
        bytes -= part;
    }
}
