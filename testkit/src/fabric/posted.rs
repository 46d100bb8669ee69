//! Posted writes: core writes an image here, and then posts it.
//!
//! The seed decides the behavior of the device, within what verbs permit. It reads the image at any time until it completes the write. It
//! makes bytes visible in pieces, ascending with order inside a write, otherwise in any order. Later writes may overtake earlier ones,
//! even to the same address. A write may complete long before or after its bytes are visible. WRs of an end complete in the order of
//! posting. A notification arrives once its write and all before it are visible, and core panics if it reads bytes of the write before
//! that.

mod device;
mod growing;
mod remote;

use std::collections::VecDeque;

use superpipe_core::recorder::Recorder;
use superpipe_core::{
    Busy, CONTROL_PAGE_BYTES, Caps, Completion, CopyKernel, DestinationClaim, Fabric, Job, JobResult,
    LINE_BYTES, Line, Nanos, Notification, Registration, RemoteClaim, SqFull, Ticket, WcError, WrId,
    control_page,
};

use super::buffers::Buffers;
use super::jobs::{JobQueue, Polled, finish, logged};
use super::log::{Log, LogEntry, Logged};
use super::memory::{Memories, Memory, Place, Span};
use super::ownership::BlockOwnership;
use super::{EndLink, PairFabric, Recorders, Setup, TestFabric, WriteCounts, ownership};
use crate::{Rng, crc32c};
use device::{Ends, Target, Write};

/// Most writes that are completed and not yet visible. It only bounds the memory for their bytes.
const LATE_MAX: usize = 6;

/// Image of a memory of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image(pub Memory);

impl From<Image> for Memory {
    fn from(image: Image) -> Self {
        image.0
    }
}

/// A notification on its way, with the bytes of its write.
#[derive(Clone, Copy, Debug)]
struct Notified {
    id: u64,
    span: Span,
    notification: Notification,
}

/// Image bytes that the device may still read.
#[derive(Clone, Copy, Debug)]
struct Owned {
    id: u64,
    span: Span,
    wr: Option<WrId>,
}

/// Two ends whose writes misbehave within what verbs permit.
#[derive(Debug)]
pub struct Posted {
    setup: Setup,
    memories: Memories,
    images: Memories,
    ownership: [BlockOwnership; 2],
    rng: Rng,
    now: u64,
    writes: Vec<Write>,
    owned: [Vec<Owned>; 2],
    /// WRs in each send queue.
    queued: [usize; 2],
    completions: [VecDeque<Completion>; 2],
    /// Notifications of each end that the other end has not taken.
    notifications: [VecDeque<Notified>; 2],
    /// Buffers for bytes that were read and are not yet visible.
    spare: Vec<Vec<u8>>,
    /// Error of the next signaled WR of each end.
    failures: [Option<WcError>; 2],
    write_counts: [WriteCounts; 2],
    recorders: Recorders,
    jobs: JobQueue<Image>,
    log: Log,
    /// Memory of the applications.
    buffers: Buffers,
    /// Every write of this end was notified.
    notifies_all: [bool; 2],
    /// The link has ended: all work requests fail.
    has_ended: bool,
}

impl Posted {
    /// Lets the next signaled WR of this end fail.
    pub const fn fail_next(&mut self, side: usize, error: WcError) {
        self.failures[side] = Some(error);
    }

    /// Sends a notification without a write, as a hostile peer may.
    pub fn forge_notification(&mut self, side: usize, notification: Notification) {
        let span = Span { memory: Memory::control_page(1 - side), at: 0, bytes: 0 };
        self.notifications[side].push_back(Notified { id: 0, span, notification });
    }

    fn check(&mut self, side: usize, to: Memory, at: u32, bytes: u32) {
        assert_ne!(to.owner, side, "an end writes its peer's memory, not its own");
        let is_ack = to.place == Place::ControlPage && at == control_page::ACK;
        let span = Span { memory: to, at, bytes };
        if to.place == Place::Landing {
            self.ownership[to.owner].on_write(to.index, at, bytes);
            // A reader that consumed a line has given it back. It may have seen the line complete before its last bytes arrived, if the memory
            // held the same bytes (wire.md 4.6).
            while let Some(line) =
                self.owned[side].iter().find(|owned| owned.wr.is_none() && owned.span.overlaps(&span))
                && let Some(index) = self.writes.iter().position(|write| write.id == line.id)
                && self.writes[index].pieces_left > 0
            {
                self.place_rest(index);
            }
        }
        for owned in &self.owned[side] {
            assert!(
                is_ack || !owned.span.overlaps(&span),
                "{bytes} bytes at {at} of {to:?} are changed, and belong to the device: {owned:?}"
            );
        }
    }

    /// Checks that no bytes of a notified write are read before its notification was taken. Acknowledgements are exempt, since they are
    /// overwritten all the time.
    fn check_notified(&self, from: Memory, at: u32, bytes: u32) {
        // Where some writes are not notified, flags prove chunks.
        if !self.notifies_all[1 - from.owner] {
            return;
        }
        let (read, ack) = (Span { memory: from, at, bytes }, Memory::control_page(from.owner));
        let is_ack = |span: &Span| (span.memory, span.at) == (ack, control_page::ACK);
        for sent in self.notifications[1 - from.owner].iter().filter(|sent| !is_ack(&sent.span)) {
            let is_early = sent.span.overlaps(&read);
            assert!(
                !is_early,
                "{bytes} bytes at {at} of {from:?} are read before the notification: {sent:?}"
            );
        }
    }

    /// Returns true if the oldest notification of this end has arrived: its write and all before it are visible.
    fn has_arrived(&self, from: usize) -> bool {
        self.notifications[from].front().is_some_and(|sent| self.is_visible(from, sent.id))
    }

    /// Returns true if the write of this number, and all before it of this end, are visible.
    fn is_visible(&self, from: usize, id: u64) -> bool {
        !self.writes.iter().any(|it| it.link == from && it.id <= id && it.pieces_left > 0)
    }
}

impl Fabric for Posted {
    const DIRECT: bool = false;
    type Link = EndLink;
    type Region = Memory;
    type Remote = Image;

    fn caps(&self, _: &EndLink) -> Caps {
        Caps {
            order_inside_write: self.setup.order_inside_write,
            notifications_max: self.setup.notifications_max,
        }
    }

    fn now(&mut self) -> Nanos {
        self.now += 100;
        Nanos(self.now)
    }

    fn flag(&self, link: &EndLink, from: Memory, at: u32) -> u64 {
        assert_eq!(from.owner, link.0);
        self.check_notified(from, at, 8);
        self.memories.flag(from, at)
    }

    fn take_line(&self, link: &EndLink, from: Memory, at: u32) -> Line {
        assert_eq!(from.owner, link.0);
        self.check_notified(from, at, LINE_BYTES);
        self.memories.line(from, at)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a block is less than 4 GiB")]
    fn copy_out(&mut self, link: &mut EndLink, from: Memory, at: u32, to: &mut [u8], _: CopyKernel) {
        assert_eq!((from.owner, from.place), (link.0, Place::Landing));
        self.ownership[from.owner].on_read(from.index, at, to.len() as u32);
        self.check_notified(from, at, to.len() as u32);
        to.copy_from_slice(self.memories.bytes(from, at, to.len() as u32));
    }

    fn crc_out(&self, _: &EndLink, from: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        crc32c(self.memories.bytes(from, at, bytes), seed)
    }

    fn write_line(&mut self, link: &mut EndLink, to: Image, at: u32, line: &Line) {
        self.check(link.0, to.0, at, LINE_BYTES);
        self.images.put_line(to.0, at, line);
        if to.0.place == Place::ControlPage && at == control_page::ACK {
            self.ownership[link.0].on_acknowledge(line.0[0]);
        }
    }

    fn publish(&mut self, link: &mut EndLink, to: Image, at: u32, flag: u64) {
        self.check(link.0, to.0, at, 8);
        self.images.put_flag(to.0, at, flag);
    }

    #[expect(clippy::cast_possible_truncation, reason = "a block is less than 4 GiB")]
    fn copy_in(&mut self, link: &mut EndLink, to: Image, at: u32, from: &[u8], _: CopyKernel) {
        self.check(link.0, to.0, at, from.len() as u32);
        self.images.bytes_mut(to.0, at, from.len() as u32).copy_from_slice(from);
    }

    fn crc_in(&self, _: &EndLink, to: Image, at: u32, bytes: u32, seed: u32) -> u32 {
        crc32c(self.images.bytes(to.0, at, bytes), seed)
    }

    fn crc(&self, bytes: &[u8], seed: u32) -> u32 {
        crc32c(bytes, seed)
    }

    fn post_write(
        &mut self,
        link: &mut EndLink,
        to: Image,
        at: u32,
        bytes: u32,
        wr: Option<WrId>,
        notification: Option<Notification>,
    ) -> Result<(), SqFull> {
        let (link, to) = (link.0, to.0);
        let _ = self.images.bytes(to, at, bytes);
        assert!(bytes > 0 && to.owner != link);
        if self.queued[link] == self.setup.send_queue {
            return Err(SqFull);
        }
        assert!(
            wr.is_some() || bytes == LINE_BYTES && at.is_multiple_of(LINE_BYTES),
            "only lines are unsignaled"
        );
        if to.place == Place::Landing {
            self.ownership[to.owner].on_filled(to.index, at, bytes);
            // A block is written again only after its reader has acknowledged it. The reader may have seen it complete before its last piece
            // arrived, if the memory held the same bytes. No piece is a round trip late.
            let over = |write: &Write| write.target == Target::Image(to) && write.covers(at, bytes);
            while let Some(index) = self.writes.iter().position(over) {
                self.place_rest(index);
                self.retire(index);
            }
        }
        self.log.add(link, self.now, Logged::Written { to, bytes });
        self.queued[link] += 1;
        self.write_counts[link].write();
        self.now += 1;
        let id = self.now;
        let span = Span { memory: to, at, bytes };
        self.owned[link].push(Owned { id, span, wr: wr.filter(|_| to.place == Place::Landing) });
        self.notifies_all[link] &= notification.is_some();
        if let Some(notification) = notification.filter(|_| !self.has_ended) {
            assert!(notification.0 < 1 << 30, "the fabric keeps two bits for itself");
            self.notifications[link].push_back(Notified { id, span, notification });
            let receives = usize::from(self.setup.notifications_max);
            // A forged one has no write, and takes a receive that nobody has given it.
            let own = self.notifications[link].iter().filter(|own| own.span.bytes > 0).count();
            assert!(own <= receives, "the peer has posted {receives} receives");
        }
        let (pieces, pieces_left) = self.cut(at, bytes);
        let target = Target::Image(to);
        self.writes.push(Write { id, link, target, wr, pieces, pieces_left, read: None });
        self.flush_if_ended();
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
        self.post_remote(link.0, Ends { from, to }, at, bytes)
    }

    fn ring_doorbell(&mut self, link: &mut EndLink) {
        self.write_counts[link.0].ring();
    }

    fn poll_cq(&mut self, link: &mut EndLink) -> Option<Completion> {
        let completion = self.completions[link.0].pop_front()?;
        self.queued[link.0] -= 1;
        self.owned[link.0].retain(|owned| owned.wr != Some(completion.wr));
        Some(completion)
    }

    fn poll_notification(&mut self, link: &mut EndLink) -> Option<Notification> {
        let from = 1 - link.0;
        if !self.has_arrived(from) {
            return None;
        }
        self.notifications[from].pop_front().map(|sent| sent.notification)
    }

    fn has_notification(&self, link: &EndLink) -> bool {
        self.has_arrived(1 - link.0)
    }

    fn begin(&mut self, link: &mut EndLink, ticket: Ticket, job: Job<Memory, Image>) -> Result<(), Busy> {
        self.jobs.begin(link.0, ticket, job)?;
        self.log.add(link.0, self.now, Logged::Begun(logged(job)));
        Ok(())
    }

    fn finished(&mut self, link: &mut EndLink) -> Option<(Ticket, JobResult<Memory, Image>)> {
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
                    self.log.add(link.0, self.now, Logged::Failed(logged(job)));
                }
                Some((ticket, Err(failed)))
            }
        }
    }

    fn bind_image(&mut self, link: &mut EndLink, Image(to): Image, claim: RemoteClaim) -> bool {
        assert_eq!(to.owner, 1 - link.0, "an end has images of its peer's memory");
        u8::try_from(claim.address).is_ok_and(|place| place < 2 && to == Memory::grown(to.owner, place))
    }

    fn is_memory_short(&self, _: &EndLink) -> bool {
        self.jobs.is_memory_short()
    }

    fn recorder(&mut self, link: &EndLink) -> Option<&mut Recorder> {
        self.recorders[link.0].as_deref_mut()
    }
}

impl PairFabric for Posted {
    fn remote(&self, memory: Memory) -> Image {
        Image(memory)
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn start(&mut self, blocks: u64) {
        self.ownership.iter_mut().for_each(|owned| owned.start(blocks));
    }

    fn is_quiescent(&self) -> bool {
        self.writes.is_empty()
            && self.jobs.is_empty()
            && self.buffers.is_idle()
            && self.completions.iter().all(VecDeque::is_empty)
            && self.notifications.iter().all(VecDeque::is_empty)
    }

    fn visible(&self, memory: Memory, at: u32, bytes: u32) -> &[u8] {
        self.check_notified(memory, at, bytes);
        self.memories.bytes(memory, at, bytes)
    }

    fn fill(&mut self, remote: Image, at: u32, bytes: &[u8]) {
        self.copy_in(&mut EndLink(1 - remote.0.owner), remote, at, bytes, CopyKernel::Plain);
    }
}

impl TestFabric for Posted {
    const NAME: &'static str = "posted";

    fn new(setup: &Setup) -> Self {
        let in_flight = 2 * setup.send_queue;
        let bytes_max =
            setup.layouts.iter().map(|layout| layout.bytes()).max().unwrap_or(0).max(CONTROL_PAGE_BYTES);
        Self {
            setup: *setup,
            memories: Memories::new(setup),
            images: Memories::new(setup),
            ownership: setup.layouts.map(|layout| ownership(layout, setup)),
            rng: Rng::new(setup.seed),
            now: 0,
            writes: Vec::with_capacity(in_flight + LATE_MAX),
            owned: core::array::from_fn(|_| Vec::with_capacity(setup.send_queue + LATE_MAX)),
            queued: [0; 2],
            completions: core::array::from_fn(|_| VecDeque::with_capacity(in_flight)),
            notifications: core::array::from_fn(|_| {
                VecDeque::with_capacity(usize::from(setup.notifications_max) + 1)
            }),
            spare: (0..LATE_MAX).map(|_| Vec::with_capacity(bytes_max as usize)).collect(),
            failures: [None; 2],
            write_counts: [WriteCounts::default(); 2],
            recorders: [None, None],
            jobs: JobQueue::new(setup.growth, setup.seed),
            log: Log::default(),
            buffers: Buffers::default(),
            notifies_all: [true; 2],
            has_ended: false,
        }
    }

    fn step(&mut self) {
        if self.rng.one_in(3) { self.complete() } else { self.place() }
    }

    fn recorders(&mut self) -> &mut Recorders {
        &mut self.recorders
    }

    fn memories(&self) -> &Memories {
        &self.memories
    }

    fn grown_bytes(&self) -> u64 {
        self.memories.grown_bytes() + self.images.grown_bytes()
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
