//! The QP of one connection and its CQ: what is posted, what completes, what the peer says by mail.

use super::cm::Cm;
use super::error::ConnectError;
use super::handshake::Patience;
use super::mail::{IS_RECEIVE, Mailroom, NOTICES, RECEIVES, SENDS_MAX, WORD_BYTES, Word};
use super::memory::Half;
use super::queue::SendQueue;
use crate::os::poll::PollFd;
use crate::packet::{PACKET_BYTES, Packet};
use crate::verbs::{
    Access, CmEvent, CompChannel, ConnectParams, Context, Cq, Error, EventChannel, Mr, Mtu, Pd, Qp, QpConfig,
    QpState, RemoteAddr, SendBatch, SendFlags, Transport, Wc, WcOpcode, WcStatus,
};
use heapless::{Deque, Vec};
use std::os::fd::AsFd;
use superpipe_core::{Completion, Layout, Notice, WcError, WrId};

/// 4.096 µs times two to the power of this is how long an acknowledgement is waited for: 67 ms. rdma_cm's is seconds.
pub(super) const ACK_TIMEOUT: u8 = 14;
/// Eight times that, and the peer is lost.
const RETRIES: u8 = 7;
/// Receives are posted ahead, so that these are never needed but while a connection begins.
const RNR_RETRIES: u8 = 6;
/// 0.64 ms.
const RNR_TIMER: u8 = 12;
/// Bytes sent inline, the most that is tried first; siw has none.
const INLINE_BYTES: [u32; 3] = [256, 64, 0];
/// Places that data leaves to mail.
const RESERVED: u64 = 8;
/// Work requests of one doorbell.
const BATCH: usize = 32;
const POLLED: usize = 16;

/// A work request that waits for the doorbell.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// So many bytes at this place of the image, to the same place of the peer's.
    Write {
        at: u32,
        bytes: u32,
        immediate: Option<u32>,
    },
    Say(Word),
}

/// How far one end is with falling asleep, in modes where the peer tells of nothing by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    Awake,
    /// SLEEP is said.
    Asked,
    /// The peer will say WAKE with its next write.
    Granted,
}

/// What is left of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is there.
    Not,
    /// It disconnected, died or does not answer.
    Gone,
    /// A work request failed for another reason; told once.
    Failed(WcError),
    /// Told.
    Told,
}

/// The wire, with everything that it owns. Fields are dropped in this order.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) cm: core::cell::RefCell<Cm>,
    channel: EventChannel,
    pub(super) qp: Qp,
    cq: Cq,
    pub(super) events: CompChannel,
    pub(super) mailroom: Mailroom,
    pd: Pd,
    context: Context,
    pub(super) inline_bytes: u32,
    is_iwarp: bool,
    pub(super) queue: SendQueue,
    waiting: Vec<(Work, Option<WrId>), BATCH>,
    polled: [Wc; POLLED],
    /// notices with the receive that each came into, which is posted again when it is taken
    notices: Deque<(Notice, u16), { RECEIVES as usize }>,
    /// the last packet, while connecting
    packet: Option<Packet>,
    pub(super) sleep: Sleep,
    /// what is owed to the peer's sleep
    owes_ok: bool,
    peer_sleeps: bool,
    /// SLEEP is to be said
    wants_sleep: bool,
    pub(super) end: End,
}

impl Wire {
    /// Makes the objects of a connection whose device is known, with every receive posted, in the state INIT.
    pub(super) fn new(cm: Cm) -> Result<Self, ConnectError> {
        let context = cm.context()?;
        context.port(cm.port_number())?.check_active(&context.name())?;
        let limits = context.limits()?;
        let depth = limits.queue_depth_max.min(SENDS_MAX);
        let pd = Pd::alloc(&context)?;
        let events = CompChannel::create(&context)?;
        let cq = Cq::create(&context, depth + u32::from(RECEIVES) + 1, Some(&events))?;
        let mailroom = Mailroom::new(&pd)?;
        let mut qp = queue_pair(&pd, &cq, depth)?;
        qp.modify(&cm.qp_attr(QpState::Init)?)?;
        for slot in 0..RECEIVES {
            mailroom.post(&mut qp, slot)?;
        }
        Ok(Self {
            inline_bytes: qp.granted().inline_bytes,
            is_iwarp: context.transport() == Transport::Iwarp,
            channel: cm.channel().clone(),
            cm: cm.into(),
            qp,
            cq,
            events,
            mailroom,
            pd,
            context,
            queue: SendQueue::new(depth),
            waiting: Vec::new(),
            polled: [Wc::default(); POLLED],
            notices: Deque::new(),
            packet: None,
            sleep: Sleep::Awake,
            owes_ok: false,
            peer_sleeps: false,
            wants_sleep: false,
            end: End::Not,
        })
    }

    pub(super) const fn is_iwarp(&self) -> bool {
        self.is_iwarp
    }

    /// Begins to connect, from the active side.
    pub(super) fn connect(&mut self, greeting: &[u8]) -> Result<(), ConnectError> {
        let qp_number = self.qp.number();
        self.cm.get_mut().connect(params(qp_number, greeting))
    }

    /// Accepts, from the passive side.
    pub(super) fn accept(&mut self, greeting: &[u8]) -> Result<(), ConnectError> {
        let qp_number = self.qp.number();
        self.cm.get_mut().accept(params(qp_number, greeting))
    }

    /// Confirms the peer's acceptance, from the active side.
    pub(super) fn establish(&mut self) -> Result<(), ConnectError> {
        self.cm.get_mut().establish()
    }

    /// What rdma_cm tells next.
    pub(super) fn event(&self, patience: &Patience<'_>) -> Result<CmEvent, ConnectError> {
        self.cm.borrow_mut().event(patience.deadline_ns, patience.interrupted)
    }

    pub(super) fn device(&self) -> String {
        self.context.name()
    }

    /// Whether the bytes of a write that arrives here become visible in order.
    pub(super) fn keeps_order(&self) -> bool {
        self.qp.writes_arrive_in_order()
    }

    /// The largest packet of our port; none on iWARP.
    pub(super) fn mtu(&self) -> Result<Option<Mtu>, ConnectError> {
        let port = self.context.port(self.cm.borrow().port_number())?;
        Ok((!self.is_iwarp).then_some(port.active_mtu))
    }

    /// Once rdma_cm knows the peer: what it may do, where it is, and from then on we may send. iWARP does it by itself.
    pub(super) fn make_ready(&mut self, theirs: Option<Mtu>) -> Result<(), ConnectError> {
        let mine = self.mtu()?;
        let cm = self.cm.get_mut();
        let attr = |state| cm.qp_attr(state).map_err(gone);
        self.qp.modify(&attr(QpState::Init)?)?;
        let mut to_receive = attr(QpState::ReadyToReceive)?.with_rnr_timer(RNR_TIMER);
        if let Some(mtu) = [to_receive.path_mtu(), mine, theirs].into_iter().flatten().min() {
            to_receive = to_receive.with_path_mtu(mtu);
        }
        self.qp.modify(&to_receive)?;
        let to_send = attr(QpState::ReadyToSend)?.with_ack_timeout(ACK_TIMEOUT);
        self.qp.modify(&to_send.with_retries(RETRIES).with_rnr_retries(RNR_RETRIES))?;
        Ok(())
    }

    /// Registers a seat and a landing buffer.
    pub(super) fn register(&self, layout: Layout, access: Access) -> Result<Half, ConnectError> {
        Half::register(&self.pd, layout, access)
    }

    /// Bytes that are registered for mail.
    pub(super) fn mail_bytes(&self) -> usize {
        self.mailroom.bytes()
    }

    /// SENDs a packet, at once. The one before was answered, or is the same.
    pub(super) fn send_packet(&mut self, packet: &Packet) -> Result<(), ConnectError> {
        self.mailroom.put_packet(packet);
        self.again()
    }

    /// SENDs the same packet again.
    pub(super) fn again(&mut self) -> Result<(), ConnectError> {
        let position = self.queue.position();
        if self.queue.room() == 0 {
            return Err(ConnectError::TimedOut);
        }
        let signaled = self.queue.take(None);
        let mut batch = self.qp.batch();
        let inline = PACKET_BYTES <= self.inline_bytes as usize;
        let built = batch.send(position, self.mailroom.packet_sge(), SendFlags { signaled, inline });
        debug_assert!(built.is_ok(), "a batch has room for one");
        batch.post().map_err(|error| ConnectError::Verbs(error.cause))
    }

    /// The packet that came, if one did.
    pub(super) fn take_packet(&mut self) -> Option<Packet> {
        self.poll();
        self.packet.take()
    }

    /// Has the completion channel tell of what comes next. True: something came meanwhile.
    pub(super) fn arm(&mut self) -> Result<bool, Error> {
        self.cq.request_notify()?;
        Ok(self.poll() > 0)
    }

    /// Takes a batch out of the CQ. How many.
    #[inline]
    pub(super) fn poll(&mut self) -> usize {
        match self.cq.poll(&mut self.polled) {
            Ok(0) => 0,
            Ok(count) => {
                for index in 0..count {
                    let wc = self.polled[index];
                    if wc.id() & IS_RECEIVE == 0 { self.sent(&wc) } else { self.received(&wc) }
                }
                count
            }
            Err(_) => {
                self.finish(End::Gone);
                0
            }
        }
    }

    #[inline]
    fn sent(&mut self, wc: &Wc) {
        match wc.result() {
            Ok(()) => {
                let is_ours = self.queue.complete(wc.id());
                debug_assert!(is_ours, "the device tells of what was posted, in order");
            }
            Err(error) => self.broken(error),
        }
    }

    #[inline]
    fn received(&mut self, wc: &Wc) {
        let slot = u16::try_from(wc.id() & !IS_RECEIVE).unwrap_or(0);
        if let Err(error) = wc.result() {
            return self.broken(error);
        }
        let word = match (wc.opcode(), wc.bytes()) {
            (WcOpcode::ReceiveImmediate, _) => wc.immediate(),
            (_, WORD_BYTES) => Some(self.mailroom.word(slot)),
            (_, bytes) if bytes as usize == PACKET_BYTES => {
                self.packet = Some(self.mailroom.packet(slot));
                return self.repost(slot);
            }
            _ => None,
        };
        match word.and_then(Word::decode) {
            Some(Word::Notice(bits)) => {
                let kept = self.notices.push_back((Notice(bits), slot));
                debug_assert!(kept.is_ok(), "there is a place for every receive");
                return;
            }
            Some(Word::Sleep) => {
                self.peer_sleeps = true;
                self.owes_ok = true;
            }
            Some(Word::SleepOk) if self.sleep == Sleep::Asked => self.sleep = Sleep::Granted,
            Some(Word::Wake) => self.sleep = Sleep::Awake,
            // A late answer.
            Some(Word::SleepOk) => {}
            None => return self.finish(End::Gone),
        }
        self.repost(slot);
        if self.owes_ok {
            self.ring();
        }
    }

    fn repost(&mut self, slot: u16) {
        if self.mailroom.post(&mut self.qp, slot).is_err() {
            self.finish(End::Gone);
        }
    }

    /// The next notice; its receive is posted again.
    #[inline]
    pub(super) fn take_notice(&mut self) -> Option<Notice> {
        if self.notices.is_empty() {
            self.poll();
        }
        let (notice, slot) = self.notices.pop_front()?;
        self.repost(slot);
        Some(notice)
    }

    pub(super) fn has_notice(&self) -> bool {
        !self.notices.is_empty()
    }

    /// The next completion of core's.
    #[inline]
    pub(super) fn next_completion(&mut self) -> Option<Completion> {
        let next = match self.queue.next() {
            None if self.poll() > 0 => self.queue.next(),
            next => next,
        };
        match (next, self.end) {
            (Some(wr), End::Failed(error)) => {
                self.end = End::Told;
                Some(Completion { wr, result: Err(error) })
            }
            (None, End::Failed(error)) => {
                self.end = End::Told;
                Some(Completion { wr: WrId(0), result: Err(error) })
            }
            (wr, _) => wr.map(|wr| Completion { wr, result: Ok(()) }),
        }
    }

    /// Puts a write where the doorbell finds it. False: there is no place.
    #[inline]
    pub(super) fn write(
        &mut self,
        at: u32,
        bytes: u32,
        wr: Option<WrId>,
        notice: Option<Notice>,
        image: &Mr,
        there: RemoteAddr,
    ) -> bool {
        if self.end != End::Not {
            // Nobody is there any more: it is as good as done.
            return self.queue.room() > 0 && {
                self.queue.take(wr);
                self.queue.complete_all();
                true
            };
        }
        let is_apart = self.is_iwarp && notice.is_some();
        let count = 1 + u64::from(is_apart);
        if self.waiting.len() + usize::from(is_apart) + 3 > BATCH {
            self.flush(image, there);
        }
        if self.queue.room() < self.waiting.len() as u64 + count + RESERVED {
            self.poll();
            if self.queue.room() < self.waiting.len() as u64 + count + RESERVED {
                return false;
            }
        }
        let word = notice.map(|Notice(bits)| Word::Notice(bits));
        let immediate = word.filter(|_| !is_apart).map(Word::encode);
        let write = (Work::Write { at, bytes, immediate }, wr.filter(|_| !is_apart));
        let say = word.filter(|_| is_apart).map(|word| (Work::Say(word), wr));
        for work in [Some(write), say].into_iter().flatten() {
            let kept = self.waiting.push(work);
            debug_assert!(kept.is_ok(), "there is room, or it was flushed");
        }
        true
    }

    /// Posts what waits, and wakes a peer that sleeps.
    #[inline]
    pub(super) fn ring_doorbell(&mut self, image: &Mr, there: RemoteAddr) {
        if self.waiting.is_empty() {
            return;
        }
        if self.peer_sleeps && self.waiting.push((Work::Say(Word::Wake), None)).is_ok() {
            self.peer_sleeps = false;
        }
        self.flush(image, there);
    }

    /// Says what is owed, without a write.
    pub(super) fn ring(&mut self) {
        if self.end != End::Not || !self.waiting.is_empty() {
            return;
        }
        for (wanted, word) in [(&mut self.owes_ok, Word::SleepOk), (&mut self.wants_sleep, Word::Sleep)] {
            if *wanted && self.queue.room() > 0 {
                *wanted = false;
                let position = self.queue.position();
                let signaled = self.queue.take(None);
                let inline = WORD_BYTES <= self.inline_bytes;
                let mut batch = self.qp.batch();
                let sge = self.mailroom.put_word(position, word);
                let built = batch.send(position, sge, SendFlags { signaled, inline });
                debug_assert!(built.is_ok(), "a batch has room for one");
                if batch.post().is_err() {
                    self.end = End::Gone;
                }
            }
        }
        if self.end == End::Gone {
            self.finish(End::Gone);
        }
    }

    /// Asks the peer to wake this end.
    pub(super) fn ask_to_sleep(&mut self) {
        if self.sleep == Sleep::Awake {
            self.sleep = Sleep::Asked;
            self.wants_sleep = true;
        }
        self.ring();
    }

    #[inline]
    fn flush(&mut self, image: &Mr, there: RemoteAddr) {
        let mut batch = self.qp.batch();
        for (work, wr) in &self.waiting {
            let position = self.queue.position();
            let signaled = self.queue.take(*wr);
            let built =
                add(&mut batch, *work, position, signaled, self.inline_bytes, &self.mailroom, image, there);
            debug_assert!(built, "core's offsets are inside the image, and a batch has room for its queue");
        }
        self.waiting.clear();
        if batch.post().is_err() {
            self.finish(End::Gone);
        } else if self.owes_ok || self.wants_sleep {
            self.ring();
        }
    }

    /// A work request failed.
    #[cold]
    fn broken(&mut self, error: WcError) {
        // The kernel takes the memory of a process that was killed before its queue pairs: a write in between is refused.
        const REMOTE_ACCESS: u32 = 10;
        const REMOTE_OPERATION: u32 = 11;
        const RNR_RETRY_EXCEEDED: u32 = 13;
        // siw's words for a TCP connection that ended below what it was doing.
        const LOCAL_OPERATION: u32 = 2;
        const GENERAL: u32 = 21;
        let status = WcStatus(error.status);
        let is_loss = status == WcStatus::FLUSHED
            || status == WcStatus::RETRY_EXCEEDED
            || [REMOTE_ACCESS, REMOTE_OPERATION, RNR_RETRY_EXCEEDED].contains(&error.status)
            || self.is_iwarp && [LOCAL_OPERATION, GENERAL].contains(&error.status);
        self.finish(if is_loss { End::Gone } else { End::Failed(error) });
    }

    /// Nothing more is sent, and what was is done with.
    #[cold]
    pub(super) fn finish(&mut self, end: End) {
        if self.end == End::Not || self.end == End::Gone && matches!(end, End::Failed(_)) {
            self.end = end;
        }
        self.waiting.clear();
        // Whatever the device still has, it flushes.
        let _ = self.qp.fail();
        self.queue.complete_all();
    }

    /// What becomes readable when the connection ends.
    pub(super) fn interest(&self) -> PollFd<'_> {
        PollFd::new(self.channel.as_fd(), libc::POLLIN)
    }

    /// Whether the peer is there. A system call.
    pub(super) fn is_alive(&self) -> bool {
        self.end == End::Not && self.cm.borrow_mut().is_connected()
    }
}

fn params(qp_number: u32, private_data: &[u8]) -> ConnectParams<'_> {
    ConnectParams { qp_number, private_data, retries: RETRIES, rnr_retries: RNR_RETRIES }
}

/// One work request more.
#[inline]
#[expect(clippy::too_many_arguments, reason = "the parts of a wire, borrowed apart")]
fn add<'mr>(
    batch: &mut SendBatch<'_, 'mr>,
    work: Work,
    position: u64,
    signaled: bool,
    inline_bytes: u32,
    mailroom: &'mr Mailroom,
    image: &'mr Mr,
    there: RemoteAddr,
) -> bool {
    let flags = |bytes: u32| SendFlags { signaled, inline: bytes <= inline_bytes };
    let added = match work {
        Work::Say(word) => batch.send(position, mailroom.put_word(position, word), flags(WORD_BYTES)),
        Work::Write { at, bytes, immediate } => {
            let Some(from) = image.sge(at as usize, bytes) else { return false };
            let to = RemoteAddr { addr: there.addr.wrapping_add(u64::from(at)), rkey: there.rkey };
            match immediate {
                None => batch.write(position, from, to, flags(bytes)),
                Some(immediate) => batch.write_with_immediate(position, from, to, immediate, flags(bytes)),
            }
        }
    };
    added.is_ok()
}

/// rdma_cm knows nothing of a connection whose other end has given up meanwhile.
fn gone(error: ConnectError) -> ConnectError {
    match error {
        ConnectError::Verbs(Error::Verb(error)) if error.errno() == libc::EINVAL => {
            ConnectError::Lost("while connecting")
        }
        error => error,
    }
}

/// With as much inline as the device gives.
fn queue_pair(pd: &Pd, cq: &Cq, send_depth: u32) -> Result<Qp, ConnectError> {
    let mut refused = None;
    for inline_bytes in INLINE_BYTES {
        let config = QpConfig { send_depth, receive_depth: RECEIVES.into(), inline_bytes };
        match Qp::create(pd, cq, cq, config) {
            Ok(qp) => return Ok(qp),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.map_or(ConnectError::Lost("before it began"), ConnectError::Verbs))
}

const _: () = assert!(NOTICES < RECEIVES && RECEIVES as u64 > RESERVED);
