//! Remote writes between the applications' memory, their registration, and the end of the link.
//!
//! A write to memory that is not registered any more ends the link, as a device's remote access error does. Memory must not be deregistered
//! while the device may read it, or a write to it may come, unless the link has ended.

use superpipe_core::{Buffer, Completion, JobOutcome, JobResult, Registration, SqFull, WcError};

use super::{Ends, Image, Posted, Target, Write};
use crate::fabric::buffers::Buffers;
use crate::fabric::memory::Memory;

/// Status of a work request that the end of the link has flushed (`ibv_poll_cq(3)`).
const WR_FLUSH_ERR: WcError = WcError { status: 5, vendor_err: 0 };

impl Posted {
    /// Lends memory of an application.
    pub fn lend(&mut self, side: usize, bytes: Vec<u8>) -> Buffer {
        self.buffers.lend(side, bytes)
    }

    /// Gives memory back to its application. Panics if it is registered.
    pub fn take_back(&mut self, buffer: Buffer) -> Vec<u8> {
        self.buffers.take_back(buffer)
    }

    /// Returns the visible bytes of memory that is lent.
    #[must_use]
    pub fn lent(&self, buffer: Buffer) -> &[u8] {
        self.buffers.bytes(buffer)
    }

    /// Lets one registration in so many fail; 0: none does.
    pub const fn fail_registrations(&mut self, one_in: usize) {
        self.jobs.fail_registrations(one_in);
    }

    /// Sets that no job ends.
    pub const fn hold_jobs(&mut self, is_held: bool) {
        self.jobs.hold(is_held);
    }

    /// Returns true if the link has ended.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Registers memory for good, as an application that keeps its buffers registered.
    pub fn register(
        &mut self,
        side: usize,
        buffer: Buffer,
        is_remote: bool,
    ) -> (Registration, superpipe_core::RemoteClaim) {
        let bytes = self.buffers.bytes(buffer).len() as u64;
        self.buffers.register(side, buffer, bytes, is_remote)
    }

    /// Deregisters memory. Panics if a write out of it or to it may be under way.
    pub fn deregister(&mut self, registration: Registration) {
        for write in &self.writes {
            let Target::Remote(Ends { from, to }) = write.target else { continue };
            let is_read = from == registration && write.read.is_none();
            let is_written = Buffers::is_of(registration, to) && write.pieces_left > 0;
            assert!(
                self.has_ended || !is_read && !is_written,
                "{registration:?} is deregistered during {write:?}"
            );
        }
        self.buffers.deregister(registration);
    }

    pub(super) fn post_remote(&mut self, link: usize, ends: Ends, at: u64, bytes: u32) -> Result<(), SqFull> {
        let at = u32::try_from(at).expect("a short message");
        // Panics if the memory is not registered.
        let _ = self.buffers.source(ends.from, at, bytes);
        assert!(bytes > 0, "an empty write");
        if self.queued[link] == self.setup.send_queue {
            return Err(SqFull);
        }
        self.queued[link] += 1;
        self.write_counts[link].write();
        self.now += 1;
        let (pieces, pieces_left) = self.cut(at, bytes);
        let (id, target) = (self.now, Target::Remote(ends));
        self.writes.push(Write { id, link, target, wr: None, pieces, pieces_left, read: None });
        self.flush_if_ended();
        Ok(())
    }

    /// Makes bytes of a remote write visible, or ends the link if they may not be written.
    pub(super) fn place_remote(&mut self, link: usize, ends: Ends, at: u32, data: &[u8]) {
        let bytes = u32::try_from(data.len()).expect("a piece");
        match self.buffers.destination(link, ends.to, at, bytes) {
            Some(there) => there.copy_from_slice(data),
            None => self.end_link(),
        }
    }

    /// Ends the link: nothing becomes visible any more, and all work requests fail.
    pub fn end_link(&mut self) {
        self.has_ended = true;
        for link in 0..2 {
            let arrived =
                self.notifications[link].iter().take_while(|sent| self.is_visible(link, sent.id)).count();
            self.notifications[link].truncate(arrived);
        }
        self.flush_if_ended();
    }

    /// Flushes work requests of a link that has ended.
    pub(super) fn flush_if_ended(&mut self) {
        if !self.has_ended {
            return;
        }
        for Write { id, link, wr, read, .. } in core::mem::take(&mut self.writes) {
            match (wr, read) {
                (_, Some((_, buffer))) => self.spare.push(buffer),
                (Some(wr), None) => {
                    self.completions[link].push_back(Completion { wr, result: Err(WR_FLUSH_ERR) });
                }
                (None, None) => self.queued[link] -= 1,
            }
            self.owned[link].retain(|owned| owned.id != id || owned.wr.is_some());
        }
    }

    pub(super) fn register_by_job(
        &mut self,
        side: usize,
        buffer: Buffer,
        bytes: u64,
        is_remote: bool,
    ) -> JobResult<Memory, Image> {
        let (registration, claim) = self.buffers.register(side, buffer, bytes, is_remote);
        Ok(JobOutcome::Registered(registration, claim))
    }
}
