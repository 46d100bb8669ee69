//! Direct store: an end sees at once what the other one writes.

use core::cell::Cell;

use superpipe_core::recorder::Recorder;
use superpipe_core::{
    Buffer, Busy, Caps, Completion, CopyKernel, Fabric, Job, JobResult, LINE_BYTES, Layout, Line, Nanos,
    Notification, PeerAccess, SqFull, Ticket, WrId, control_page,
};

use super::exposed::ExposedMemories;
use super::jobs::{JobEffects, JobQueue, Polled, finish, logged};
use super::log::{Log, LogEntry, Logged};
use super::memory::{Memories, Memory, Place};
use super::ownership::BlockOwnership;
use super::{EndLink, PairFabric, Recorders, Setup, TestFabric, WriteCounts, ownership};
use crate::crc32c;

/// Hints that an end has given the fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Hints to read whose flag was there.
    pub reads: u64,
    /// Offset and bytes of the last one.
    pub last_read: (u32, u32),
    /// Offset and bytes of the last hint to write, and whether that follows an answer.
    pub last_write: ((u32, u32), bool),
}

/// Two ends that write each other's memory.
#[derive(Clone, Debug)]
pub struct Direct {
    setup: Setup,
    memories: Memories,
    ownership: [BlockOwnership; 2],
    doorbells: [u64; 2],
    hints: [Hints; 2],
    looks_in_vain: Cell<u32>,
    torn_reads: Cell<u32>,
    write_counts: [WriteCounts; 2],
    now: u64,
    recorders: Recorders,
    jobs: JobQueue<Memory>,
    exposed: ExposedMemories,
    log: Log,
}

impl Direct {
    /// Returns how often this end rang the doorbell, which wakes a peer that sleeps.
    #[must_use]
    pub const fn doorbells(&self, side: usize) -> u64 {
        self.doorbells[side]
    }

    /// Lets the next looks at a flag find nothing, as if what was sent arrived later.
    pub fn delay_flags(&self, looks: u32) {
        self.looks_in_vain.set(looks);
    }

    /// Lets the next reads of acknowledgements find their line torn, as if the peer were writing it.
    pub fn tear_acks(&self, reads: u32) {
        self.torn_reads.set(reads);
    }

    /// Returns how many of them are left.
    #[must_use]
    pub const fn torn_reads(&self) -> u32 {
        self.torn_reads.get()
    }

    /// Returns the hints that this end has given.
    #[must_use]
    pub const fn hints(&self, side: usize) -> Hints {
        self.hints[side]
    }

    /// Memory of the applications, which their peers map.
    pub const fn exposed(&mut self) -> &mut ExposedMemories {
        &mut self.exposed
    }

    /// Lets one job in so many fail that exposes or maps memory; 0: none does.
    pub const fn fail_exposing(&mut self, one_in: usize) {
        self.jobs.fail_registrations(one_in);
    }

    fn check(&mut self, side: usize, to: Memory, at: u32, bytes: u32) {
        assert_ne!(to.owner, side, "an end writes its peer's memory, not its own");
        if to.place == Place::Landing {
            self.ownership[to.owner].on_write(to.index, at, bytes);
        }
    }
}

impl JobEffects<Memory> for Direct {
    fn provision_landing(&mut self, memory: Memory, layout: Layout) {
        self.ownership[memory.owner].provision(memory.index, layout);
        self.memories.provision(memory, layout.bytes());
    }

    fn provision_image(&mut self, memory: Memory, _: Layout) -> Memory {
        memory
    }

    fn release_landing(&mut self, memory: Memory) {
        self.ownership[memory.owner].release(memory.index);
        self.memories.provision(memory, 0);
    }

    fn release_image(&mut self, _: Memory) {}

    fn expose(
        &mut self,
        side: usize,
        place: u8,
        buffer: Buffer,
        access: PeerAccess,
    ) -> JobResult<Memory, Memory> {
        self.exposed.expose(side, place, buffer, access)
    }

    fn map(&mut self, side: usize, place: u8, bytes: u32, access: PeerAccess) -> JobResult<Memory, Memory> {
        self.exposed.map(side, place, bytes, access)
    }

    fn unmap(&mut self, side: usize, memory: Memory) -> JobResult<Memory, Memory> {
        assert_eq!(memory.owner, side, "an end unmaps what it maps");
        self.exposed.unmap(memory)
    }

    fn unmap_writable(&mut self, side: usize, memory: Memory) -> JobResult<Memory, Memory> {
        assert_eq!(memory.owner, 1 - side, "an end unmaps what it maps");
        self.exposed.unmap(memory)
    }
}

impl Fabric for Direct {
    const DIRECT: bool = true;
    const TIMES_COPIES: bool = true;
    type Link = EndLink;
    type Region = Memory;
    type Remote = Memory;

    fn caps(&self, _: &EndLink) -> Caps {
        Caps { order_inside_write: true, notifications_max: 0 }
    }

    fn now(&mut self) -> Nanos {
        self.now += 100;
        Nanos(self.now)
    }

    fn flag(&self, link: &EndLink, from: Memory, at: u32) -> u64 {
        assert_eq!(from.owner, link.0);
        if let Some(looks) = self.looks_in_vain.get().checked_sub(1) {
            self.looks_in_vain.set(looks);
            return 0;
        }
        self.memories.flag(from, at)
    }

    fn take_line(&self, link: &EndLink, from: Memory, at: u32) -> Line {
        assert_eq!(from.owner, link.0);
        let mut line = self.memories.line(from, at);
        if from.place == Place::ControlPage
            && at == control_page::ACK
            && let Some(reads) = self.torn_reads.get().checked_sub(1)
        {
            self.torn_reads.set(reads);
            line.0[1] ^= 1;
        }
        line
    }

    fn expect_read(
        &mut self,
        link: &mut EndLink,
        from: Memory,
        flag_at: u32,
        flag: u64,
        at: u32,
        bytes: u32,
    ) {
        // Hints must lie in the memory, too.
        let _ = self.memories.bytes(from, at, bytes);
        if self.flag(link, from, flag_at) == flag {
            let hints = &mut self.hints[link.0];
            (hints.reads, hints.last_read) = (hints.reads + 1, (at, bytes));
        }
    }

    fn expect_write(&mut self, link: &mut EndLink, to: Memory, at: u32, bytes: u32, follows_answer: bool) {
        let _ = self.memories.bytes(to, at, bytes);
        self.hints[link.0].last_write = ((at, bytes), follows_answer);
    }

    #[expect(clippy::cast_possible_truncation, reason = "a block is less than 4 GiB")]
    fn copy_out(&mut self, link: &mut EndLink, from: Memory, at: u32, to: &mut [u8], _: CopyKernel) {
        assert_eq!(from.owner, link.0);
        if matches!(from.place, Place::Exposed | Place::Writable) {
            return to.copy_from_slice(self.exposed.read(from, at, to.len() as u32));
        }
        assert_eq!(from.place, Place::Landing);
        self.ownership[from.owner].on_read(from.index, at, to.len() as u32);
        to.copy_from_slice(self.memories.bytes(from, at, to.len() as u32));
    }

    fn crc_out(&self, _: &EndLink, from: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        crc32c(self.memories.bytes(from, at, bytes), seed)
    }

    fn write_line(&mut self, link: &mut EndLink, to: Memory, at: u32, line: &Line) {
        self.check(link.0, to, at, LINE_BYTES);
        self.write_counts[link.0].write();
        self.memories.put_line(to, at, line);
        self.log.add(link.0, self.now, Logged::Written { to, bytes: LINE_BYTES });
        match to.place {
            Place::Landing => self.ownership[to.owner].on_header(to.index, at, line),
            Place::ControlPage if at == control_page::ACK => self.ownership[link.0].on_acknowledge(line.0[0]),
            Place::ControlPage | Place::Exposed | Place::Writable => {}
        }
    }

    fn publish(&mut self, link: &mut EndLink, to: Memory, at: u32, flag: u64) {
        self.check(link.0, to, at, 8);
        self.write_counts[link.0].write();
        self.memories.put_flag(to, at, flag);
        match to.place {
            Place::Landing => self.ownership[to.owner].on_flag(to.index, at),
            Place::ControlPage if at == control_page::ACK => self.ownership[link.0].on_acknowledge(flag),
            Place::ControlPage | Place::Exposed | Place::Writable => {}
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a block is less than 4 GiB")]
    fn copy_in(&mut self, link: &mut EndLink, to: Memory, at: u32, from: &[u8], _: CopyKernel) {
        self.check(link.0, to, at, from.len() as u32);
        self.log.add(link.0, self.now, Logged::Written { to, bytes: from.len() as u32 });
        if to.place == Place::Writable {
            let buffer = self.exposed.written(to, at);
            return self.exposed.write(buffer, at as usize, from);
        }
        self.memories.bytes_mut(to, at, from.len() as u32).copy_from_slice(from);
    }

    fn crc_in(&self, _: &EndLink, to: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        crc32c(self.memories.bytes(to, at, bytes), seed)
    }

    fn crc(&self, bytes: &[u8], seed: u32) -> u32 {
        crc32c(bytes, seed)
    }

    fn post_write(
        &mut self,
        _: &mut EndLink,
        _: Memory,
        _: u32,
        _: u32,
        _: Option<WrId>,
        _: Option<Notification>,
    ) -> Result<(), SqFull> {
        panic!("nothing is posted where stores go direct")
    }

    fn ring_doorbell(&mut self, link: &mut EndLink) {
        self.doorbells[link.0] += 1;
        self.write_counts[link.0].ring();
    }

    fn poll_cq(&mut self, _: &mut EndLink) -> Option<Completion> {
        None
    }

    fn begin(&mut self, link: &mut EndLink, ticket: Ticket, job: Job<Memory, Memory>) -> Result<(), Busy> {
        self.jobs.begin(link.0, ticket, job)?;
        self.log.add(link.0, self.now, Logged::Begun(logged(job)));
        Ok(())
    }

    fn finished(&mut self, link: &mut EndLink) -> Option<(Ticket, JobResult<Memory, Memory>)> {
        match self.jobs.poll(link.0) {
            Polled::Nothing => None,
            Polled::Do(ticket, job) => {
                let result = finish(self, link.0, job);
                let what = if result.is_ok() { Logged::Done } else { Logged::Failed };
                self.log.add(link.0, self.now, what(logged(job)));
                Some((ticket, result))
            }
            Polled::Failed(ticket, failed, job) => {
                if let Some(job) = job {
                    if let Job::Map { .. } = job {
                        self.exposed.drop_handed(link.0);
                    }
                    self.log.add(link.0, self.now, Logged::Failed(logged(job)));
                }
                Some((ticket, Err(failed)))
            }
        }
    }

    fn is_memory_short(&self, _: &EndLink) -> bool {
        self.jobs.is_memory_short()
    }

    fn recorder(&mut self, link: &EndLink) -> Option<&mut Recorder> {
        self.recorders[link.0].as_deref_mut()
    }
}

impl PairFabric for Direct {
    fn remote(&self, memory: Memory) -> Memory {
        memory
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn start(&mut self, blocks: u64) {
        self.ownership.iter_mut().for_each(|owned| owned.start(blocks));
    }

    fn is_quiescent(&self) -> bool {
        self.jobs.is_empty()
    }

    fn visible(&self, memory: Memory, at: u32, bytes: u32) -> &[u8] {
        if matches!(memory.place, Place::Exposed | Place::Writable) {
            return self.exposed.read(memory, at, bytes);
        }
        self.memories.bytes(memory, at, bytes)
    }

    fn fill(&mut self, remote: Memory, at: u32, bytes: &[u8]) {
        self.copy_in(&mut EndLink(1 - remote.owner), remote, at, bytes, CopyKernel::Plain);
    }
}

impl TestFabric for Direct {
    const NAME: &'static str = "direct";

    fn new(setup: &Setup) -> Self {
        let ownership = setup.layouts.map(|layout| ownership(layout, setup));
        Self {
            setup: *setup,
            memories: Memories::new(setup),
            ownership,
            doorbells: [0; 2],
            hints: [Hints::default(); 2],
            looks_in_vain: Cell::new(0),
            torn_reads: Cell::new(0),
            write_counts: [WriteCounts::default(); 2],
            now: 0,
            recorders: [None, None],
            jobs: JobQueue::new(setup.growth, setup.seed),
            exposed: ExposedMemories::default(),
            log: Log::default(),
        }
    }

    fn step(&mut self) {}

    fn recorders(&mut self) -> &mut Recorders {
        &mut self.recorders
    }

    fn memories(&self) -> &Memories {
        &self.memories
    }

    fn grown_bytes(&self) -> u64 {
        self.memories.grown_bytes()
    }

    fn begin_log(&mut self) {
        self.log.begin();
    }

    fn log(&self) -> &[LogEntry] {
        self.log.entries()
    }

    fn write_counts(&self, side: usize) -> WriteCounts {
        self.write_counts[side]
    }

    fn forge(&mut self, memory: Memory, at: u32, line: &Line) {
        self.ownership.iter_mut().for_each(BlockOwnership::stop);
        self.memories.put_line(memory, at, line);
    }
}
