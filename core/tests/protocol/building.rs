//! Messages that are built in place: in the peer's landing buffer, or in its image.

use superpipe_core::{
    Arrival, Config, End, Endpoint, FlagPlace, Layout, Length, Origin, Protocol, Reason, RefusedReserve,
    RefusedSend, ReservedMessage,
};
use superpipe_testkit::{Direct, GrowthSetup, Posted, Rng, Setup, TestFabric};

const APART: FlagPlace = FlagPlace::Apart { group_blocks: 4 };
const C0_BYTES: u32 = 700;

struct Ends<F: TestFabric> {
    fabric: F,
    ends: [Endpoint<F>; 2],
}

impl<F: TestFabric> Ends<F> {
    fn new(setup: &Setup, arrival: Arrival) -> Self {
        let fabric = F::new(setup);
        let config = Config { c0_bytes: C0_BYTES, arrival, ..Config::default() };
        let ends = [0, 1]
            .map(|side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap());
        Self { fabric, ends }
    }

    fn of(flags: FlagPlace, block_count: u32) -> Self {
        Self::new(&setup(flags, block_count), Arrival::Flag)
    }

    fn step(&mut self) {
        self.fabric.step();
        self.ends.iter_mut().for_each(|end| _ = end.progress(&mut self.fabric));
    }

    fn settle(&mut self) {
        (0..400).for_each(|_| self.step());
        self.ends.iter_mut().for_each(|end| end.poll_acknowledgements(&mut self.fabric));
    }

    fn reserve(&mut self, tag: u64, bytes: u32) -> Result<ReservedMessage, RefusedReserve> {
        self.ends[0].reserve_message(&mut self.fabric, tag, bytes)
    }

    /// Writes a message in pieces that end anywhere, the last bytes first.
    fn write(&mut self, message: ReservedMessage, payload: &[u8], rng: &mut Rng) {
        let mut end = payload.len();
        while end > 0 {
            let begin = end - (1 + rng.below(400)).min(end);
            let offset = u32::try_from(begin).unwrap();
            assert!(self.ends[0].copy_into_message(&mut self.fabric, message, offset, &payload[begin..end]));
            end = begin;
        }
    }

    fn commit(&mut self, message: ReservedMessage) -> Result<(), RefusedSend> {
        self.ends[0].commit_message(&mut self.fabric, message)
    }

    /// Receives the next message as a loan, or by copies. Returns tag and bytes.
    #[track_caller]
    fn receive(&mut self, in_place: bool) -> (u64, Vec<u8>) {
        let tag = loop {
            if let Some(incoming) = self.ends[1].incoming(&mut self.fabric) {
                break incoming.tag;
            }
            self.step();
        };
        if in_place {
            let mut tries = 0;
            let loan = loop {
                match self.ends[1].take_loan(&mut self.fabric) {
                    Ok(Some(loan)) => break loan,
                    other => {
                        tries += 1;
                        assert!(tries < 5000, "{}: {other:?}", F::NAME);
                        self.step();
                    }
                }
            };
            let mut payload = vec![0; loan.bytes as usize];
            assert!(self.ends[1].copy_from_loan(&mut self.fabric, loan, 0, &mut payload));
            assert!(self.ends[1].give_back(&mut self.fabric, loan));
            return (tag, payload);
        }
        let (mut place, mut bytes) = (vec![0; 1 << 16], 0);
        loop {
            let pulled = self.ends[1].pull_from(&mut self.fabric, &mut [&mut place], bytes);
            bytes += pulled.bytes;
            if pulled.end != End::No {
                assert_eq!(pulled.end, End::Fin);
                break;
            }
            self.step();
        }
        place.truncate(bytes);
        (tag, place)
    }
}

fn setup(flags: FlagPlace, block_count: u32) -> Setup {
    let layout = Layout { block_bytes: 256, block_count, flags };
    Setup { notifications_max: 32, ..Setup::new(layout, 1) }
}

fn payload(tag: u64, bytes: u32) -> Vec<u8> {
    (0..bytes).map(|at| (tag * 31 + u64::from(at * 7)).to_le_bytes()[0]).collect()
}

/// Most bytes of a ring wherever a message begins: two chunks inside the blocks have one slot line more.
fn limit(flags: FlagPlace, block_count: u32) -> u32 {
    match flags {
        FlagPlace::Inside => 2 * 192 + (block_count - 2) * 248,
        FlagPlace::Apart { .. } => 256 * block_count,
    }
}

macro_rules! on_both {
    ($($name:ident)*) => {
        mod direct { $(#[test] fn $name() { super::$name::<super::Direct>(super::APART); })* }
        mod posted { $(#[test] fn $name() { super::$name::<super::Posted>(super::FlagPlace::Inside); })* }
    };
}

on_both! {
    a_message_of_any_length_fits_the_ring_wherever_it_begins
    what_is_longer_than_the_ring_is_refused_with_the_limit
    one_is_open_at_a_time_and_receiving_goes_on
    nothing_of_an_abandoned_message_is_sent
    a_stale_message_is_refused
    a_close_ends_a_message_that_is_open
    a_message_waits_for_blocks_that_loans_hold
    a_longer_message_grows_the_landing_buffer_first
    growth_that_is_refused_is_an_error_with_the_limit
    this_end_moves_only_once_the_message_is_sent
}

fn a_message_of_any_length_fits_the_ring_wherever_it_begins<F: TestFabric>(flags: FlagPlace) {
    let mut rng = Rng::new(3);
    for block_count in [4, 5, 16] {
        let most = limit(flags, block_count);
        for begin in 0..block_count {
            for bytes in [0, 1, 191, 192, 193, 256, 257, 256 * begin, most - 256, most - 1, most] {
                let mut t = Ends::<F>::of(flags, block_count);
                for tag in 0..begin {
                    t.ends[0].try_send(&mut t.fabric, tag.into(), &[b"x"]).unwrap();
                    assert_eq!(t.receive(false), (u64::from(tag), b"x".to_vec()));
                    t.settle();
                }
                let bytes = bytes.min(most);
                let message = t.reserve(99, bytes).unwrap();
                assert_eq!(t.ends[1].incoming(&mut t.fabric), None);
                t.write(message, &payload(9, bytes), &mut rng);
                t.commit(message).unwrap();
                let received = t.receive(rng.one_in(2));
                assert!(
                    received == (99, payload(9, bytes)),
                    "{}: {begin} of {block_count}, {bytes}",
                    F::NAME
                );
                t.settle();
                assert!(t.ends[0].poll_delivered());
            }
        }
    }
}

fn what_is_longer_than_the_ring_is_refused_with_the_limit<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::of(flags, 8);
    let bytes_max = limit(flags, 8);
    for bytes in [bytes_max + 1, 1 << 30, u32::MAX] {
        assert_eq!(t.reserve(1, bytes), Err(RefusedReserve::TooLong { bytes_max }), "{}", F::NAME);
    }
    assert!(t.reserve(1, bytes_max).is_ok(), "{}", F::NAME);
}

fn one_is_open_at_a_time_and_receiving_goes_on<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::of(flags, 8);
    let message = t.reserve(1, 500).unwrap();
    assert_eq!(t.reserve(2, 1), Err(RefusedReserve::Busy), "{}", F::NAME);
    assert_eq!(t.ends[0].try_send(&mut t.fabric, 2, &[b"x"]), Err(RefusedSend::Busy), "{}", F::NAME);
    assert_eq!(t.ends[0].start(2, Length::Stream), Err(RefusedSend::Busy), "{}", F::NAME);
    assert!(t.ends[0].is_writable(&mut t.fabric));
    for tag in 0..20 {
        t.ends[1].try_send(&mut t.fabric, tag, &[&payload(tag, 300)]).unwrap();
        t.settle();
        let mut place = [0; 300];
        assert_eq!(t.ends[0].pull(&mut t.fabric, &mut [&mut place]).end, End::Fin);
        assert!(place[..] == payload(tag, 300));
        t.settle();
    }
    t.write(message, &payload(1, 500), &mut Rng::new(1));
    t.commit(message).unwrap();
    t.ends[0].try_send(&mut t.fabric, 2, &[b"x"]).unwrap();
    assert_eq!(t.receive(true), (1, payload(1, 500)));
    assert_eq!(t.receive(true), (2, b"x".to_vec()));
}

fn nothing_of_an_abandoned_message_is_sent<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::of(flags, 8);
    for round in 0..40 {
        let message = t.reserve(1, 900).unwrap();
        t.write(message, &payload(1, 900), &mut Rng::new(round));
        t.settle();
        assert_eq!(t.ends[1].incoming(&mut t.fabric), None, "{}", F::NAME);
        assert!(t.ends[0].abandon_message(message));
        t.ends[0].try_send(&mut t.fabric, round, &[&payload(round, 300)]).unwrap();
        t.settle();
        assert_eq!(t.receive(true), (round, payload(round, 300)), "{}", F::NAME);
        t.settle();
    }
}

fn a_stale_message_is_refused<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::of(flags, 8);
    let stale = t.reserve(1, 100).unwrap();
    assert!(t.ends[0].abandon_message(stale) && !t.ends[0].abandon_message(stale));
    let message = t.reserve(2, 100).unwrap();
    assert!(!t.ends[0].abandon_message(stale) && !t.ends[0].is_reserved(stale));
    assert_eq!(t.commit(stale), Err(RefusedSend::NotOpen), "{}", F::NAME);
    assert!(!t.ends[0].copy_into_message(&mut t.fabric, stale, 0, b"x"));
    assert!(t.ends[0].message_span(stale, 0).is_none());
    for (offset, bytes) in [(0, 101), (100, 1), (u32::MAX, 1)] {
        assert!(!t.ends[0].copy_into_message(&mut t.fabric, message, offset, &vec![1; bytes]));
    }
    assert!(t.ends[0].message_span(message, 100).is_none());
    t.write(message, &payload(2, 100), &mut Rng::new(1));
    t.commit(message).unwrap();
    assert_eq!(t.commit(message), Err(RefusedSend::NotOpen), "{}", F::NAME);
    assert_eq!(t.receive(false), (2, payload(2, 100)));
}

fn a_close_ends_a_message_that_is_open<F: TestFabric>(flags: FlagPlace) {
    for by_peer in [false, true] {
        let mut t = Ends::<F>::of(flags, 8);
        let message = t.reserve(1, 100).unwrap();
        let side = usize::from(by_peer);
        t.ends[side].close(&mut t.fabric, Reason(3));
        t.settle();
        assert_eq!(t.commit(message), Err(RefusedSend::Closed), "{}", F::NAME);
        assert_eq!(t.reserve(2, 1), Err(RefusedReserve::Closed), "{}", F::NAME);
        assert_eq!(t.ends[1].incoming(&mut t.fabric), None, "{}", F::NAME);
    }
}

fn a_message_waits_for_blocks_that_loans_hold<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::of(flags, 8);
    t.ends[0].try_send(&mut t.fabric, 1, &[&payload(1, 100)]).unwrap();
    t.settle();
    let loan = t.ends[1].take_loan(&mut t.fabric).unwrap().unwrap();
    t.settle();
    let bytes = limit(flags, 8);
    assert_eq!(t.reserve(2, bytes), Err(RefusedReserve::Pending), "{}", F::NAME);
    assert!(t.reserve(2, bytes - 300).is_ok_and(|message| t.ends[0].abandon_message(message)), "{}", F::NAME);
    assert!(t.ends[1].give_back(&mut t.fabric, loan));
    t.settle();
    let message = t.reserve(2, bytes).unwrap();
    t.write(message, &payload(2, bytes), &mut Rng::new(1));
    t.commit(message).unwrap();
    assert_eq!(t.receive(true), (2, payload(2, bytes)), "{}", F::NAME);
}

const SMALL: Layout = Layout { block_bytes: 128, block_count: 4, flags: FlagPlace::Inside };
const LARGEST: Layout = Layout { block_bytes: 256, block_count: 64, flags: FlagPlace::Inside };

/// Ends whose landing buffers grow; one job in `fail_one_in` fails, if that is not 0.
fn growing<F: TestFabric>(fail_one_in: usize) -> Ends<F> {
    let growth = GrowthSetup { fail_one_in, ..GrowthSetup::new(LARGEST, 4096) };
    Ends::new(&Setup { growth: Some(growth), ..Setup::new(SMALL, 1) }, Arrival::Flag)
}

fn a_longer_message_grows_the_landing_buffer_first<F: TestFabric>(_: FlagPlace) {
    let mut t = growing::<F>(0);
    let bytes_max = 2 * 192 + 62 * 248;
    assert_eq!(t.reserve(1, bytes_max + 1), Err(RefusedReserve::TooLong { bytes_max }), "{}", F::NAME);
    for (tag, bytes) in [(1, 450), (2, 3000), (3, 9000), (4, bytes_max)] {
        let (mut pending, mut tries) = (0, 0);
        let message = loop {
            match t.reserve(tag, bytes) {
                Ok(message) => break message,
                Err(RefusedReserve::Pending) => pending += 1,
                Err(other) => panic!("{}: {bytes} bytes, {other:?}", F::NAME),
            }
            t.step();
            tries += 1;
            assert!(tries < 5000, "{}: {bytes} bytes", F::NAME);
        };
        assert!(pending > 0, "{}: {bytes} bytes", F::NAME);
        t.write(message, &payload(tag, bytes), &mut Rng::new(tag));
        t.commit(message).unwrap();
        assert!(t.receive(tag % 2 == 0) == (tag, payload(tag, bytes)), "{}: {bytes} bytes", F::NAME);
        t.settle();
    }
    assert!(t.ends[1].counters().growths >= 3);
}

fn growth_that_is_refused_is_an_error_with_the_limit<F: TestFabric>(_: FlagPlace) {
    let mut t = growing::<F>(1);
    assert_eq!(t.reserve(1, 5000), Err(RefusedReserve::Pending), "{}", F::NAME);
    t.settle();
    let bytes_max = 2 * 64 + 2 * 120;
    assert_eq!(t.reserve(1, 5000), Err(RefusedReserve::TooLong { bytes_max }), "{}", F::NAME);
    let message = t.reserve(1, bytes_max).unwrap();
    t.write(message, &payload(1, bytes_max), &mut Rng::new(1));
    t.commit(message).unwrap();
    assert_eq!(t.receive(true), (1, payload(1, bytes_max)), "{}", F::NAME);
}

/// A larger landing buffer is granted while a message is open in the current one.
fn this_end_moves_only_once_the_message_is_sent<F: TestFabric>(_: FlagPlace) {
    let mut t = growing::<F>(0);
    assert_eq!(t.reserve(1, 5000), Err(RefusedReserve::Pending), "{}", F::NAME);
    let message = t.reserve(2, 300).unwrap();
    let half = payload(2, 300);
    assert!(t.ends[0].copy_into_message(&mut t.fabric, message, 0, &half[..150]));
    t.settle();
    assert!(t.ends[1].counters().growths == 1 && t.ends[0].counters().moves == 0, "{}", F::NAME);
    assert!(t.ends[0].copy_into_message(&mut t.fabric, message, 150, &half[150..]));
    t.commit(message).unwrap();
    assert_eq!(t.receive(true), (2, half), "{}", F::NAME);
    t.settle();
    assert_eq!(t.ends[0].counters().moves, 1, "{}", F::NAME);
    assert!(t.reserve(1, 5000).is_ok(), "{}", F::NAME);
}

/// A message needs more than the window: the lap goes on to the end of the ring, and the next one has what the message needs of it.
#[test]
fn a_message_that_is_longer_than_the_window_has_its_laps() {
    for begin in 0..16 {
        let mut t = Ends::<Direct>::of(APART, 16);
        for tag in 0..begin {
            t.ends[0].try_send(&mut t.fabric, tag, &[b"x"]).unwrap();
            assert_eq!(t.receive(true), (tag, b"x".to_vec()));
            t.settle();
        }
        t.ends[0].set_window(Some(4 * 256));
        for tag in 0..50 {
            let bytes = if tag % 3 == 0 { 16 * 256 } else { 700 };
            let message = t.reserve(tag, bytes).unwrap();
            t.write(message, &payload(tag, bytes), &mut Rng::new(tag));
            t.commit(message).unwrap();
            assert!(t.receive(tag % 2 == 0) == (tag, payload(tag, bytes)), "{begin}: {tag}");
            t.settle();
            t.ends[0].try_send(&mut t.fabric, 99, &[&payload(9, 600)]).unwrap();
            assert!(t.receive(true) == (99, payload(9, 600)), "{begin}: behind {tag}");
            t.settle();
        }
    }
}

/// Messages that are built and others, in a ring whose window changes, received by loans, given back late, and by copies.
fn mixed<F: TestFabric>(flags: FlagPlace, block_count: u32, arrival: Arrival, seed: u64) {
    let mut t = Ends::<F>::new(&setup(flags, block_count), arrival);
    t.ends[0].set_protocol(Protocol::Eager);
    let mut rng = Rng::new(seed);
    let (mut sent, mut next, mut built) = (Vec::<Vec<u8>>::new(), 0, 0);
    let (mut open, mut held) = (None, Vec::new());
    for _ in 0..800 {
        match rng.below(8) {
            0..=2 if open.is_none() => {
                let bytes = u32::try_from(rng.below(limit(flags, block_count) as usize + 1)).unwrap();
                match t.reserve(sent.len() as u64, bytes) {
                    Ok(message) => {
                        let payload = payload(sent.len() as u64, bytes);
                        t.write(message, &payload, &mut rng);
                        open = Some((message, payload));
                    }
                    Err(refused) => assert_eq!(refused, RefusedReserve::Pending, "{}", F::NAME),
                }
            }
            3 => {
                if let Some((message, payload)) = open.take() {
                    if rng.one_in(4) {
                        assert!(t.ends[0].abandon_message(message));
                    } else {
                        t.commit(message).unwrap();
                        sent.push(payload);
                        built += 1;
                    }
                }
            }
            4 => {
                let payload =
                    payload(sent.len() as u64, u32::try_from(rng.below(C0_BYTES as usize)).unwrap());
                match t.ends[0].try_send(&mut t.fabric, sent.len() as u64, &[&payload]) {
                    Ok(_) => sent.push(payload),
                    Err(RefusedSend::Busy) => assert!(open.is_some() || !F::DIRECT),
                    Err(refused) => {
                        assert!(
                            matches!(refused, RefusedSend::NoCredit | RefusedSend::TooLong),
                            "{refused:?}"
                        );
                    }
                }
            }
            5 if rng.one_in(4) => {
                t.ends[0].set_window(Some(u32::try_from(256 * rng.below(block_count as usize)).unwrap()));
            }
            6 => match t.ends[1].take_loan(&mut t.fabric) {
                Ok(Some(loan)) => {
                    assert_eq!(loan.tag, next);
                    next += 1;
                    held.push(loan);
                }
                other => {
                    assert!(!matches!(other, Err(superpipe_core::RefusedLoan::Elsewhere(_))), "{other:?}")
                }
            },
            7 if !held.is_empty() => {
                let loan = held.remove(rng.below(held.len()));
                let mut payload = vec![0; loan.bytes as usize];
                assert!(t.ends[1].copy_from_loan(&mut t.fabric, loan, 0, &mut payload));
                assert!(payload == sent[usize::try_from(loan.tag).unwrap()], "{}: {}", F::NAME, loan.tag);
                assert!(t.ends[1].give_back(&mut t.fabric, loan));
            }
            _ => (0..rng.below(40)).for_each(|_| t.step()),
        }
    }
    assert!(built > 15, "{}: {built} of {}", F::NAME, sent.len());
    if let Some((message, payload)) = open {
        t.commit(message).unwrap();
        sent.push(payload);
    }
    for loan in held {
        t.ends[1].give_back(&mut t.fabric, loan);
    }
    while next < sent.len() as u64 {
        assert!(
            t.receive(rng.one_in(2)) == (next, sent[usize::try_from(next).unwrap()].clone()),
            "{}",
            F::NAME
        );
        next += 1;
    }
    t.settle();
    assert!(t.ends[0].poll_delivered(), "{}", F::NAME);
}

#[test]
fn built_messages_among_others_are_what_was_written() {
    for seed in 0..10 {
        for block_count in [6, 16] {
            mixed::<Direct>(APART, block_count, Arrival::Flag, seed);
            mixed::<Direct>(FlagPlace::Inside, block_count, Arrival::Flag, seed);
            mixed::<Direct>(APART, block_count, Arrival::CheckedFlag, seed);
            for arrival in [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify] {
                mixed::<Posted>(FlagPlace::Inside, block_count, arrival, seed);
            }
        }
    }
}
