//! One thread's end of the connection.

use superpipe_core::{CopyKernel, End, Endpoint, Fabric, Length, Readable, RefusedSend, TryRecv};

use crate::fabric::Loom;

/// Returns bytes that depend on the message and their position.
fn payload(message: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|index| (index * 7 + message * 31 + 1).to_le_bytes()[0]).collect()
}

/// One thread's end of the connection.
pub(crate) struct Party<const DIRECT: bool> {
    pub(crate) fabric: Loom<DIRECT>,
    /// On the heap, since loom's threads have small stacks.
    pub(crate) end: Box<Endpoint<Loom<DIRECT>>>,
}

impl<const DIRECT: bool> Party<DIRECT> {
    fn idle(&mut self) {
        if self.end.progress(&mut self.fabric) == 0 {
            loom::thread::yield_now();
        }
        assert_eq!(self.end.closed(), None);
    }

    /// Sends a message, by `try_send` if it fits a line, otherwise by `push`.
    pub(crate) fn send(&mut self, message: u64, bytes: usize) {
        let source = payload(message, bytes);
        if bytes <= 40 {
            while let Err(refused) = self.end.try_send(&mut self.fabric, message, &[&source]) {
                assert_eq!(refused, RefusedSend::NoCredit);
                self.idle();
            }
            return;
        }
        let id = self.end.start(message, Length::Exact(bytes as u64)).expect("nothing is open");
        let mut sent = 0;
        while sent < bytes {
            match self.end.push(&mut self.fabric, id, &[&source[sent..]]) {
                Ok(0) => self.idle(),
                Ok(pushed) => sent += pushed,
                Err(refused) => panic!("{refused}"),
            }
        }
        // A write that found the send queue full is posted later.
        while !self.end.is_flushed() {
            self.idle();
        }
    }

    /// Sends a message by one call, if possible.
    pub(crate) fn send_at_once(&mut self, message: u64, bytes: usize) {
        let source = payload(message, bytes);
        loop {
            match self.end.try_send(&mut self.fabric, message, &[&source]) {
                Ok(_) => return,
                Err(RefusedSend::NoCredit) => self.idle(),
                // A posted chunk does not wrap around the ring.
                Err(RefusedSend::TooLong) => return self.send(message, bytes),
                Err(refused) => panic!("{refused}"),
            }
        }
    }

    /// Receives a message by one call, if possible, and compares it.
    pub(crate) fn receive_at_once(&mut self, message: u64, bytes: usize) {
        let mut place = vec![0; bytes];
        let mut received = 0;
        loop {
            match self.end.try_recv(&mut self.fabric, &mut [&mut place], 1) {
                TryRecv::Taken { bytes, .. } => received = bytes,
                TryRecv::Begun { bytes, .. } => received = bytes,
                TryRecv::Nothing => {
                    self.idle();
                    continue;
                }
                TryRecv::Other => {}
            }
            break;
        }
        while received < bytes {
            let pulled = self.end.pull_from(&mut self.fabric, &mut [&mut place], received);
            received += pulled.bytes;
            if pulled.bytes == 0 {
                self.idle();
            }
        }
        assert_eq!(place, payload(message, bytes), "message {message}");
    }

    /// Receives a message, and compares it.
    pub(crate) fn receive(&mut self, message: u64, bytes: usize) {
        let mut place = vec![0; bytes];
        let mut received = 0;
        loop {
            let pulled = self.end.pull(&mut self.fabric, &mut [&mut place[received..]]);
            received += pulled.bytes;
            match pulled.end {
                End::Fin => break,
                End::No if pulled.bytes == 0 => self.idle(),
                End::No => {}
                End::Cancelled(_) => panic!("nobody cancels"),
            }
        }
        assert_eq!(place, payload(message, bytes), "message {message}");
    }

    /// Receives a message in place, and compares it.
    pub(crate) fn read_in_place(&mut self, message: u64, bytes: usize) {
        let mut got = Vec::new();
        loop {
            match self.end.readable(&mut self.fabric, 1000) {
                Readable::Nothing => self.idle(),
                Readable::Ended(end) => {
                    assert_eq!(end, End::Fin);
                    break;
                }
                Readable::Run(run) => {
                    for (at, bytes) in run.spans() {
                        let mut here = vec![0; bytes as usize];
                        self.fabric.copy_out(&mut (), run.memory, at, &mut here, CopyKernel::Plain);
                        got.extend(here);
                    }
                    if self.end.consume(&mut self.fabric, run.bytes) == End::Fin {
                        break;
                    }
                }
            }
        }
        assert_eq!(got, payload(message, bytes), "message {message}");
    }
}
