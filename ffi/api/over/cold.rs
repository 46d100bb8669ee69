//! Receiving into memory that was never written: made huge and resident a window ahead of the copy.

use superpipe_core::driver::{Drive, Driver, Receive, ReceiveFailed, Received};

use super::Over;
use super::access::Access;
use super::waiting::Waiting;
use crate::api::deadline::Deadline;
use crate::api::error::Error;
use crate::os::cold::{advise_huge_pages, make_resident, to_huge_page_end};
use crate::port::Port;

impl<A: Access> Over<A> {
    /// Receives as [`recv_into`](Self::recv_into) does, into memory that was not written yet.
    pub(in crate::api) fn recv_into_cold(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: Deadline,
    ) -> Result<Received, Error> {
        if deadline.is_poll() {
            return self.poll_recv(slices);
        }
        let transport = self.transport();
        let (mut receive, mut cold) = (Receive::cold(), Cold::default());
        let drive =
            |driver: &mut Driver<A::Port>, port: &mut A::Port| cold.drive(driver, port, &mut receive, slices);
        let received = transport.wait(deadline, drive);
        transport.hold().received(received, receive, slices)
    }
}

/// State of the preparation of one message's destination.
///
/// Memory is prepared only after the peer was told that it may send (CTS), and only for as many bytes as it will send.
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
    /// Takes what has arrived, as [`Driver::drive_receive`] does.
    fn drive<P: Port>(
        &mut self,
        driver: &mut Driver<P>,
        port: &mut P,
        receive: &mut Receive,
        slices: &mut [&mut [u8]],
    ) -> Drive<Result<Received, ReceiveFailed>> {
        if !receive.has_begun() {
            return driver.drive_receive(port, receive, slices);
        }
        if !self.is_advised {
            // With no room this only answers the RTS, or takes an empty message.
            let driven = driver.receive_part(port, receive, &mut []);
            if matches!(driven, Drive::Done(_)) {
                return driven;
            }
            self.is_advised = true;
            self.left = usize::try_from(receive.length()).unwrap_or(usize::MAX);
            advise_all(slices, self.left);
        }
        let before = receive.taken();
        let driven = driver.receive_part(port, receive, self.window(slices));
        self.pass(receive.taken() - before);
        driven
    }

    /// Place of the next bytes, up to the end of a huge page. It is resident, if the kernel grants that.
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
