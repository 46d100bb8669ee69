//! Two drivers against a plain oracle: every call in random order, in states where it makes sense and where it does not. The
//! oracle is a list of the messages of which the receiver can know, and how far they were taken out.
//!
//! At the end everything is driven by waits, whose time is the oracle's: nothing is lost, and nothing waits for ever.

use proptest::prelude::*;
use superpipe_core::driver::{
    Drive, Ended, LookFailed, Next, Receive, ReceiveFailed, Received, RefusedRecv, Rest, Send, SendFailed,
    WaitStrategy,
};
use superpipe_core::{
    Arrival, Closed, Config, Driver, Endpoint, Event, FlagPlace, Incoming, Layout, Length, NOTICES_MIN,
    Nanos, Origin, Protocol, Reason, RefusedSend, Sending,
};
use superpipe_testkit::{Direct, Posted, Rig, Rng, Setup};

/// What a user does at one end.
#[derive(Clone, Copy, Debug)]
enum Do {
    TrySend { bytes: usize, pieces: usize },
    BeginSend { bytes: usize, pieces: usize },
    DriveSend,
    CancelSend,
    TryRecv { room: usize, pieces: usize },
    Peek,
    BeginReceive { room: usize, pieces: usize, looks: bool },
    DriveReceive,
    BeginCold { room: usize },
    DriveCold { part: usize },
    CancelReceive,
    Reject,
    Protocol(usize),
    Progress,
    Look,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    side: usize,
    does: Do,
    steps: usize,
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![0..9usize, 0..50usize, 0..400usize, 0..1500usize, Just(40), Just(41)]
}

fn op() -> impl Strategy<Value = Op> {
    let pieces = || 1..6usize;
    let does = prop_oneof![
        4 => (bytes(), pieces()).prop_map(|(bytes, pieces)| Do::TrySend { bytes, pieces }),
        3 => (bytes(), pieces()).prop_map(|(bytes, pieces)| Do::BeginSend { bytes, pieces }),
        8 => Just(Do::DriveSend),
        1 => Just(Do::CancelSend),
        4 => (bytes(), pieces()).prop_map(|(room, pieces)| Do::TryRecv { room, pieces }),
        2 => Just(Do::Peek),
        3 => (bytes(), pieces(), any::<bool>())
            .prop_map(|(room, pieces, looks)| Do::BeginReceive { room, pieces, looks }),
        8 => Just(Do::DriveReceive),
        1 => bytes().prop_map(|room| Do::BeginCold { room }),
        3 => (0..300usize).prop_map(|part| Do::DriveCold { part }),
        1 => Just(Do::CancelReceive),
        1 => Just(Do::Reject),
        1 => (0..4usize).prop_map(Do::Protocol),
        6 => Just(Do::Progress),
        1 => Just(Do::Look),
    ];
    (0..2usize, does, prop_oneof![Just(0usize), 0..4usize, 0..60usize]).prop_map(|(side, does, steps)| Op {
        side,
        does,
        steps,
    })
}

#[derive(Clone, Copy, Debug)]
struct World {
    seed: u64,
    layouts: [Layout; 2],
    arrival: usize,
    c0_bytes: u32,
    send_queue: usize,
    close: Option<(usize, bool)>,
}

fn world() -> impl Strategy<Value = World> {
    let layout = || {
        (prop::sample::select(vec![128, 192, 256, 512]), 2..12u32, any::<bool>()).prop_map(
            |(block_bytes, block_count, apart)| Layout {
                block_bytes,
                block_count,
                flags: if apart { FlagPlace::Apart } else { FlagPlace::Inside },
            },
        )
    };
    (
        any::<u64>(),
        [layout(), layout()],
        0..3usize,
        1..900u32,
        1..5usize,
        prop::option::of((0..2usize, any::<bool>())),
    )
        .prop_map(|(seed, layouts, arrival, c0_bytes, send_queue, close)| World {
            seed,
            layouts,
            arrival,
            c0_bytes,
            send_queue,
            close,
        })
}

/// A message of which the receiver can know.
#[derive(Debug)]
struct Sent {
    tag: u64,
    payload: Vec<u8>,
    cancelled: Option<Reason>,
    rejected: Option<Reason>,
    told: bool,
}

/// A message that an end sends as an operation.
#[derive(Debug)]
struct Sends {
    send: Send,
    tag: u64,
    payload: Vec<u8>,
    pieces: usize,
    /// Its place in the list, once the receiver can know of it.
    index: Option<usize>,
}

/// A message that an end receives as an operation.
#[derive(Debug)]
struct Receives {
    receive: Receive,
    place: Vec<u8>,
    pieces: usize,
    is_cold: bool,
}

#[derive(Debug, Default)]
struct Flow {
    sent: Vec<Sent>,
    sends: Option<Sends>,
    receives: Option<Receives>,
    /// Messages that the receiver has dealt with.
    head: usize,
    tags: u64,
}

struct Model<F: Rig> {
    fabric: F,
    ends: [Driver<F>; 2],
    /// By the end that sends.
    flows: [Flow; 2],
    rng: Rng,
    now: u64,
}

const UNTOUCHED: u8 = 0xa5;

/// Cuts a place into slices, the same each time; some are empty.
fn cut_mut(mut place: &mut [u8], pieces: usize) -> Vec<&mut [u8]> {
    let mut slices = vec![];
    for piece in 1..pieces {
        let at = if piece % 2 == 0 { 0 } else { place.len() / 3 };
        let (now, after) = place.split_at_mut(at);
        slices.push(now);
        place = after;
    }
    slices.push(place);
    slices
}

fn cut(mut message: &[u8], pieces: usize) -> Vec<&[u8]> {
    let mut slices = vec![];
    for piece in 1..pieces {
        let at = if piece % 2 == 0 { 0 } else { message.len() / 2 };
        let (now, after) = message.split_at(at);
        slices.push(now);
        message = after;
    }
    slices.push(message);
    slices
}

impl<F: Rig> Model<F> {
    fn new(world: World) -> Self {
        let arrivals = [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify];
        let arrival = arrivals[if F::DIRECT { world.arrival % 2 } else { world.arrival }];
        let layouts = world
            .layouts
            .map(|layout| if F::DIRECT { layout } else { Layout { flags: FlagPlace::Inside, ..layout } });
        let setup = Setup {
            layouts,
            order_inside_write: arrival == Arrival::Flag,
            send_queue: world.send_queue,
            notices: NOTICES_MIN + 2,
            seed: world.seed,
        };
        let fabric = F::new(&setup);
        let ends = [0, 1].map(|side| {
            let config = Config { arrival, c0_bytes: world.c0_bytes, folds: 2, ..Config::default() };
            let endpoint =
                Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap();
            Driver::new(endpoint, WaitStrategy::ALL[side], u64::MAX, Nanos(0))
        });
        Self { fabric, ends, flows: Default::default(), rng: Rng::new(world.seed), now: 0 }
    }

    fn payload(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| self.rng.next().to_le_bytes()[0]).collect()
    }

    fn tag(&mut self, side: usize) -> u64 {
        self.flows[side].tags += 1;
        self.flows[side].tags << 1 | side as u64
    }

    /// Nothing more than this was sent: the receiver may know of it now.
    fn listed(&mut self, side: usize) {
        let state = self.ends[side].endpoint().state().sending;
        let flow = &mut self.flows[side];
        if let Some(sends) = &mut flow.sends
            && sends.index.is_none()
            && sends.send.has_begun()
            && matches!(state, Sending::AwaitingCts | Sending::Underway | Sending::Cancelling)
        {
            flow.list(None);
        }
    }

    fn try_send(&mut self, side: usize, bytes: usize, pieces: usize) {
        let (payload, tag) = (self.payload(bytes), self.tag(side));
        match self.ends[side].try_send(&mut self.fabric, tag, &cut(&payload, pieces)) {
            Ok(_) => {
                assert!(!self.is_sending(side));
                let sent = Sent { tag, payload, cancelled: None, rejected: None, told: false };
                self.flows[side].sent.push(sent);
            }
            Err(RefusedSend::TooLong) => assert!(bytes > 40),
            Err(RefusedSend::Busy) => {
                let is_cancelling = self.ends[side].endpoint().state().sending == Sending::Cancelling;
                assert!(self.is_sending(side) || is_cancelling);
            }
            Err(refused) => assert_eq!(refused, RefusedSend::NoCredit),
        }
    }

    fn is_sending(&self, side: usize) -> bool {
        self.flows[side].sends.as_ref().is_some_and(|sends| sends.send.has_begun())
    }

    fn begin_send(&mut self, side: usize, bytes: usize, pieces: usize) {
        if self.flows[side].sends.is_none() {
            let (payload, tag) = (self.payload(bytes), self.tag(side));
            let send = Send::new(tag, bytes);
            self.flows[side].sends = Some(Sends { send, tag, payload, pieces, index: None });
        }
    }

    fn drive_send(&mut self, side: usize) {
        let Some(sends) = &mut self.flows[side].sends else { return };
        let slices = cut(&sends.payload, sends.pieces);
        let before = sends.send.sent();
        let driven = self.ends[side].drive_send(&mut self.fabric, &mut sends.send, &slices);
        let moved = sends.send.sent() - before;
        let all = sends.payload.len();
        self.listed(side);
        let flow = &mut self.flows[side];
        let Some(sends) = &flow.sends else { return };
        match driven {
            Drive::Idle => assert_eq!(moved, 0),
            Drive::Moved => assert!(sends.send.has_begun()),
            Drive::Done(Ok(())) => {
                assert_eq!(sends.send.sent(), all);
                if sends.index.is_none() {
                    flow.list(None);
                }
                flow.sends = None;
            }
            Drive::Done(Err(SendFailed::Rejected(reason))) => {
                let Some(index) = sends.index else { panic!("rejected, and nothing was sent") };
                assert_eq!(flow.sent[index].rejected, Some(reason));
                flow.sends = None;
            }
            Drive::Done(failed) => panic!("{failed:?}"),
        }
    }

    fn cancel_send(&mut self, side: usize, reason: Reason) {
        let Some(mut sends) = self.flows[side].sends.take() else { return };
        self.ends[side].cancel_send(&mut self.fabric, &mut sends.send, reason);
        if let Some(index) = sends.index {
            let sent = &mut self.flows[side].sent[index];
            if sent.rejected.is_none() {
                sent.cancelled = Some(reason);
            }
        }
        let slices = cut(&sends.payload, sends.pieces);
        let stale = self.ends[side].drive_send(&mut self.fabric, &mut sends.send, &slices);
        assert_eq!(stale, Drive::Done(Err(SendFailed::NotOpen)));
    }

    /// The message that comes next, as the oracle knows it.
    fn incoming(&self, side: usize) -> Option<Incoming> {
        let sent = self.flows[1 - side].sent.get(self.flows[1 - side].head)?;
        let length = Length::Exact(sent.payload.len() as u64);
        Some(Incoming { transfer: self.flows[1 - side].head as u64 + 1, tag: sent.tag, length })
    }

    fn has_begun(&self, side: usize) -> bool {
        self.flows[1 - side].receives.as_ref().is_some_and(|receives| receives.receive.has_begun())
    }

    fn took(&mut self, side: usize, received: Received, place: &[u8]) {
        let flow = &mut self.flows[1 - side];
        let sent = &flow.sent[flow.head];
        assert_eq!((received.tag, received.bytes), (sent.tag, sent.payload.len()));
        assert_eq!((sent.rejected, sent.cancelled), (None, None));
        assert!(place[..received.bytes] == sent.payload, "wrong bytes");
        assert!(place[received.bytes..].iter().all(|byte| *byte == UNTOUCHED), "written beyond the end");
        flow.head += 1;
    }

    fn try_recv(&mut self, side: usize, room: usize, pieces: usize) {
        let mut place = vec![UNTOUCHED; room];
        let got = self.ends[side].try_recv(&mut self.fabric, &mut cut_mut(&mut place, pieces));
        match got {
            Ok(Some(received)) => {
                assert!(
                    !self.has_begun(side)
                        || self.flows[1 - side].receives.as_ref().unwrap().receive.taken() == 0
                );
                self.took(side, received, &place);
            }
            refused => {
                assert!(place.iter().all(|byte| *byte == UNTOUCHED), "refused, and written");
                match refused {
                    Err(RefusedRecv::TooSmall(incoming)) => {
                        assert_eq!(Some(incoming), self.incoming(side));
                        assert!(incoming.length != Length::Stream && self.length(side) > room);
                    }
                    Err(RefusedRecv::Long(incoming)) => {
                        assert_eq!(Some(incoming), self.incoming(side));
                        assert!(self.length(side) <= room);
                    }
                    Ok(_) => {}
                }
            }
        }
    }

    fn length(&self, side: usize) -> usize {
        self.flows[1 - side].sent[self.flows[1 - side].head].payload.len()
    }

    fn begin_receive(&mut self, side: usize, room: usize, pieces: usize, is_cold: bool, looks: bool) {
        if self.flows[1 - side].receives.is_some() {
            return;
        }
        let receive = if is_cold { Receive::cold() } else { Receive::new() };
        let place = vec![UNTOUCHED; room];
        let receives = self.flows[1 - side].receives.insert(Receives { receive, place, pieces, is_cold });
        if looks && !is_cold {
            let slices = &mut cut_mut(&mut receives.place, pieces);
            let driven = self.ends[side].begin_receive(&mut self.fabric, &mut receives.receive, slices);
            self.judge(side, driven);
        }
    }

    fn drive_receive(&mut self, side: usize, part: usize) {
        let Some(receives) = &mut self.flows[1 - side].receives else { return };
        let Receives { receive, place, pieces, is_cold } = receives;
        let before = receive.taken();
        let (end, fabric) = (&mut self.ends[side], &mut self.fabric);
        let driven = if *is_cold && receive.has_begun() {
            let last = place.len().min(before + part);
            end.receive_part(fabric, receive, &mut place[before..last])
        } else {
            end.drive_receive(fabric, receive, &mut cut_mut(place, *pieces))
        };
        let moved = receive.taken() - before;
        match driven {
            Drive::Idle => assert_eq!(moved, 0),
            Drive::Moved => assert!(receive.has_begun()),
            Drive::Done(_) => assert!(!receive.has_begun()),
        }
        self.judge(side, driven);
    }

    fn judge(&mut self, side: usize, driven: Drive<Result<Received, ReceiveFailed>>) {
        let Drive::Done(done) = driven else { return };
        let Some(receives) = self.flows[1 - side].receives.take() else { return };
        let incoming = self.incoming(side);
        match done {
            Ok(received) => self.took(side, received, &receives.place),
            Err(ReceiveFailed::TooSmall(found)) => {
                assert_eq!(Some(found), incoming);
                assert!(self.length(side) > receives.place.len());
                assert_eq!(receives.receive.taken(), 0);
            }
            Err(ReceiveFailed::Cancelled(reason)) => {
                let flow = &mut self.flows[1 - side];
                let sent = &flow.sent[flow.head];
                assert_eq!(sent.cancelled, Some(reason));
                let taken = receives.receive.taken();
                assert!(receives.place[..taken] == sent.payload[..taken], "wrong bytes");
                flow.head += 1;
            }
            Err(ReceiveFailed::NotOpen) => panic!("it was neither rejected nor taken by another"),
        }
    }

    fn rejected(&mut self, side: usize, reason: Reason) {
        let flow = &mut self.flows[1 - side];
        assert_eq!(flow.sent[flow.head].rejected.replace(reason), None);
        flow.sent[flow.head].cancelled = None;
        flow.head += 1;
    }

    fn cancel_receive(&mut self, side: usize, reason: Reason) {
        let Some(mut receives) = self.flows[1 - side].receives.take() else { return };
        let has_begun = receives.receive.has_begun();
        self.ends[side].cancel_receive(&mut self.fabric, &mut receives.receive, reason);
        if has_begun {
            self.rejected(side, reason);
        }
        let stale = self.ends[side].drive_receive(
            &mut self.fabric,
            &mut receives.receive,
            &mut [&mut receives.place],
        );
        assert_eq!(stale, Drive::Done(Err(ReceiveFailed::NotOpen)));
    }

    /// Rejects what is at the head; an operation that took it is over.
    fn reject(&mut self, side: usize, reason: Reason) {
        if !self.ends[side].reject(&mut self.fabric, reason) {
            return;
        }
        let has_begun = self.has_begun(side);
        self.rejected(side, reason);
        if has_begun {
            let Some(mut receives) = self.flows[1 - side].receives.take() else { return };
            let slices = &mut cut_mut(&mut receives.place, receives.pieces);
            let driven = self.ends[side].drive_receive(&mut self.fabric, &mut receives.receive, slices);
            assert_eq!(driven, Drive::Done(Err(ReceiveFailed::NotOpen)));
        }
    }

    fn reason(&mut self) -> Reason {
        Reason(u32::try_from(1 + self.rng.below(1000)).unwrap())
    }

    fn play(&mut self, Op { side, does, steps }: Op) {
        match does {
            Do::TrySend { bytes, pieces } => self.try_send(side, bytes, pieces),
            Do::BeginSend { bytes, pieces } => self.begin_send(side, bytes, pieces),
            Do::DriveSend => self.drive_send(side),
            Do::CancelSend => {
                let reason = self.reason();
                self.cancel_send(side, reason);
            }
            // What an operation has begun is its own.
            Do::TryRecv { .. } if self.has_begun(side) => {}
            Do::TryRecv { room, pieces } => self.try_recv(side, room, pieces),
            Do::Peek => {
                if let Some(peeked) = self.ends[side].try_peek(&mut self.fabric) {
                    assert_eq!(Some(peeked), self.incoming(side));
                }
            }
            Do::BeginReceive { room, pieces, looks } => self.begin_receive(side, room, pieces, false, looks),
            Do::BeginCold { room } => self.begin_receive(side, room, 1, true, false),
            Do::DriveReceive => self.drive_receive(side, usize::MAX / 2),
            Do::DriveCold { part } => self.drive_receive(side, part),
            Do::CancelReceive => {
                let reason = self.reason();
                self.cancel_receive(side, reason);
            }
            Do::Reject => {
                let reason = self.reason();
                self.reject(side, reason);
            }
            Do::Protocol(which) => self.ends[side].set_protocol(Protocol::ALL[which]),
            Do::Progress => _ = self.ends[side].progress(&mut self.fabric),
            Do::Look => {
                self.now += 30_000_000;
                let mut wait = self.ends[side].begin_wait();
                let now = Nanos(self.now);
                let looked = self.ends[side].look(&mut self.fabric, &mut wait, now, now);
                assert_eq!(looked, Err(LookFailed::Deadline));
            }
        }
        self.listed(side);
        for _ in 0..steps {
            self.fabric.step();
        }
        self.check();
    }

    fn check(&mut self) {
        for side in 0..2 {
            while let Some(Event::Rejected { transfer, reason }) = self.ends[side].poll_event() {
                let sent = &mut self.flows[side].sent[usize::try_from(transfer).unwrap() - 1];
                assert_eq!((sent.rejected, sent.told), (Some(reason), false));
                sent.told = true;
            }
            if let Some(Closed::Failed(failure)) = self.ends[side].endpoint().closed() {
                panic!("{failure}");
            }
        }
    }

    fn is_settled(&mut self) -> bool {
        let flows = &self.flows;
        flows.iter().all(|flow| {
            let events = flow.sent.iter().all(|sent| sent.rejected.is_some() == sent.told);
            flow.sends.is_none() && flow.receives.is_none() && flow.head == flow.sent.len() && events
        })
    }

    /// Drives everything to its end by waits: what is open is sent whole, and everything is taken.
    fn settle(&mut self) {
        let mut waits = [0, 1].map(|side| self.ends[side].begin_wait());
        for _ in 0..40_000 {
            for side in 0..2 {
                let mut before = self.marks(side);
                self.drive_send(side);
                if self.flows[1 - side].receives.is_none() && self.incoming(side).is_some() {
                    self.begin_receive(side, 2000, 3, false, false);
                }
                self.drive_receive(side, 100);
                let has_moved = before != { self.marks(side) };
                before = self.marks(side);
                match self.ends[side].round(&mut self.fabric, &mut waits[side], has_moved) {
                    Next::Again | Next::Rest(Rest::Spin | Rest::Yield { looks: false, .. }) => {}
                    Next::Look | Next::Rest(_) => {
                        self.now += 1_000_000;
                        let now = Nanos(self.now);
                        let looked =
                            self.ends[side].look(&mut self.fabric, &mut waits[side], now, Nanos(u64::MAX));
                        assert!(looked.is_ok());
                    }
                    Next::Ended(ended) => panic!("{ended}"),
                }
                assert_eq!(before, self.marks(side), "a round moves nothing of the user's");
                for _ in 0..3 {
                    self.fabric.step();
                }
            }
            self.check();
            // An operation that still waits has nothing to wait for.
            for side in 0..2 {
                if self.flows[side].head == self.flows[side].sent.len()
                    && self.flows[side].sends.is_none()
                    && self.flows[side].receives.is_some()
                {
                    self.cancel_receive(1 - side, Reason(1));
                }
            }
            if self.is_settled() {
                return;
            }
        }
        panic!("stuck: {:?}", self.flows);
    }

    fn marks(&self, side: usize) -> (usize, usize, usize, usize, bool) {
        let (to, from) = (&self.flows[side], &self.flows[1 - side]);
        let sent = to.sends.as_ref().map_or(0, |sends| sends.send.sent());
        let taken = from.receives.as_ref().map_or(0, |receives| receives.receive.taken());
        (sent, taken, from.head, to.sent.len(), from.receives.is_some())
    }

    /// One end closes; both learn of it, and by waits.
    fn close(&mut self, side: usize, is_orderly: bool) {
        let reason = if is_orderly { Reason::DONE } else { Reason(99) };
        self.ends[side].close(&mut self.fabric, reason);
        let mut done = false;
        for _ in 0..40_000 {
            match self.ends[side].drive_close(&mut self.fabric) {
                Drive::Done(result) => {
                    assert_eq!(result, Ok(()));
                    done = true;
                }
                Drive::Moved | Drive::Idle => assert!(!done),
            }
            self.ends[1 - side].progress(&mut self.fabric);
            self.fabric.step();
            if done && let Some(ended) = self.ends[1 - side].ended() {
                assert_eq!(ended, Ended::Closed(Closed::ByPeer(reason)));
                assert_eq!(self.ends[side].ended(), Some(Ended::Closed(Closed::Here(reason))));
                return;
            }
        }
        panic!("stuck in closing");
    }
}

impl Flow {
    /// The receiver may know of the message that is being sent.
    fn list(&mut self, cancelled: Option<Reason>) {
        if let Some(sends) = &mut self.sends {
            sends.index = Some(self.sent.len());
            let payload = sends.payload.clone();
            self.sent.push(Sent { tag: sends.tag, payload, cancelled, rejected: None, told: false });
        }
    }
}

fn play<F: Rig>(world: World, ops: &[Op]) {
    let mut model = Model::<F>::new(world);
    for op in ops {
        model.play(*op);
    }
    model.settle();
    if let Some((side, is_orderly)) = world.close {
        model.close(side, is_orderly);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn drivers_keep_to_the_model_by_direct_store(world in world(), ops in prop::collection::vec(op(), 1..150)) {
        play::<Direct>(world, &ops);
    }

    #[test]
    fn drivers_keep_to_the_model_by_posted_writes(world in world(), ops in prop::collection::vec(op(), 1..150)) {
        play::<Posted>(world, &ops);
    }
}
