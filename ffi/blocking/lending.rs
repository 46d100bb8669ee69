//! Memory of the caller that a blocking call lends to the connection, so that a message goes out of it, or into it, without blocks.
//!
//! The call keeps the borrow, and returns only after the memory was taken back, whatever happens: the end of its message, a timeout, an
//! interrupt, the loss of the peer, an error of the device, a panic. So operations, which a program drives by itself and may forget, lend
//! nothing: their messages go in blocks.

use core::ops::Range;
use core::ptr::NonNull;
use core::time::Duration;
use std::thread;

use superpipe_core::Reason;
use superpipe_core::driver::{Drive, Driver, Received, RecvOperation, SendOperation};

use super::access::DriverAccess;
use super::host_driver::{HostDriver, now};
use super::waiting::Waiting;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::fabric::{HostFabric, Way};
use crate::registered_buf::RegisteredBuf;

/// Rounds without a pause of a call that has failed, and waits until its memory is released: a job that is under way takes about as long.
const ROUNDS: u32 = 1000;
/// Pause between later rounds.
const PAUSE: Duration = Duration::from_micros(50);

/// A call that may lend memory. A drop takes it back, and ends the link if core has not released it.
pub(super) struct Lending<'a, A: DriverAccess> {
    access: &'a mut A,
    way: Way,
    is_lent: bool,
    is_released: bool,
}

impl<'a, A: DriverAccess> Lending<'a, A> {
    /// Begins a call that sends or receives a message.
    pub(super) const fn new(access: &'a mut A, way: Way) -> Self {
        Self { access, way, is_lent: false, is_released: false }
    }

    /// Sends a message, out of the memory of its slice if it has only one.
    pub(super) fn send(
        mut self,
        send: &mut SendOperation,
        slices: &[&[u8]],
        deadline: Deadline,
    ) -> Result<(), Error> {
        let mut memory = None;
        if A::Fabric::LENDS
            && let [slice] = slices
        {
            let HostDriver { driver, fabric, .. } = &mut *self.access.hold();
            // SAFETY: the slice is borrowed until this function has returned or unwound, which drops `self` before.
            memory = unsafe {
                fabric.lend_source(driver.endpoint_mut(), NonNull::from(*slice).cast(), slice.len())
            };
        }
        self.is_lent = memory.is_some();
        if let Some(memory) = memory {
            *send = send.clone().with_memory(memory);
        }
        self.drive_send(send, slices, deadline)
    }

    /// Sends a part of a registered buffer, which is `bytes`.
    pub(super) fn send_registered(
        mut self,
        mut send: SendOperation,
        buffer: &RegisteredBuf,
        part: Range<usize>,
        bytes: &[u8],
        deadline: Deadline,
    ) -> Result<(), Error> {
        let memory = {
            let HostDriver { driver, fabric, .. } = &mut *self.access.hold();
            fabric.source_memory(driver.endpoint_mut(), buffer.memory(), part)
        };
        let Some(memory) = memory else { return self.send(&mut send, &[bytes], deadline) };
        self.is_lent = true;
        self.drive_send(&mut send.with_memory(memory), &[bytes], deadline)
    }

    fn drive_send(
        mut self,
        send: &mut SendOperation,
        slices: &[&[u8]],
        deadline: Deadline,
    ) -> Result<(), Error> {
        let mut sent = self.access.wait(deadline, |driver, fabric| driver.drive_send(fabric, send, slices));
        if sent.is_err() && !send.awaits_release() {
            let HostDriver { driver, fabric, .. } = &mut *self.access.hold();
            driver.cancel_send(fabric, send, Reason::GIVEN_UP);
        }
        self.await_release(|driver| driver.is_send_released(send));
        if sent.is_err() && send.awaits_release() {
            // All of the message was sent in time. An error would make the caller send it again.
            let HostDriver { driver, fabric, .. } = &mut *self.access.hold();
            if let Drive::Done(done) = driver.drive_send(fabric, send, slices) {
                sent = Ok(done);
            }
        }
        sent?.map_err(|failed| self.access.hold().send_failed(failed))
    }

    /// Receives a message, into the memory of the slice if there is only one.
    pub(super) fn receive(
        mut self,
        receive: RecvOperation,
        slices: &mut [&mut [u8]],
        deadline: Deadline,
    ) -> Result<Received, Error> {
        let mut memory = None;
        if A::Fabric::LENDS
            && let [slice] = slices
        {
            let HostDriver { driver, fabric, .. } = &mut *self.access.hold();
            let len = slice.len();
            // SAFETY: the slice is borrowed mutably until this function has returned or unwound, which drops `self` before. Until then core
            // alone has it, which reads no more of it than its length while a device may write it.
            memory = unsafe {
                fabric.lend_destination(driver.endpoint_mut(), NonNull::from(&mut **slice).cast(), len)
            };
        }
        self.is_lent = memory.is_some();
        let receive = match memory {
            Some(memory) => receive.with_memory(memory),
            None => receive,
        };
        self.drive_receive(receive, slices, deadline)
    }

    /// Receives a message into a registered buffer.
    pub(super) fn receive_registered(
        mut self,
        buffer: &mut RegisteredBuf,
        deadline: Deadline,
    ) -> Result<Received, Error> {
        let receive = RecvOperation::new();
        let memory = {
            let HostDriver { driver, fabric, .. } = &mut *self.access.hold();
            // SAFETY: the buffer is borrowed mutably until this function has returned or unwound, which drops `self` before.
            unsafe { fabric.destination_memory(driver.endpoint_mut(), buffer.memory()) }
        };
        let Some(memory) = memory else { return self.receive(receive, &mut [buffer], deadline) };
        self.is_lent = true;
        self.drive_receive(receive.with_memory(memory), &mut [buffer], deadline)
    }

    fn drive_receive(
        mut self,
        mut receive: RecvOperation,
        slices: &mut [&mut [u8]],
        deadline: Deadline,
    ) -> Result<Received, Error> {
        let drive = |driver: &mut Driver<A::Fabric>, fabric: &mut A::Fabric| {
            driver.drive_recv(fabric, &mut receive, slices)
        };
        let mut received = self.access.wait(deadline, drive);
        if received.is_err() && receive.awaits_release() {
            // All of the message came in time, and its sender knows that. An error would lose it.
            self.await_release(|driver| driver.is_recv_released(&receive));
            let host = &mut *self.access.hold();
            if let Drive::Done(done) = host.driver.drive_recv(&mut host.fabric, &mut receive, slices) {
                received = Ok(done);
            }
            return host.received(received, &mut receive, slices);
        }
        let received = self.access.hold().received(received, &mut receive, slices);
        self.await_release(|driver| driver.is_recv_released(&receive));
        received
    }

    /// Makes rounds of progress until core has released the memory, which is so already unless the call has failed. Ends with the time that a
    /// drop of the connection may wait for the same: a device may never complete what it sends to a peer that is gone.
    fn await_release(&mut self, is_released: impl Fn(&Driver<A::Fabric>) -> bool) {
        if !self.is_lent {
            return;
        }
        let (mut end_ns, mut rounds) = (None, 0_u32);
        loop {
            {
                let host = &mut *self.access.hold();
                self.is_released = is_released(&host.driver);
                if self.is_released {
                    return;
                }
                let now = now();
                if now.0 >= *end_ns.get_or_insert_with(|| host.options.linger_end_ns(now.0)) {
                    return;
                }
                host.check_peer(now);
                host.driver.progress(&mut host.fabric);
            }
            rounds = rounds.saturating_add(1);
            if rounds > ROUNDS {
                thread::sleep(PAUSE);
            }
        }
    }
}

impl<A: DriverAccess> Drop for Lending<'_, A> {
    fn drop(&mut self) {
        if self.is_lent {
            let HostDriver { driver, fabric, .. } = &mut *self.access.hold();
            fabric.take_back(driver.endpoint_mut(), self.way, self.is_released);
        }
    }
}

#[cfg(test)]
mod tests;
