//! Receiving into memory that was never written: advises huge pages, and makes a window resident ahead of the copy.

use superpipe_core::driver::{Drive, Driver, Received, RecvFailed, RecvOperation};

use super::Blocking;
use super::access::DriverAccess;
use super::waiting::Waiting;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::fabric::HostFabric;
use crate::os::cold::{advise_huge_pages, make_resident, to_huge_page_end};

impl<A: DriverAccess> Blocking<A> {
    /// Receives as [`recv_into`](Self::recv_into) does, into memory that was not written yet.
    pub(crate) fn recv_into_cold(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: Deadline,
    ) -> Result<Received, Error> {
        if deadline.is_poll() {
            return self.poll_recv(slices);
        }
        let access = self.access();
        let (mut receive, mut cold) = (RecvOperation::cold(), Cold::default());
        let drive = |driver: &mut Driver<A::Fabric>, fabric: &mut A::Fabric| {
            cold.drive(driver, fabric, &mut receive, slices)
        };
        let received = access.wait(deadline, drive);
        access.hold().received(received, &mut receive, slices)
    }
}

/// State of the preparation of one message's destination.
///
/// Memory is prepared only after the CTS, and only for the bytes of the message.
#[derive(Default)]
struct Cold {
    is_advised: bool,
    /// The window that is copied to, as a slice's index and an offset in it.
    index: usize,
    at: usize,
    /// Bytes of the message that are yet to come.
    left: usize,
    /// Bytes of the window that are resident, as far as they are whole pages.
    resident: usize,
}

impl Cold {
    /// Receives the next part, as [`Driver::drive_recv`] does.
    fn drive<F: HostFabric>(
        &mut self,
        driver: &mut Driver<F>,
        fabric: &mut F,
        receive: &mut RecvOperation,
        slices: &mut [&mut [u8]],
    ) -> Drive<Result<Received, RecvFailed>> {
        if !receive.has_begun() {
            return driver.drive_recv(fabric, receive, slices);
        }
        if !self.is_advised {
            // With no room this only answers the RTS, or takes an empty message.
            let driven = driver.recv_part(fabric, receive, &mut []);
            if matches!(driven, Drive::Done(_)) {
                return driven;
            }
            self.is_advised = true;
            self.left = usize::try_from(receive.length()).unwrap_or(usize::MAX);
            advise_all(slices, self.left);
        }
        let before = receive.taken();
        let driven = driver.recv_part(fabric, receive, self.window(slices));
        self.pass(receive.taken() - before);
        driven
    }

    /// Returns the place of the next bytes, up to the end of a huge page, resident if the kernel grants it.
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
            // If the kernel refuses, the copy faults page by page.
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

/// Advises huge pages for the first `bytes` bytes of the slices together.
fn advise_all(slices: &mut [&mut [u8]], mut bytes: usize) {
    for slice in slices {
        let part = slice.len().min(bytes);
        advise_huge_pages(slice.get_mut(..part).unwrap_or_default());
        bytes -= part;
    }
}
