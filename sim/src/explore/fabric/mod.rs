//! A fabric without time. Each event is a step, and the search chooses the next one.
//!
//! Posted writes become visible piece by piece, in ascending order inside a write if the device has order, otherwise in any order. Writes
//! overtake each other, except those to one block. WRs complete in the order of posting, before or after their bytes are visible. Direct
//! stores become visible late, in order. A job is done, or fails, whenever the search chooses.

mod jobs;
mod lent;
mod memory;
mod offered;
mod write;

use std::rc::Rc;

use superpipe_core::{
    Arrival, Busy, Caps, Completion, CopyKernel, DestinationClaim, Fabric, Finished, Job, LINE_BYTES, Line,
    Nanos, Notification, Registration, RemoteClaim, SqFull, Ticket, WrId, control_page,
};
use superpipe_testkit::{BlockOwnership, ExposedMemories, Memory, Place, crc32c};

use super::cases::{AckOrder, Case};
use super::fingerprint::{CopyOnWrite, Fingerprint};
use jobs::Jobs;
pub(super) use lent::Way;
use lent::{FLUSHED, LentMemory};
use memory::Bytes;
use write::{WrState, Write};

/// Two ends, and everything between them.
#[derive(Clone)]
pub(super) struct StepFabric<const DIRECT: bool> {
    case: Rc<Case>,
    /// Visible bytes, by [`index`].
    memories: [CopyOnWrite<Bytes>; 8],
    /// Written bytes: the images, or with direct store the writer's view of its own stores.
    images: [CopyOnWrite<Bytes>; 8],
    ownership: [CopyOnWrite<BlockOwnership>; 2],
    /// Writes of each end on their way, oldest first.
    writes: [CopyOnWrite<Vec<Write>>; 2],
    /// Jobs of each end under way.
    jobs: [CopyOnWrite<Jobs>; 2],
    /// Memory of the applications, which their peers map.
    pub(super) exposed: CopyOnWrite<ExposedMemories>,
    /// Memory of the applications, which is written remotely.
    lent: CopyOnWrite<LentMemory>,
    /// Bytes that each end has written into memory that its peer offered. They distinguish no states.
    offered_bytes: [u64; 2],
    /// Last notification of each end's acknowledgements. It distinguishes no states, since the difference to it does.
    last_ack_notifications: [Notification; 2],
}

/// Bits of an acknowledgement's notification that count (wire.md 3.4).
const COUNT_MASK: u32 = (1 << 28) - 1;

/// Place of the first landing buffer, where that is not the base. The first that grows has the other one.
const FIRST: Memory = Memory::grown(0, 1);

const fn index(memory: Memory) -> usize {
    memory.owner * 4 + matches!(memory.place, Place::Landing) as usize + memory.index as usize
}

#[expect(clippy::cast_possible_truncation, reason = "a case has a few hundred bytes")]
const fn length(data: &[u8]) -> u32 {
    data.len() as u32
}

impl<const DIRECT: bool> StepFabric<DIRECT> {
    pub(super) fn new(case: Rc<Case>) -> Self {
        let first = case.first_layout();
        let has_own_first = case.has_own_first();
        let memory = |index| {
            CopyOnWrite::new(match index % 4 {
                0 => Bytes::control_page(&case),
                1 => Bytes::landing(case.layout()),
                3 if has_own_first => Bytes::landing(first),
                _ => Bytes::nothing(),
            })
        };
        let mut blocks = BlockOwnership::new(case.layout());
        blocks.start(case.origin.blocks);
        if has_own_first {
            blocks.provision(FIRST.index, first);
        }
        let jobs = |side| CopyOnWrite::new(Jobs::new(&case, side));
        Self {
            jobs: core::array::from_fn(jobs),
            exposed: CopyOnWrite::new(ExposedMemories::default()),
            lent: CopyOnWrite::new(LentMemory::default()),
            memories: core::array::from_fn(memory),
            images: core::array::from_fn(memory),
            ownership: core::array::from_fn(|_| CopyOnWrite::new(blocks.clone())),
            writes: core::array::from_fn(|_| CopyOnWrite::new(Vec::new())),
            offered_bytes: [0; 2],
            last_ack_notifications: [Notification(0); 2],
            case,
        }
    }

    /// Returns the fingerprints of all parts.
    pub(super) fn fingerprints(&self) -> [Fingerprint; 24] {
        let Self {
            case: _,
            memories,
            images,
            ownership,
            writes,
            jobs,
            exposed,
            lent,
            offered_bytes: _,
            last_ack_notifications: _,
        } = self;
        let mut all = [Fingerprint::default(); 24];
        let memories = memories.iter().chain(images).map(CopyOnWrite::fingerprint);
        let rest = ownership.iter().map(CopyOnWrite::fingerprint);
        let rest = rest.chain(writes.iter().map(CopyOnWrite::fingerprint));
        let rest = rest.chain(jobs.iter().map(CopyOnWrite::fingerprint));
        let rest = rest.chain([exposed.fingerprint(), lent.fingerprint()]);
        all.iter_mut().zip(memories.chain(rest)).for_each(|(place, fingerprint)| *place = fingerprint);
        all
    }

    /// Returns true if nothing is on its way and no completion waits.
    pub(super) fn is_quiescent(&self) -> bool {
        self.writes.iter().all(|writes| writes.is_empty()) && self.jobs.iter().all(|jobs| jobs.is_empty())
    }

    /// Returns true if nothing is on its way but notifications.
    pub(super) fn is_done(&self) -> bool {
        let is_done = |write: &Write| write.invisible == 0 && write.wr_state == WrState::Done;
        self.writes.iter().all(|writes| writes.iter().all(is_done))
            && self.jobs.iter().all(|jobs| jobs.is_empty())
    }

    /// Returns what of `side`'s writes may become visible next, as (write, piece).
    pub(super) fn deliverable(&self, side: usize) -> Vec<(usize, usize)> {
        let writes = &self.writes[side];
        let mut found = Vec::new();
        for (index, write) in writes.iter().enumerate() {
            let before = |older: &Write| {
                let free = older.is_ack() && self.case.acks == AckOrder::Overtaken;
                DIRECT || !free && older.touches(write.to, write.at, write.bytes)
            };
            if writes[..index].iter().any(|older| older.invisible != 0 && before(older)) {
                continue;
            }
            let mut invisible =
                (0..write.pieces.len()).filter(|piece| write.invisible & write.pieces[*piece] != 0);
            if self.case.ordered {
                found.extend(invisible.next().map(|piece| (index, piece)));
            } else {
                found.extend(invisible.map(|piece| (index, piece)));
            }
        }
        found
    }

    /// Makes one piece of a write visible.
    pub(super) fn deliver(&mut self, side: usize, index_of: usize, piece: usize) {
        self.show(side, index_of, piece);
        self.writes[side].change().retain(|write| !write.is_over());
    }

    /// Makes one piece of a write visible, and keeps a write that is over.
    fn show(&mut self, side: usize, index_of: usize, piece: usize) {
        let write = &mut self.writes[side].change()[index_of];
        let words = write.pieces[piece];
        write.invisible &= !words;
        if Self::is_remote(&self.writes[side][index_of]) {
            return self.show_remote(side, index_of, words);
        }
        let write = &self.writes[side][index_of];
        if write.to.place == Place::Writable {
            return self.show_offered(side, index_of);
        }
        let to = index(write.to);
        assert!(
            write.to.place == Place::ControlPage || self.memories[to].layout().is_some(),
            "a write arrives in a landing buffer that was released"
        );
        for word in (0..64).filter(|word| words >> word & 1 == 1) {
            let (from, upto) = write.word(word);
            let data = match &write.data {
                Some(data) => &data[(from - write.at) as usize..(upto - write.at) as usize],
                None => self.images[to].get(from, upto - from),
            };
            self.memories[to].change().put(from, data);
        }
    }

    /// Returns true if a WR of this end may complete next.
    pub(super) fn completable(&self, side: usize) -> bool {
        let writes = &self.writes[side];
        let late =
            writes.iter().filter(|write| write.wr_state != WrState::Posted && write.invisible != 0).count();
        let next = writes.iter().find(|write| write.wr_state == WrState::Posted);
        next.is_some_and(|write| write.invisible == 0 || late < self.case.late_max) && !self.is_stuck(side)
    }

    /// Completes the oldest WR of this end. Returns true if there is a completion to poll.
    pub(super) fn complete(&mut self, side: usize) -> bool {
        let is_next = |write: &Write| write.wr_state == WrState::Posted;
        let Some(next) = self.writes[side].iter().position(is_next) else { return false };
        let data = self.read(side, &self.writes[side][next]);
        let writes = self.writes[side].change();
        let write = &mut writes[next];
        write.data.get_or_insert_with(|| data.into());
        let signaled = write.wr.is_some();
        write.wr_state = if signaled { WrState::InCq } else { WrState::Done };
        writes.retain(|write| !write.is_over());
        signaled
    }

    /// Makes words of a remote write visible.
    fn show_remote(&mut self, side: usize, index_of: usize, words: u64) {
        let write = self.writes[side][index_of].clone();
        let data = self.read(side, &write);
        for word in (0..64).filter(|word| words >> word & 1 == 1) {
            let (from, upto) = write.word(word);
            let part = &data[(from - write.at) as usize..(upto - write.at) as usize];
            self.put_remote(write.to, from, part);
        }
    }

    /// Returns true if the send queue of an end holds no further WR.
    fn has_full_queue(&self, side: usize) -> bool {
        let queued = self.writes[side].iter().filter(|write| write.wr_state != WrState::Done).count();
        queued == self.case.send_queue
    }

    /// Notes a write that is posted.
    fn push(&mut self, side: usize, mut write: Write) {
        self.note_broken(side, &mut write);
        if write.is_over() {
            return;
        }
        self.writes[side].change().push(write);
        if self.case.at_once && !self.is_broken() {
            let last = self.writes[side].len() - 1;
            for piece in 0..self.writes[side][last].pieces.len() {
                self.show(side, last, piece);
            }
            self.complete(side);
        }
    }

    /// Describes a piece on its way.
    pub(super) fn describe(&self, side: usize, write: usize, piece: usize) -> String {
        let Write { to, at, bytes, pieces, .. } = &self.writes[side][write];
        let place = match to.place {
            Place::ControlPage if *at < LINE_BYTES => "acknowledgements",
            Place::ControlPage => "mailbox",
            Place::Landing => "landing buffer",
            Place::Exposed => "memory that was exposed",
            Place::Writable => "memory of an application",
        };
        format!(
            "piece {} of {} of {bytes} bytes at {at} of end {}'s {place}",
            piece + 1,
            pieces.len(),
            to.owner
        )
    }

    /// Writes into an image.
    fn write(&mut self, side: usize, to: Memory, at: u32, data: &[u8]) {
        assert_ne!(to.owner, side, "an end writes its peer's memory, not its own");
        for write in self.writes[side].iter() {
            let owned = !DIRECT && write.owns(to, at, length(data));
            assert!(!owned, "{} bytes at {at} of {to:?} are changed, and belong to the device", data.len());
        }
        if to.place == Place::Landing {
            self.ownership[to.owner].on_write(to.index, at, length(data));
        }
        self.images[index(to)].change().put(at, data);
    }

    /// Notes a store on its way.
    fn store(&mut self, side: usize, to: Memory, at: u32, data: &[u8], pieces: Vec<u64>) {
        if DIRECT && self.case.at_once {
            self.memories[index(to)].change().put(at, data);
        } else if DIRECT && !data.is_empty() {
            let span = (to, at, length(data));
            let mut store = Write::new(span, None, WrState::Done, pieces, self.case.arrival);
            store.data = Some(data.into());
            self.writes[side].change().push(store);
        }
    }

    /// Notes the count or flag of a write.
    fn flagged(&mut self, side: usize, to: Memory, at: u32, header: Option<&Line>, word: u64) {
        match (to.place, header) {
            (Place::Landing, Some(line)) if DIRECT => {
                self.ownership[to.owner].change().on_header(to.index, at, line);
            }
            (Place::Landing, None) if DIRECT => self.ownership[to.owner].change().on_flag(to.index, at),
            (Place::ControlPage, _) if at == control_page::ACK => {
                self.ownership[side].change().on_acknowledge(word);
            }
            (Place::Landing | Place::ControlPage | Place::Exposed | Place::Writable, _) => {}
        }
    }

    /// Writes into reserved payload, as readv would.
    pub(super) fn fill(&mut self, side: usize, to: Memory, at: u32, data: &[u8]) {
        self.write(side, to, at, data);
        self.store(side, to, at, data, vec![Write::words(at, length(data))]);
    }

    /// Returns the write whose notification arrives next, if it and all writes before it are visible.
    fn next_notified_write(&self, from: usize) -> Option<usize> {
        let index = self.writes[from].iter().position(|write| write.notification.is_some())?;
        self.writes[from][..=index].iter().all(|write| write.invisible == 0).then_some(index)
    }

    /// Checks that no bytes of a notified write are read before its notification was taken. Acknowledgements are exempt, since they are
    /// overwritten all the time.
    fn check_notified(&self, from: Memory, at: u32, bytes: u32) {
        // Elsewhere only the ends of remote writes are notified, and their flags are read before.
        if self.case.arrival != Arrival::Notify {
            return;
        }
        let untaken = |write: &&Write| write.notification.is_some() && !write.is_ack();
        let mut before = self.writes[1 - from.owner].iter().filter(untaken);
        let early = before.any(|write| write.touches(from, at, bytes));
        assert!(!early, "{bytes} bytes at {at} of {from:?} are read before their notification");
    }

    fn own_bytes(&self, side: usize, from: Memory) -> &Bytes {
        assert_eq!(from.owner, side, "an end reads its own memory, not its peer's");
        &self.memories[index(from)]
    }

    /// Returns visible bytes of an end's own memory, read in place.
    pub(super) fn visible(&self, memory: Memory, at: u32, bytes: u32) -> &[u8] {
        if matches!(memory.place, Place::Exposed | Place::Writable) {
            return self.exposed.read(memory, at, bytes);
        }
        self.ownership[memory.owner].on_read(memory.index, at, bytes);
        self.check_notified(memory, at, bytes);
        self.memories[index(memory)].get(at, bytes)
    }
}

impl<const DIRECT: bool> Fabric for StepFabric<DIRECT> {
    const DIRECT: bool = DIRECT;
    const TIMES_COPIES: bool = DIRECT;
    type Link = usize;
    type Region = Memory;
    type Remote = Memory;

    fn caps(&self, _: &usize) -> Caps {
        Caps { order_inside_write: self.case.ordered, notifications_max: self.case.notifications_max }
    }

    /// There is no time.
    fn now(&mut self) -> Nanos {
        Nanos(0)
    }

    fn flag(&self, link: &usize, from: Memory, at: u32) -> u64 {
        self.check_notified(from, at, 8);
        self.own_bytes(*link, from).word(at)
    }

    fn take_line(&self, link: &usize, from: Memory, at: u32) -> Line {
        self.check_notified(from, at, LINE_BYTES);
        self.own_bytes(*link, from).line(at)
    }

    fn copy_out(&mut self, link: &mut usize, from: Memory, at: u32, to: &mut [u8], _: CopyKernel) {
        assert!(from.owner == *link && from.place != Place::ControlPage, "{from:?} is copied out");
        to.copy_from_slice(self.visible(from, at, length(to)));
    }

    fn crc_out(&self, link: &usize, from: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        crc32c(self.own_bytes(*link, from).get(at, bytes), seed)
    }

    fn write_line(&mut self, link: &mut usize, to: Memory, at: u32, line: &Line) {
        assert!(at.is_multiple_of(LINE_BYTES), "a line at {at}");
        let words = line.0.map(u64::to_le_bytes);
        let data = words.as_flattened();
        self.write(*link, to, at, data);
        self.flagged(*link, to, at, Some(line), line.0[0]);
        self.store(*link, to, at, data, Write::cut_stored(to, at, &self.case));
    }

    fn publish(&mut self, link: &mut usize, to: Memory, at: u32, flag: u64) {
        assert!(at.is_multiple_of(8), "a flag at {at}");
        let data = flag.to_le_bytes();
        self.write(*link, to, at, &data);
        self.flagged(*link, to, at, None, flag);
        self.store(*link, to, at, &data, vec![1]);
    }

    fn copy_in(&mut self, link: &mut usize, to: Memory, at: u32, from: &[u8], _: CopyKernel) {
        if to.place == Place::Writable {
            return self.write_offered(*link, to, at, from);
        }
        self.fill(*link, to, at, from);
    }

    fn crc_in(&self, _: &usize, to: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        crc32c(self.images[index(to)].get(at, bytes), seed)
    }

    fn crc(&self, bytes: &[u8], seed: u32) -> u32 {
        crc32c(bytes, seed)
    }

    fn post_write(
        &mut self,
        link: &mut usize,
        to: Memory,
        at: u32,
        bytes: u32,
        wr: Option<WrId>,
        notification: Option<Notification>,
    ) -> Result<(), SqFull> {
        assert!(!DIRECT, "nothing is posted where stores go direct");
        assert!(bytes > 0 && to.owner != *link, "{bytes} bytes are posted to {to:?}");
        if self.has_full_queue(*link) {
            return Err(SqFull);
        }
        if to.place == Place::Landing {
            self.ownership[to.owner].change().on_filled(to.index, at, bytes);
        }
        let pieces = Write::cut((to, at, bytes), self.images[index(to)].layout(), &self.case);
        let wr = wr.map(|wr| wr.0);
        let mut write = Write::new((to, at, bytes), wr, WrState::Posted, pieces, self.case.arrival);
        if !self.case.reads_late {
            write.data = Some(self.images[index(to)].get(at, bytes).into());
        }
        if let Some(Notification(value)) = notification {
            write.notification = notification;
            write.hashed_notification = value;
            if write.is_ack() {
                let Notification(before) =
                    core::mem::replace(&mut self.last_ack_notifications[*link], Notification(value));
                write.hashed_notification = value.wrapping_sub(before) & COUNT_MASK;
            }
        }
        self.push(*link, write);
        let untaken = self.writes[*link].iter().filter(|write| write.notification.is_some()).count();
        assert!(untaken <= usize::from(self.case.notifications_max), "a notification finds no receive");
        Ok(())
    }

    fn post_remote_write(
        &mut self,
        link: &mut usize,
        from: Registration,
        to: DestinationClaim,
        at: u64,
        bytes: u32,
    ) -> Result<(), SqFull> {
        self.post_remote(*link, from, to, at, bytes)
    }

    fn ring_doorbell(&mut self, _: &mut usize) {}

    fn poll_cq(&mut self, link: &mut usize) -> Option<Completion> {
        let position = self.writes[*link].iter().position(|write| write.wr_state == WrState::InCq)?;
        let writes = self.writes[*link].change();
        let write = &mut writes[position];
        write.wr_state = WrState::Done;
        let wr = write.wr.map(WrId)?;
        let has_failed = write.is_flushed && self.case.lending.is_some_and(|lending| lending.flush_fails);
        writes.retain(|write| !write.is_over());
        Some(Completion { wr, result: if has_failed { Err(FLUSHED) } else { Ok(()) } })
    }

    fn poll_notification(&mut self, link: &mut usize) -> Option<Notification> {
        let from = 1 - *link;
        let index = self.next_notified_write(from)?;
        let writes = self.writes[from].change();
        let notification = writes[index].notification.take();
        writes.retain(|write| !write.is_over());
        notification
    }

    fn has_notification(&self, link: &usize) -> bool {
        self.next_notified_write(1 - *link).is_some()
    }

    fn begin(&mut self, link: &mut usize, ticket: Ticket, job: Job<Memory, Memory>) -> Result<(), Busy> {
        self.begin_job(*link, ticket, job)
    }

    fn finished(&mut self, link: &mut usize) -> Option<Finished<Memory, Memory>> {
        self.take_finished(*link)
    }

    fn bind_image(&mut self, link: &mut usize, image: Memory, claim: RemoteClaim) -> bool {
        self.bind(*link, image, claim)
    }
}
