//! Memory that the applications lend: its registrations, the remote writes between it, and the end of a link or of an end.
//!
//! The device reads a source whenever a part of a write becomes visible, and once more when the write completes. A registration takes effect
//! when its job is done, and lasts until the job that ends it is done. So does a link: until the job is done, everything still arrives.
//! Afterwards nothing is written to the end any more, what it had posted is flushed, and what was on its way to the peer may still arrive.

use superpipe_core::{
    Buffer, DestinationClaim, JobOutcome, JobResult, Registration, RemoteClaim, SqFull, WcError,
};
use superpipe_testkit::{Memory, Place};

use super::write::{WrState, Write};
use super::{StepFabric, index};

/// Status of a work request that is flushed.
pub(super) const FLUSHED: WcError = WcError { status: 5, vendor_err: 0 };

/// Direction of a message for which memory is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::explore) enum Way {
    Out,
    In,
}

/// State of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Use {
    NotRegistered,
    Registered,
    /// The job that deregisters it is under way.
    Deregistering,
    /// The application has registered it, and it stays so.
    Kept,
}

/// Memory that is lent.
#[derive(Clone, Debug, Hash)]
struct Lent {
    /// Number of the buffer, of its registration, and of its claim.
    number: u8,
    bytes: Vec<u8>,
    registered: Use,
    /// The device was told to read it.
    was_posted: bool,
}

/// Memory that is lent, by end and direction, and what became of the links.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct LentMemory {
    lent: [[Option<Lent>; 2]; 2],
    /// The job that ends this link is done.
    has_ended: [bool; 2],
    /// This end does not exist any more.
    is_dead: [bool; 2],
}

impl LentMemory {
    fn get(&self, side: usize, way: Way) -> Option<&Lent> {
        self.lent[side][way as usize].as_ref()
    }

    fn get_mut(&mut self, side: usize, way: Way) -> &mut Lent {
        let lent = self.lent[side][way as usize].as_mut();
        lent.unwrap_or_else(|| panic!("end {side} has lent no memory for {way:?}"))
    }

    /// Returns memory that a device may use now.
    fn registered(&self, side: usize, way: Way, number: u8) -> &Lent {
        let lent = self.get(side, way).filter(|lent| lent.number == number);
        let Some(lent) = lent else { panic!("buffer {number} of end {side} is used, and was given back") };
        let is_registered = lent.registered != Use::NotRegistered;
        assert!(is_registered, "buffer {number} of end {side} is used, and is not registered");
        lent
    }
}

fn number(number: u64) -> u8 {
    u8::try_from(number).expect("a case has few messages")
}

impl<const DIRECT: bool> StepFabric<DIRECT> {
    /// Lends memory. With `is_kept` it is registered, and stays so.
    pub(in crate::explore) fn lend(
        &mut self,
        side: usize,
        way: Way,
        number: u8,
        bytes: Vec<u8>,
        is_kept: bool,
    ) {
        let registered = if is_kept { Use::Kept } else { Use::NotRegistered };
        let lent = Lent { number, bytes, registered, was_posted: false };
        let before = self.lent.change().lent[side][way as usize].replace(lent);
        assert!(before.is_none(), "end {side} lends memory for two messages at a time");
    }

    /// Gives memory back, and panics if it is registered or a device may use it.
    pub(in crate::explore) fn take_back(&mut self, side: usize, way: Way) {
        let Some(Lent { number, registered, .. }) = self.lent.change().lent[side][way as usize].take() else {
            panic!("end {side} has lent no memory for {way:?}")
        };
        let is_registered = matches!(registered, Use::Registered | Use::Deregistering);
        assert!(!is_registered, "buffer {number} of end {side} is given back, and is registered");
        assert!(!self.is_used(side, way, number), "buffer {number} of end {side} is given back, and is used");
        let is_of = |buffer: Buffer| buffer.0 == u64::from(number);
        let registers = self.jobs[side].buffers().any(is_of);
        assert!(!registers, "buffer {number} of end {side} is given back, and is being registered");
    }

    /// Returns the bytes of memory that is lent.
    pub(in crate::explore) fn lent_bytes(&self, side: usize, way: Way) -> &[u8] {
        self.lent.get(side, way).map_or(&[], |lent| &lent.bytes)
    }

    /// Replaces the bytes of memory that messages come into.
    pub(in crate::explore) fn fill_lent(&mut self, side: usize, bytes: &[u8]) {
        if self.lent_bytes(side, Way::In) != bytes {
            self.lent.change().get_mut(side, Way::In).bytes.copy_from_slice(bytes);
        }
    }

    /// Returns the number of the memory that is lent.
    pub(in crate::explore) fn lent_number(&self, side: usize, way: Way) -> Option<u8> {
        self.lent.get(side, way).map(|lent| lent.number)
    }

    /// Returns true if the message was written remotely out of the memory that is lent, or a part of it.
    pub(in crate::explore) fn was_posted(&self, side: usize) -> bool {
        self.lent.get(side, Way::Out).is_some_and(|lent| lent.was_posted)
    }

    /// Returns true if nothing of this end's application is lent.
    pub(in crate::explore) fn has_all_memory(&self, side: usize) -> bool {
        self.lent.lent[side].iter().all(Option::is_none)
    }

    pub(in crate::explore) fn is_dead(&self, side: usize) -> bool {
        self.lent.is_dead[side]
    }

    /// Returns true if a link was ended, or an end does not exist any more.
    pub(in crate::explore) fn is_broken(&self) -> bool {
        self.lent.has_ended.iter().chain(&self.lent.is_dead).any(|is_so| *is_so)
    }

    /// Returns true if a device may read this source, or a write to this destination is on its way.
    fn is_used(&self, side: usize, way: Way, number: u8) -> bool {
        let to = Memory::writable(side, number);
        match way {
            Way::Out => {
                let reads = |write: &Write| write.source == Some(number) && write.wr_state == WrState::Posted;
                self.writes[side].iter().any(reads)
            }
            Way::In => self.writes[1 - side].iter().any(|write| write.to == to && write.invisible != 0),
        }
    }

    pub(super) fn register(&mut self, side: usize, way: Way, buffer: Buffer) -> JobResult<Memory, Memory> {
        let number = number(buffer.0);
        let lent = self.lent.change().get_mut(side, way);
        assert_eq!(lent.number, number, "memory of end {side} is registered that was given back");
        assert_eq!(lent.registered, Use::NotRegistered, "buffer {number} of end {side} is registered twice");
        lent.registered = Use::Registered;
        let claim = RemoteClaim { address: 0, key: number.into() };
        Ok(JobOutcome::Registered(Registration(number.into()), claim))
    }

    /// Sources have even numbers, and destinations odd ones.
    const fn way_of(registration: Registration) -> Way {
        if registration.0.is_multiple_of(2) { Way::Out } else { Way::In }
    }

    pub(super) fn begin_deregistration(&mut self, side: usize, registration: Registration) {
        let (way, number) = (Self::way_of(registration), number(registration.0));
        let is_used = self.is_used(side, way, number);
        let lent = self.lent.change().get_mut(side, way);
        let is_registered = lent.number == number && lent.registered == Use::Registered;
        assert!(is_registered, "buffer {number} of end {side} is deregistered, and is not registered");
        assert!(!is_used, "buffer {number} of end {side} is deregistered, and a device may use it");
        lent.registered = Use::Deregistering;
    }

    pub(super) fn end_deregistration(&mut self, side: usize, registration: Registration) {
        let lent = self.lent.change().get_mut(side, Self::way_of(registration));
        assert_eq!(lent.number, number(registration.0), "it was given back while it was deregistered");
        lent.registered = Use::NotRegistered;
    }

    /// Ends the link of an end: nothing arrives here any more, and what it had posted is flushed.
    pub(super) fn end_link(&mut self, side: usize) {
        self.stop_reading(side);
        self.drop_writes(1 - side);
        self.lent.change().has_ended[side] = true;
    }

    /// Lets an end die. What it has posted may still arrive, and what is posted to it never completes.
    pub(in crate::explore) fn lose(&mut self, side: usize) {
        self.stop_reading(side);
        self.drop_writes(1 - side);
        let lent = self.lent.change();
        lent.lent[side] = [None, None];
        lent.is_dead[side] = true;
        self.jobs[side].change().forget();
    }

    /// Flushes what an end has posted. What it has posted before may be on its way, with the bytes of now.
    fn stop_reading(&mut self, side: usize) {
        for at in 0..self.writes[side].len() {
            let data = self.read(side, &self.writes[side][at]);
            let write = &mut self.writes[side].change()[at];
            write.data = Some(data.into());
            if write.wr_state == WrState::Posted {
                write.flush();
            }
        }
        self.writes[side].change().retain(|write| !write.is_over());
    }

    /// Drops what is on its way from this end.
    fn drop_writes(&mut self, side: usize) {
        let writes = self.writes[side].change();
        writes.iter_mut().for_each(Write::drop);
        writes.retain(|write| !write.is_over());
    }

    /// Applies to a write that is posted now what has become of the links.
    pub(super) fn note_broken(&self, side: usize, write: &mut Write) {
        let LentMemory { has_ended, is_dead, .. } = &*self.lent;
        if has_ended[0] || has_ended[1] || is_dead[1 - side] {
            write.drop();
        }
        if has_ended[side] {
            write.data = Some(self.read(side, write).into());
            write.flush();
        }
    }

    /// Returns true if WRs of this end never complete.
    pub(super) fn is_stuck(&self, side: usize) -> bool {
        self.lent.is_dead[1 - side] && !self.lent.has_ended[side]
    }

    /// Reads the bytes of a write, as the device does.
    pub(super) fn read(&self, side: usize, write: &Write) -> Vec<u8> {
        let Write { to, at, bytes, .. } = *write;
        match (&write.data, write.source) {
            (Some(data), _) => data.to_vec(),
            (None, None) => self.images[index(to)].get(at, bytes).to_vec(),
            (None, Some(number)) => {
                let lent = self.lent.registered(side, Way::Out, number);
                lent.bytes[at as usize..][..bytes as usize].to_vec()
            }
        }
    }

    /// Makes bytes of a remote write visible.
    pub(super) fn put_remote(&mut self, to: Memory, at: u32, data: &[u8]) {
        self.lent.registered(to.owner, Way::In, to.index);
        let lent = self.lent.change().get_mut(to.owner, Way::In);
        lent.bytes[at as usize..][..data.len()].copy_from_slice(data);
    }

    /// Posts a remote write.
    pub(super) fn post_remote(
        &mut self,
        side: usize,
        from: Registration,
        to: DestinationClaim,
        at: u64,
        bytes: u32,
    ) -> Result<(), SqFull> {
        assert!(!DIRECT, "nothing is posted where stores go direct");
        if self.has_full_queue(side) {
            return Err(SqFull);
        }
        let source = number(from.0);
        self.lent.registered(side, Way::Out, source);
        self.lent.change().get_mut(side, Way::Out).was_posted = true;
        let at = u32::try_from(at).expect("messages are short");
        assert!(u64::from(at + bytes) <= to.bytes, "{bytes} bytes at {at} of {} are written", to.bytes);
        let to = Memory::writable(1 - side, number(to.memory.key.into()));
        let pieces = Write::cut_remote(at, bytes, &self.case);
        let mut write = Write::new((to, at, bytes), None, WrState::Posted, pieces, self.case.arrival);
        write.source = Some(source);
        self.push(side, write);
        Ok(())
    }

    /// Returns true if a piece of a write goes into memory of an application.
    pub(super) fn is_remote(write: &Write) -> bool {
        !DIRECT && write.to.place == Place::Writable
    }
}
