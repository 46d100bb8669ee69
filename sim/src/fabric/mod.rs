//! A connection between two hosts of a [`World`] as core's fabric: its memory, a QP, and CPUs that spend time.
//!
//! With posted writes core builds an image, and the NIC reads it. With direct store the image is what this end's CPU sees of its own
//! stores, which become visible to the other end a little later, in order. A wrong step of core is a panic: an access to bytes that the
//! NIC or the reader owns, or an offset out of range.

mod connecting;
mod exposed;
mod forger;
mod growing;
mod lent;
mod notified;
mod pair;
mod partial_blocks;
mod reuse;
mod sleeping;

use core::cell::RefCell;
use std::collections::VecDeque;

use superpipe_core::plan::{Planner, Profile, Terms};
use superpipe_core::recorder::Recorder;
use superpipe_core::{
    Buffer, Busy, Caps, Completion, CopyKernel, DestinationClaim, Fabric, Finished, Job, KernelSet,
    LINE_BYTES, Line, Nanos, Notification, Planning, Registration, RemoteClaim, SqFull, Ticket, WcError,
    WrId, control_page,
};
use superpipe_testkit::{BlockOwnership, EndLink, ExposedMemories, Memory, Place, Setup, Span, crc32c};

use crate::faults::Fault;
use crate::nic::{
    Key, MemoryUse, Op, PostRefused, QpName, TraceEvent, Way, Wc, Work, World, Wr, status, time_ns,
};
pub(crate) use forger::ArrivalFlags;
use forger::Forger;
use growing::Grown;
use lent::LentMemory;
use partial_blocks::PartialBlockCounter;
pub use partial_blocks::PartialBlocks;
use reuse::Reuse;
use sleeping::SleepWords;

/// Bytes of the image that the NIC may still read.
#[derive(Clone, Copy, Debug)]
struct Owned {
    span: Span,
    wr: Option<WrId>,
    flight: u64,
}

/// A connection between two hosts.
pub struct SimFabric<const DIRECT: bool> {
    /// World that is lent to this connection during its turn. In a box, since it moves twice per turn.
    pub(crate) world: Box<World>,
    setup: Setup,
    hosts: [usize; 2],
    qps: [QpName; 2],
    /// MRs of each end: its control page, and its image of the peer's.
    pages: [Vec<Key>; 2],
    /// Landing buffers of each end.
    grown: [Grown; 2],
    /// Memory of the applications.
    lent: [LentMemory; 2],
    /// Memory of the applications that their peers map.
    pub(crate) exposed: ExposedMemories,
    /// Memory of the applications that their peers may write, by buffer and key.
    writable: Vec<(Buffer, Key)>,
    ownership: [BlockOwnership; 2],
    owned: [Vec<Owned>; 2],
    /// Memory of the notifications that each end sends by SEND, and the slot of the next one.
    words: [Option<Key>; 2],
    next_word: [u32; 2],
    /// Notified writes of each end whose notification was not taken.
    untaken: [VecDeque<Span>; 2],
    /// Completions that each end has polled while it asked for the other kind: of sends, and of receives.
    polled: [[VecDeque<Wc>; 2]; 2],
    forgers: [Forger; 2],
    /// A line was forged, so that nothing that arrives proves anything.
    pub(crate) is_forged: bool,
    flags: ArrivalFlags,
    pub(crate) partial_blocks: RefCell<PartialBlockCounter>,
    pub(crate) recorders: [Option<Box<Recorder>>; 2],
    pub(crate) planners: Planners,
    /// End whose turn it is.
    pub(crate) acting: usize,
    kernels: KernelSet,
    /// Landing buffers of each end, where distances decide what copies take.
    reuse: [Reuse; 2],
    pub(crate) sleep_words: SleepWords,
}

/// Planners of what each end sends, if it plans.
#[derive(Default)]
pub(crate) struct Planners {
    pub(crate) lent: [Option<Box<Planning>>; 2],
    /// Profile of a planner that is made for the first message that can be planned.
    pub(crate) later: [Option<Profile>; 2],
}

impl<const DIRECT: bool> SimFabric<DIRECT> {
    /// Returns the host of an end.
    pub(crate) const fn host(&self, side: usize) -> usize {
        self.hosts[side]
    }

    /// Returns the time by which everything that an end has stored is visible.
    pub(crate) fn stores_visible_ns(&self, side: usize) -> u64 {
        self.world.visible_ns(self.qps[side])
    }

    fn key(&self, memory: Memory) -> Option<Key> {
        match memory.place {
            Place::ControlPage => self.pages[memory.owner].first().copied(),
            Place::Landing => self.grown[memory.owner].landing(memory.index),
            Place::Exposed => None,
            Place::Writable => Some(self.writable_key(self.exposed.buffer(memory))),
        }
    }

    fn image(&self, side: usize, to: Memory) -> Key {
        let page = self.pages[side][1];
        match to.place {
            Place::ControlPage => page,
            Place::Landing => {
                let image = self.grown[side].image(to.index);
                assert!(image.is_some() || self.is_forged, "the image of {to:?} is used, and was released");
                image.unwrap_or(page)
            }
            Place::Exposed | Place::Writable => panic!("{to:?} has no image"),
        }
    }

    fn spend(&self, side: usize, ns: u64) {
        self.world.spend(self.hosts[side], ns);
    }

    /// Spends the time of a copy of `bytes` bytes of a data set, into a place of a landing buffer or out of it.
    fn spend_copy(
        &mut self,
        side: usize,
        (bytes, data_bytes): (u64, u64),
        (place, at): (Memory, u32),
        (kernel, way): (CopyKernel, Way),
    ) {
        let world = &self.world;
        let ns = match &world.profile.distances {
            Some(distances) if DIRECT => {
                let now_ns = world.clock_ns(self.hosts[side]);
                let reuse = &mut self.reuse[place.owner];
                let reuse_bytes = match way {
                    Way::In if place.place == Place::Landing => reuse.on_write(at, bytes),
                    Way::In => u64::MAX,
                    Way::Out => reuse.of(at, bytes),
                };
                distances.copy_ns(now_ns, (bytes, reuse_bytes), kernel, way, side as u64)
            }
            _ => {
                let wire_ns = if DIRECT { 0 } else { world.wire_in_use_ns(self.hosts[side]) };
                let ns = world.profile.copy_ns(bytes, data_bytes, kernel, wire_ns);
                ns.max(Self::crossing_ns(world, bytes, way))
            }
        };
        self.world.work(self.hosts[side], ns, Work::Copy);
    }

    /// Returns the least time of a copy into an image, or out of a landing buffer, by the memory node of either.
    fn crossing_ns(world: &World, bytes: u64, way: Way) -> u64 {
        let crossed = world.profile.memory_nodes.filter(|_| !DIRECT);
        crossed.map_or(0, |nodes| {
            let memory = match way {
                Way::In => nodes.image,
                Way::Out => nodes.landing,
            };
            nodes.copy_ns(memory, bytes)
        })
    }

    fn bytes(&self, key: Key, at: u32, bytes: u32) -> &[u8] {
        self.world.bytes(key, at, bytes).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reads memory that the peer writes.
    fn own_bytes(&self, side: usize, from: Memory, at: u32, bytes: u32) -> &[u8] {
        assert_eq!(from.owner, side, "an end reads its own memory, not its peer's");
        self.check_notified(from, at, bytes);
        let key = self.key(from).unwrap_or_else(|| panic!("{from:?} is used, and was let go of"));
        self.bytes(key, at, bytes)
    }

    /// Writes bytes for the peer, which no one else may own.
    fn write(&mut self, side: usize, to: Memory, at: u32, data: &[u8]) {
        assert_ne!(to.owner, side, "an end writes its peer's memory, not its own");
        let bytes = length(data);
        let is_ack = to.place == Place::ControlPage && at < LINE_BYTES;
        let (world, qp) = (&self.world, self.qps[side]);
        self.owned[side].retain(|owned| owned.wr.is_some() || !world.is_read(qp, owned.flight));
        let span = Span { memory: to, at, bytes };
        for owned in &self.owned[side] {
            assert!(
                is_ack || !owned.span.overlaps(&span),
                "{bytes} bytes at {at} of {to:?} are changed, and belong to the NIC: {owned:?}"
            );
        }
        if to.place == Place::Landing {
            self.ownership[to.owner].on_write(to.index, at, bytes);
        }
        let image = self.image(side, to);
        let there = self.world.bytes_mut(image, at, bytes);
        there.unwrap_or_else(|error| panic!("{error}")).copy_from_slice(data);
        // A peer that is gone sees nothing.
        if let (true, Some(key)) = (DIRECT && bytes > 0, self.key(to)) {
            let late = is_ack && self.world.strikes(Fault::LateAcknowledgement);
            let delay_ns = if late { self.world.late_ns() } else { 0 };
            self.world.store(self.qps[side], key, at, data.to_vec(), delay_ns);
        }
    }

    /// Notes the count or flag of a write.
    fn flagged(&mut self, side: usize, to: Memory, at: u32, header: Option<&Line>, word: u64) {
        match (to.place, header) {
            (Place::Landing, Some(line)) if DIRECT => self.ownership[to.owner].on_header(to.index, at, line),
            (Place::Landing, None) if DIRECT => self.ownership[to.owner].on_flag(to.index, at),
            (Place::ControlPage, _) if at == control_page::ACK => self.ownership[side].on_acknowledge(word),
            (Place::Landing | Place::ControlPage | Place::Exposed | Place::Writable, _) => {}
        }
    }

    fn spend_crc(&self, side: usize, bytes: u32) {
        self.spend(side, time_ns(u64::from(bytes), self.world.profile.crc_bytes_per_us));
    }

    /// Notes a poll of a block that is not the first of its chunk, which is only payload and flag.
    fn note_block_poll(&self, side: usize, from: Memory, at: u32, bytes: u32, crc: u32) {
        let block_bytes = self.setup.layouts[side].block_bytes;
        if at.is_multiple_of(block_bytes) && bytes == block_bytes - 8 {
            let here = self.own_bytes(side, from, at, block_bytes);
            let sent = self.bytes(self.image(1 - side, from), at, block_bytes);
            #[expect(clippy::cast_possible_truncation, reason = "its lower half")]
            let passes = word(&here[bytes as usize..]) as u32 == crc;
            self.partial_blocks.borrow_mut().note((side, at), here, sent, passes);
        }
    }

    /// Returns the CRC32C, reduced to the bits in use.
    const fn few_bits(&self, crc: u32) -> u32 {
        crc & (u32::MAX >> (32 - self.flags.crc_bits))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "less than a landing buffer, which is below 1 GiB")]
const fn length(data: &[u8]) -> u32 {
    data.len() as u32
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

impl<const DIRECT: bool> Fabric for SimFabric<DIRECT> {
    const DIRECT: bool = DIRECT;
    const TIMES_COPIES: bool = DIRECT;
    type Link = EndLink;
    type Region = Memory;
    type Remote = Memory;

    fn caps(&self, _: &EndLink) -> Caps {
        Caps {
            order_inside_write: self.setup.order_inside_write,
            notifications_max: self.setup.notifications_max,
        }
    }

    /// Returns the clock of the CPU whose turn it is. It costs no time, since only recorders ask, which must change nothing.
    fn now(&mut self) -> Nanos {
        Nanos(self.world.clock_ns(self.hosts[self.acting]))
    }

    fn flag(&self, link: &EndLink, from: Memory, at: u32) -> u64 {
        assert!(at.is_multiple_of(8), "a flag at {at}");
        self.spend(link.0, self.world.profile.poll_memory_ns);
        word(self.own_bytes(link.0, from, at, 8))
    }

    fn take_line(&self, link: &EndLink, from: Memory, at: u32) -> Line {
        assert!(at.is_multiple_of(LINE_BYTES), "a line at {at}");
        self.spend(link.0, self.world.profile.poll_memory_ns);
        let bytes = self.own_bytes(link.0, from, at, LINE_BYTES);
        Line(core::array::from_fn(|index| word(&bytes[index * 8..][..8])))
    }

    fn copy_out(&mut self, link: &mut EndLink, from: Memory, at: u32, to: &mut [u8], kernel: CopyKernel) {
        let bytes = length(to);
        if from.place == Place::Exposed {
            return self.copy_exposed(link.0, from, at, to, kernel);
        }
        if from.place == Place::Landing {
            self.ownership[from.owner].on_read(from.index, at, bytes);
        }
        let data_bytes = u64::from(self.setup.layouts[link.0].bytes());
        self.spend_copy(link.0, (u64::from(bytes), data_bytes), (from, at), (kernel, Way::Out));
        to.copy_from_slice(self.own_bytes(link.0, from, at, bytes));
    }

    fn copy_kernels(&self, _: &EndLink) -> KernelSet {
        self.kernels
    }

    fn crc_out(&self, link: &EndLink, from: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        self.spend_crc(link.0, bytes);
        let crc = self.few_bits(crc32c(self.own_bytes(link.0, from, at, bytes), seed));
        if self.flags.crc_bits < u32::BITS {
            self.note_block_poll(link.0, from, at, bytes, crc);
        }
        crc
    }

    fn write_line(&mut self, link: &mut EndLink, to: Memory, at: u32, line: &Line) {
        assert!(at.is_multiple_of(LINE_BYTES), "a line at {at}");
        let mut line = *line;
        if self.world.strikes(Fault::HostilePeer) {
            self.is_forged = true;
            self.ownership.iter_mut().for_each(BlockOwnership::stop);
            self.exposed.stop();
            line = self.forgers[link.0].forge(&mut self.world.rng, to, at, &line, self.flags);
            let place =
                if to.place == Place::ControlPage { MemoryUse::ControlPage } else { MemoryUse::Landing };
            self.world.note_here(self.hosts[link.0], TraceEvent::Forge { line, to: place, at });
        } else {
            self.forgers[link.0].remember(to, &line);
        }
        let mut data = [0; LINE_BYTES as usize];
        for (place, word) in data.chunks_exact_mut(8).zip(line.0) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.write(link.0, to, at, &data);
        self.flagged(link.0, to, at, Some(&line), line.0[0]);
    }

    fn publish(&mut self, link: &mut EndLink, to: Memory, at: u32, flag: u64) {
        assert!(at.is_multiple_of(8), "a flag at {at}");
        self.write(link.0, to, at, &flag.to_le_bytes());
        self.flagged(link.0, to, at, None, flag);
    }

    fn copy_in(&mut self, link: &mut EndLink, to: Memory, at: u32, from: &[u8], kernel: CopyKernel) {
        let data_bytes = u64::from(self.setup.layouts[1 - link.0].bytes());
        self.spend_copy(link.0, (from.len() as u64, data_bytes), (to, at), (kernel, Way::In));
        if to.place == Place::Writable {
            return self.write_exposed(link.0, to, at, from);
        }
        self.write(link.0, to, at, from);
    }

    fn crc_in(&self, link: &EndLink, to: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        self.spend_crc(link.0, bytes);
        self.few_bits(crc32c(self.bytes(self.image(link.0, to), at, bytes), seed))
    }

    /// Takes no time: these are a few words in registers.
    fn crc(&self, bytes: &[u8], seed: u32) -> u32 {
        self.few_bits(crc32c(bytes, seed))
    }

    fn post_write(
        &mut self,
        link: &mut EndLink,
        to: Memory,
        at: u32,
        bytes: u32,
        wr: Option<WrId>,
        notification: Option<Notification>,
    ) -> Result<(), SqFull> {
        assert!(!DIRECT, "nothing is posted where stores go direct");
        let side = link.0;
        assert!(bytes > 0 && to.owner != side, "{bytes} bytes are posted to {to:?}");
        let is_ack = to.place == Place::ControlPage && at == control_page::ACK;
        // The rkey is still known if the peer has gone.
        let key = self.key(to).unwrap_or_else(|| Key::void(self.hosts[to.owner]));
        if !self.has_room(side, notification) {
            return Err(SqFull);
        }
        let notification =
            notification.map(|notification| self.forgers[side].forge_notification(notification));
        let late = is_ack && self.world.strikes(Fault::LateAcknowledgement);
        let is_out_of_range = core::mem::take(&mut self.forgers[side].is_out_of_range);
        let inline = bytes <= self.world.profile.inline_bytes;
        let there = if is_out_of_range { u32::MAX - at } else { at };
        let op = match notification.filter(|_| self.words[side].is_none()) {
            Some(Notification(immediate)) => Op::WriteWithImmediate { to: key, at: there, immediate },
            None => Op::Write { to: key, at: there },
        };
        let request = Wr {
            id: wr.map(|wr| wr.0),
            op,
            from: self.image(side, to),
            at,
            bytes,
            inline,
            delay_ns: if late { self.world.late_ns() } else { 0 },
        };
        let flight = match self.world.post(self.qps[side], request) {
            Ok(flight) => flight,
            Err(PostRefused::SqFull) => return Err(SqFull),
            Err(error @ PostRefused::InlineTooLong { .. }) => panic!("{error}"),
        };
        if to.place == Place::Landing {
            self.ownership[to.owner].on_filled(to.index, at, bytes);
        }
        let span = Span { memory: to, at, bytes };
        let wr = wr.filter(|_| to.place == Place::Landing);
        if wr.is_some() || !inline {
            self.owned[side].push(Owned { span, wr, flight });
        }
        if let Some(notification) = notification {
            self.note_notified(side, span);
            self.send_notification(side, notification);
        }
        Ok(())
    }

    fn post_remote_write(
        &mut self,
        link: &mut EndLink,
        from: Registration,
        to: DestinationClaim,
        at: u64,
        bytes: u32,
    ) -> Result<(), SqFull> {
        assert!(!DIRECT, "nothing is posted where stores go direct");
        self.post_remote(link.0, from, to, at, bytes)
    }

    fn ring_doorbell(&mut self, link: &mut EndLink) {
        self.world.ring_doorbell(self.qps[link.0]);
        self.sleep_words.load(link.0);
    }

    fn set_quiet(&mut self, link: &mut EndLink, is_quiet: bool) {
        self.sleep_words.set_quiet(link.0, is_quiet);
    }

    fn poll_cq(&mut self, link: &mut EndLink) -> Option<Completion> {
        let wc = self.poll(link.0, false)?;
        let wr = WrId(wc.id);
        // The completion stands for all WRs posted before it.
        let owned = &mut self.owned[link.0];
        let flight = owned.iter().find(|owned| owned.wr == Some(wr)).map_or(0, |owned| owned.flight);
        owned.retain(|owned| owned.wr.is_none() || owned.flight > flight);
        let result = match wc.status {
            status::SUCCESS => Ok(()),
            status => Err(WcError { status, vendor_err: 0 }),
        };
        Some(Completion { wr, result })
    }

    fn poll_notification(&mut self, link: &mut EndLink) -> Option<Notification> {
        self.take_notification(link.0)
    }

    fn has_notification(&self, link: &EndLink) -> bool {
        !self.polled[link.0][1].is_empty() || self.world.has_received(self.qps[link.0])
    }

    fn begin(&mut self, link: &mut EndLink, ticket: Ticket, job: Job<Memory, Memory>) -> Result<(), Busy> {
        self.begin_job(link.0, ticket, job)
    }

    fn finished(&mut self, link: &mut EndLink) -> Option<Finished<Memory, Memory>> {
        self.finish_job(link.0)
    }

    fn bind_image(&mut self, link: &mut EndLink, image: Memory, claim: RemoteClaim) -> bool {
        self.bind_grown(link.0, image, claim)
    }

    fn recorder(&mut self, link: &EndLink) -> Option<&mut Recorder> {
        self.recorders[link.0].as_deref_mut()
    }

    fn begin_planning(&mut self, link: &EndLink, terms: Terms) {
        let profile = self.planners.later[link.0].take();
        if let Some(profile) = profile {
            self.planners.lent[link.0] = Some(Box::new(Planning::new(Planner::new(profile, terms))));
        }
    }

    fn planning(&mut self, link: &EndLink) -> Option<&mut Planning> {
        self.planners.lent[link.0].as_deref_mut()
    }
}
