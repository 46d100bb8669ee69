//! A connection over RDMA: packets, and writes with their notifications (wire.md 3.4, 10.2 and 10.3), in notify mode.

use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use superpipe_verbs::{
    Access, CmEventKind, CmId, Cq, Error, EventChannel, Mr, Pages, Pd, Qp, QpConfig, QpState, RemoteAddr,
    Rkey, SendBatch, SendFlags, Transport, Wc, WcOpcode,
};

use super::link::{Link, Told};
use super::memory::Memory;
use super::packets::{Layout, PACKET_BYTES, SMALL, SMALL_REGION_AT};
use super::process::give_up;
use super::rdma::{next, params};
use super::script::Kind;
use super::{size, wait};

/// Posted receives, how many of them are for notifications, and the bytes of each.
const RECEIVES: u16 = 144;
const NOTICES: u64 = 128;
const RECEIVE_BYTES: u32 = 256;
/// Bit that marks the id of a receive.
const IS_RECEIVE: u64 = 1 << 63;
const SENDS: u32 = 256;
/// Most WRs outstanding when a WAKE is sent.
const WAKES_MAX: u64 = 8;
/// Offsets in the memory of the mail: heads of notifications at 0, then SENDs, one long SEND, and receives.
const HEAD_BYTES: usize = 8;
const OUT: usize = 4096;
const OUTS: usize = 8;
const LONG: usize = 8192;
const IN: usize = LONG + (128 << 10);
const MAIL_BYTES: usize = IN + RECEIVES as usize * RECEIVE_BYTES as usize;
/// The longest write that goes with its notification over iWARP.
const ENCLOSED_MAX: usize = 248;
/// Offset of the small buffer in enclosed writes (wire.md 10.3).
const SMALL_BASE: usize = 1 << 30;
/// Layout of a notification: its kind above the low bits of a number.
const KIND_SHIFT: u32 = 28;
const NUMBER: u64 = (1 << KIND_SHIFT) - 1;
const CHUNK: u32 = 1;
const CONTROL: u32 = 2;
const ACK: u32 = 3;
const WAKE: u32 = 3 << 30;

/// One connection and its memory, which stays for as long as the process lives.
pub(super) struct Post {
    pub(super) qp: Qp,
    id: CmId,
    channel: EventChannel,
    cq: Cq,
    pd: Pd,
    mail: &'static Mr,
    is_iwarp: bool,
    /// True if a connection was asked for and not answered yet.
    is_asked: bool,
    is_over: bool,
    packets: VecDeque<[u8; PACKET_BYTES]>,
    /// A HELLO has arrived.
    has_hello: bool,
    mine: Option<&'static Mr>,
    image: Option<&'static Mr>,
    there: Option<RemoteAddr>,
    /// The small buffer there, if there is one.
    small_there: Option<RemoteAddr>,
    is_small: bool,
    /// Counts of WRs posted, and of those completed.
    posted: u64,
    completed: u64,
    /// Counts of notifications: sent; of those, returned as credits by the other end; taken here; of those, returned as credits.
    sent: u64,
    known: u64,
    taken: u64,
    returned: u64,
    /// Newest sequences of chunks and of control messages: those that this peer has told, and those that it was told.
    told: [u64; 2],
    heard: [u64; 2],
}

fn region(pd: &Pd, bytes: usize, access: Access) -> &'static Mr {
    let memory = Pages::map(bytes).unwrap();
    Box::leak(Box::new(Mr::register(pd, memory, access).unwrap()))
}

impl Post {
    /// A queue pair for this id, with all receives posted.
    pub(super) fn new(id: CmId, channel: EventChannel) -> Self {
        let context = id.context().unwrap();
        let pd = Pd::alloc(&context).unwrap();
        let cq = Cq::create(&context, SENDS + u32::from(RECEIVES) + 1, None).unwrap();
        let config = QpConfig { send_depth: SENDS, receive_depth: RECEIVES.into(), inline_bytes: 0 };
        let mut qp = Qp::create(&pd, &cq, &cq, config).unwrap();
        qp.modify(&id.qp_attr(QpState::Init).unwrap()).unwrap();
        let mail = region(&pd, MAIL_BYTES, Access::Local);
        let mut post = Self {
            is_iwarp: context.transport() == Transport::Iwarp,
            qp,
            id,
            channel,
            cq,
            pd,
            mail,
            is_asked: false,
            is_over: false,
            packets: VecDeque::new(),
            has_hello: false,
            mine: None,
            image: None,
            there: None,
            small_there: None,
            is_small: false,
            posted: 0,
            completed: 0,
            sent: 0,
            known: 0,
            taken: 0,
            returned: 0,
            told: [0; 2],
            heard: [0; 2],
        };
        (0..RECEIVES).for_each(|slot| post.repost(slot));
        post
    }

    /// Asks for a connection, without waiting for the answer.
    pub(super) fn ask(&mut self) {
        // The listener may be gone.
        let asked = self.id.connect(params(&self.qp));
        asked.unwrap_or_else(|_| give_up());
        self.is_asked = true;
    }

    /// Returns true if the other end has gone or refuses.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Accepts the client that asked. Fails if it has gone since.
    pub(super) fn admit(&mut self) -> Result<(), Error> {
        self.make_ready(&[QpState::ReadyToReceive, QpState::ReadyToSend])?;
        self.id.accept(params(&self.qp))
    }

    fn make_ready(&mut self, states: &[QpState]) -> Result<(), Error> {
        for state in states {
            let attr = self.id.qp_attr(*state)?;
            let attr = match state {
                QpState::ReadyToReceive => attr.with_rnr_timer(12),
                QpState::ReadyToSend => attr.with_ack_timeout(14).with_retries(7).with_rnr_retries(6),
                _ => attr,
            };
            self.qp.modify(&attr)?;
        }
        Ok(())
    }

    /// Waits for the answer if one is due.
    pub(super) fn settle(&mut self) {
        if !self.is_asked {
            return;
        }
        self.is_asked = false;
        match next(&self.channel).kind {
            CmEventKind::ESTABLISHED => {}
            CmEventKind::CONNECT_RESPONSE => {
                // rxe wants INIT twice.
                let states = [QpState::Init, QpState::ReadyToReceive, QpState::ReadyToSend];
                let ready = self.make_ready(&states).and_then(|()| self.id.establish());
                ready.unwrap_or_else(|_| give_up());
            }
            _ => give_up(),
        }
    }

    /// Ends the connection.
    pub(super) fn disconnect(&mut self) {
        // The other end may have ended it before.
        let _ = self.id.disconnect();
        self.is_over = true;
    }

    /// Registers what the other end writes, and names it in a packet.
    pub(super) fn grant(&mut self, packet: &mut [u8], layout: Layout) {
        let mine = *self.mine.insert(region(&self.pd, layout.segment_bytes(), Access::RemoteWrite));
        let mut name = |at: usize, addr: u64| {
            packet[at..at + 8].copy_from_slice(&addr.to_le_bytes());
            packet[at + 8..at + 12].copy_from_slice(&mine.rkey().0.to_le_bytes());
        };
        name(32, mine.remote_addr());
        if layout.is_small() {
            // One region here, which the other end cannot know.
            name(SMALL_REGION_AT, mine.remote_addr() + SMALL as u64);
        }
    }

    /// Makes the image of what the other end has granted.
    pub(super) fn make_image(&mut self, layout: Layout) {
        self.image = Some(region(&self.pd, layout.segment_bytes(), Access::Local));
        self.is_small = layout.is_small();
    }

    /// The next packet, if one came.
    pub(super) fn packet(&mut self) -> Option<[u8; PACKET_BYTES]> {
        self.pump();
        let packet = self.packets.pop_front()?;
        // These two name a region.
        if packet[10] == Kind::Welcome as u8 || packet[10] == Kind::Grant as u8 {
            let named = |at: usize| {
                let addr = u64::from_le_bytes(packet[at..at + 8].try_into().unwrap());
                let rkey = Rkey(u32::from_le_bytes(packet[at + 8..at + 12].try_into().unwrap()));
                Some(RemoteAddr { addr, rkey })
            };
            (self.there, self.small_there) = (named(32), named(SMALL_REGION_AT));
        }
        Some(packet)
    }

    /// SENDs bytes.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let at = if bytes.len() <= RECEIVE_BYTES as usize {
            OUT + size(self.posted) % OUTS * RECEIVE_BYTES as usize
        } else {
            LONG
        };
        Memory::of(self.mail).put(at, bytes);
        let part = self.mail.sge(at, u32::try_from(bytes.len()).unwrap()).unwrap();
        self.post(1, |batch, id| batch.send(id, part, SendFlags::SIGNALED).unwrap());
    }

    /// SENDs a word.
    pub(super) fn say(&mut self, word: u32) {
        self.send(&word.to_le_bytes());
    }

    pub(super) fn wake(&mut self) -> bool {
        let may = self.posted - self.completed < WAKES_MAX;
        if may {
            self.say(WAKE);
        }
        may
    }

    /// Writes to memory that was not granted.
    pub(super) fn stray(&mut self) {
        let RemoteAddr { addr, rkey } = self.there.unwrap();
        let there = RemoteAddr { addr: addr + (64 << 20), rkey };
        let part = self.mail.sge(OUT, 64).unwrap();
        self.post(1, |batch, id| batch.write(id, part, there, SendFlags::SIGNALED).unwrap());
    }

    /// Posts `many` WRs. Posts nothing once the connection is over.
    fn post(&mut self, many: u64, add: impl FnOnce(&mut SendBatch<'_, 'static>, u64)) {
        wait("a place in the send queue", || {
            self.pump();
            (self.is_over || self.posted - self.completed + many < u64::from(SENDS)).then_some(())
        });
        if self.is_over {
            return;
        }
        let mut batch = self.qp.batch();
        add(&mut batch, self.posted);
        self.is_over = batch.post().is_err();
        self.posted += many;
    }

    fn repost(&mut self, slot: u16) {
        let place = self.mail.sge(place_of(slot), RECEIVE_BYTES);
        self.is_over |= self.qp.post_receive(IS_RECEIVE | u64::from(slot), place).is_err();
    }

    /// Takes all completions.
    fn pump(&mut self) {
        loop {
            let mut wcs = [Wc::default(); 16];
            let count = self.cq.poll(&mut wcs).unwrap();
            for wc in &wcs[..count] {
                match wc.result() {
                    Err(_) => self.is_over = true,
                    Ok(()) if wc.id() & IS_RECEIVE == 0 => self.completed += 1,
                    Ok(()) => self.receive(wc),
                }
            }
            if count == 0 {
                return;
            }
        }
    }

    fn receive(&mut self, wc: &Wc) {
        let slot = u16::try_from(wc.id() & !IS_RECEIVE).unwrap();
        let mail = Memory::of(self.mail).take(place_of(slot), wc.bytes().min(RECEIVE_BYTES) as usize);
        let number = |at: usize| u32::from_le_bytes(mail[at..at + 4].try_into().unwrap());
        if wc.opcode() == WcOpcode::ReceiveImmediate {
            self.hear(wc.immediate().unwrap());
        } else if mail.len() == PACKET_BYTES && number(0) >> 30 != 0 {
            let packet: [u8; PACKET_BYTES] = mail.try_into().unwrap();
            let is_hello = packet[10] == Kind::Hello as u8;
            // The active end repeats HELLO until WELCOME comes, and the passive end ignores the repetition (wire.md 10.2).
            if !(is_hello && self.has_hello) {
                self.packets.push_back(packet);
            }
            self.has_hello |= is_hello;
        } else {
            if mail.len() > HEAD_BYTES {
                let place = number(4) as usize;
                let at = if place >= SMALL_BASE { place - SMALL_BASE + SMALL } else { place };
                Memory::of(self.mine.unwrap()).put(at, &mail[HEAD_BYTES..]);
            }
            self.hear(number(0));
        }
        self.repost(slot);
    }

    /// Takes a notification. Words about sleep have no meaning in notify mode.
    fn hear(&mut self, word: u32) {
        if word >> 30 != 0 {
            return;
        }
        self.taken += 1;
        match word >> KIND_SHIFT {
            CHUNK => self.heard[0] += 1,
            CONTROL => self.heard[1] += 1,
            _ => self.known += (u64::from(word) & NUMBER).wrapping_sub(self.known) & NUMBER,
        }
    }
}

fn place_of(slot: u16) -> usize {
    IN + usize::from(slot) * RECEIVE_BYTES as usize
}

/// The link of an established connection.
pub(super) struct Mail(pub(super) Rc<RefCell<Post>>);

impl Link for Mail {
    fn mine(&self) -> Memory {
        Memory::of(self.0.borrow().mine.unwrap())
    }

    fn theirs(&self) -> Memory {
        Memory::of(self.0.borrow().image.unwrap())
    }

    /// Ignores `is_mute`: without a notification the other end would never look at the write.
    fn publish(&mut self, at: usize, bytes: usize, told: Told, _is_mute: bool) {
        let post = &mut *self.0.borrow_mut();
        let (kind, number) = match told {
            Told::Chunk(sequence) => {
                post.told[0] = sequence;
                (CHUNK, sequence)
            }
            Told::Control(sequence) => {
                post.told[1] = sequence;
                (CONTROL, sequence)
            }
            Told::Ack => {
                post.returned = post.taken;
                (ACK, post.taken)
            }
        };
        post.sent += 1;
        let word = notice(kind, number);
        let part = post.image.unwrap().sge(at, u32::try_from(bytes).unwrap()).unwrap();
        let is_small = post.is_small && at >= SMALL;
        let region = if is_small { post.small_there } else { post.there };
        let RemoteAddr { addr, rkey } = region.unwrap();
        let offset = if is_small { at - SMALL } else { at };
        let there = RemoteAddr { addr: addr + offset as u64, rkey };
        let place = if is_small { SMALL_BASE + offset } else { at };
        let flags = SendFlags::SIGNALED;
        if !post.is_iwarp {
            post.post(1, |batch, id| batch.write_with_immediate(id, part, there, word, flags).unwrap());
            return;
        }
        let (mail, head_at) = (post.mail, size(post.posted) % SENDS as usize * HEAD_BYTES);
        Memory::of(mail).put(head_at, &word.to_le_bytes());
        Memory::of(mail).put(head_at + 4, &u32::try_from(place).unwrap().to_le_bytes());
        let head = |bytes| mail.sge(head_at, bytes).unwrap();
        if bytes <= ENCLOSED_MAX {
            post.post(1, |batch, id| batch.send_both(id, [head(8), part], flags).unwrap());
        } else {
            post.post(2, |batch, id| {
                batch.write(id, part, there, flags).unwrap();
                batch.send(id, head(4), flags).unwrap();
            });
        }
    }

    fn has_credit(&self, told: Told) -> bool {
        let post = self.0.borrow();
        let gives_back = told == Told::Ack && post.owes_credits();
        post.is_over || post.sent - post.known + u64::from(!gives_back) < NOTICES
    }

    fn owes_credits(&self) -> bool {
        self.0.borrow().owes_credits()
    }

    fn is_told(&self, told: Told) -> bool {
        let heard = self.0.borrow().heard;
        match told {
            Told::Chunk(sequence) => sequence <= heard[0],
            Told::Control(sequence) => sequence <= heard[1],
            Told::Ack => true,
        }
    }

    fn pump(&mut self) {
        self.0.borrow_mut().pump();
    }

    fn wake(&mut self) -> bool {
        let mut post = self.0.borrow_mut();
        post.pump();
        post.wake()
    }

    fn lie(&mut self, kind: u32, further: i64) {
        let mut post = self.0.borrow_mut();
        let next = match kind {
            CHUNK => post.told[0] + 1,
            CONTROL => post.told[1] + 1,
            _ => post.taken,
        };
        post.say(notice(kind, next.wrapping_add_signed(further)));
    }

    fn lull(&mut self) {
        unreachable!("no word says that anybody sleeps");
    }

    fn close(&mut self) {
        self.0.borrow_mut().disconnect();
    }
}

impl Post {
    fn owes_credits(&self) -> bool {
        self.taken - self.returned >= NOTICES / 2
    }
}

fn notice(kind: u32, number: u64) -> u32 {
    kind << KIND_SHIFT | u32::try_from(number & NUMBER).unwrap()
}
