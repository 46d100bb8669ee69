//! Loans: messages that are read in place and given back in any order, while the connection goes on.

use superpipe_core::{
    Arrival, Config, End, Endpoint, FlagPlace, LOANS_MAX, Layout, Length, Loan, Origin, Reason, RefusedLoan,
    RefusedSend,
};
use superpipe_testkit::{Direct, Posted, Rng, Setup, TestFabric};

const APART: FlagPlace = FlagPlace::Apart { group_blocks: 2 };
const C0_BYTES: u32 = 700;

struct Ends<F: TestFabric> {
    fabric: F,
    ends: [Endpoint<F>; 2],
}

impl<F: TestFabric> Ends<F> {
    fn new(flags: FlagPlace, block_count: u32) -> Self {
        Self::with(flags, block_count, Arrival::Flag, Origin::default())
    }

    fn with(flags: FlagPlace, block_count: u32, arrival: Arrival, origin: Origin) -> Self {
        let layout = Layout { block_bytes: 256, block_count, flags };
        let mut fabric = F::new(&Setup { notifications_max: 32, ..Setup::new(layout, 1) });
        fabric.start(origin.blocks);
        let config = Config { c0_bytes: C0_BYTES, arrival, ..Config::default() };
        let ends =
            [0, 1].map(|side| Endpoint::new(&fabric, fabric.attachment(side), config, origin).unwrap());
        Self { fabric, ends }
    }

    fn settle(&mut self) {
        for _ in 0..300 {
            self.fabric.step();
            self.ends.iter_mut().for_each(|end| _ = end.progress(&mut self.fabric));
        }
        self.ends.iter_mut().for_each(|end| end.poll_acknowledgements(&mut self.fabric));
    }

    fn send(&mut self, tag: u64, payload: &[u8]) -> Result<(), RefusedSend> {
        self.ends[0].try_send(&mut self.fabric, tag, &[payload]).map(drop)
    }

    #[track_caller]
    fn loan(&mut self) -> Loan {
        self.ends[1].take_loan(&mut self.fabric).unwrap().unwrap()
    }

    #[track_caller]
    fn holds(&mut self, loan: Loan, payload: &[u8]) {
        let mut whole = vec![0; payload.len()];
        assert_eq!(loan.bytes as usize, payload.len());
        assert!(self.ends[1].copy_from_loan(&mut self.fabric, loan, 0, &mut whole));
        assert_eq!(whole, payload, "{}", F::NAME);
        let half = payload.len() / 2;
        let mut rest = vec![0; payload.len() - half];
        assert!(self.ends[1].copy_from_loan(&mut self.fabric, loan, u32::try_from(half).unwrap(), &mut rest));
        assert_eq!(rest, payload[half..], "{}", F::NAME);
    }

    fn give_back(&mut self, loan: Loan) -> bool {
        self.ends[1].give_back(&mut self.fabric, loan)
    }
}

macro_rules! on_both {
    ($($name:ident)*) => {
        mod direct { $(#[test] fn $name() { super::$name::<super::Direct>(super::APART); })* }
        mod posted { $(#[test] fn $name() { super::$name::<super::Posted>(super::FlagPlace::Inside); })* }
    };
}

on_both! {
    the_oldest_loan_stops_its_direction_and_nothing_else
    later_messages_are_received_while_a_loan_is_held
    a_full_table_is_refused_and_the_message_stays
    what_cannot_be_read_in_place_stays
    a_loan_of_parts_that_are_late_is_refused_and_comes
    a_stale_loan_is_refused
    loans_outlive_the_end_of_the_connection
    a_close_and_keepalives_go_out_while_a_loan_is_held
    a_copy_beyond_the_message_is_refused
}

fn payload(tag: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (tag * 31 + at).to_le_bytes()[0]).collect()
}

fn the_oldest_loan_stops_its_direction_and_nothing_else<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::new(flags, 8);
    t.send(0, &payload(0, 150)).unwrap();
    t.settle();
    let oldest = t.loan();
    for tag in 1..8 {
        t.send(tag, &payload(tag, 150)).unwrap();
        t.settle();
        let loan = t.loan();
        t.holds(loan, &payload(tag, 150));
        assert!(t.give_back(loan));
    }
    t.settle();
    assert_eq!(t.send(8, &payload(8, 150)), Err(RefusedSend::NoCredit), "{}", F::NAME);
    t.holds(oldest, &payload(0, 150));
    // The other direction goes on.
    for tag in 0..20 {
        t.ends[1].try_send(&mut t.fabric, tag, &[&payload(tag, 150)]).unwrap();
        t.settle();
        let mut place = [0; 150];
        let pulled = t.ends[0].pull(&mut t.fabric, &mut [&mut place]);
        assert_eq!((pulled.bytes, pulled.end, &place[..]), (150, End::Fin, &payload(tag, 150)[..]));
        t.settle();
    }
    assert!(t.give_back(oldest));
    t.settle();
    for tag in 8..16 {
        t.send(tag, &payload(tag, 150)).unwrap();
        t.settle();
    }
    assert_eq!(t.send(16, &[]), Err(RefusedSend::NoCredit), "{}", F::NAME);
}

fn later_messages_are_received_while_a_loan_is_held<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::new(flags, 16);
    t.send(1, &payload(1, 500)).unwrap();
    t.send(2, &payload(2, 20)).unwrap();
    t.settle();
    t.send(3, &payload(3, 300)).unwrap();
    t.settle();
    let [one, two] = [t.loan(), t.loan()];
    let mut place = [0; 300];
    let pulled = t.ends[1].pull(&mut t.fabric, &mut [&mut place]);
    assert_eq!((pulled.bytes, pulled.end, &place[..]), (300, End::Fin, &payload(3, 300)[..]));
    assert_eq!([one, two].map(|loan| (t.ends[1].holds_loan(loan), loan.tag)), [(true, 1), (true, 2)]);
    t.settle();
    t.holds(two, &payload(2, 20));
    t.holds(one, &payload(1, 500));
}

fn a_full_table_is_refused_and_the_message_stays<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::new(flags, 32);
    let mut loans = Vec::new();
    for tag in 0..=LOANS_MAX as u64 {
        t.send(tag, &payload(tag, 9)).unwrap();
        t.settle();
        if loans.len() < LOANS_MAX {
            loans.push(t.loan());
        }
    }
    let refused = t.ends[1].take_loan(&mut t.fabric);
    assert!(matches!(refused, Err(RefusedLoan::Full(incoming)) if incoming.tag == LOANS_MAX as u64));
    assert!(t.give_back(loans[3]));
    let newest = t.loan();
    t.holds(newest, &payload(LOANS_MAX as u64, 9));
}

fn what_cannot_be_read_in_place_stays<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::new(flags, 16);
    let stream = t.ends[0].start(1, Length::Stream).unwrap();
    t.ends[0].push(&mut t.fabric, stream, &[&payload(1, 50)]).unwrap();
    t.ends[0].finish(&mut t.fabric, stream).unwrap();
    t.settle();
    assert!(matches!(t.ends[1].take_loan(&mut t.fabric), Err(RefusedLoan::Elsewhere(_))), "{}", F::NAME);
    let mut place = [0; 50];
    let pulled = t.ends[1].pull(&mut t.fabric, &mut [&mut place]);
    assert_eq!((pulled.bytes, &place[..]), (50, &payload(1, 50)[..]));
    t.ends[1].pull(&mut t.fabric, &mut [&mut place]);
    // A message that waits for its CTS.
    let long = payload(2, 1500);
    let id = t.ends[0].start(2, Length::Exact(1500)).unwrap();
    t.ends[0].push(&mut t.fabric, id, &[&long]).unwrap();
    t.settle();
    assert!(matches!(t.ends[1].take_loan(&mut t.fabric), Err(RefusedLoan::Elsewhere(_))), "{}", F::NAME);
    assert_eq!(t.ends[1].head(), Some((2, 1500)));
    t.ends[0].cancel(&mut t.fabric, id, Reason(9)).unwrap();
    let pulled = t.ends[1].pull(&mut t.fabric, &mut [&mut [0; 1500]]);
    t.settle();
    let end = t.ends[1].pull(&mut t.fabric, &mut [&mut []]).end;
    assert!([pulled.end, end].contains(&End::Cancelled(Reason(9))), "{}", F::NAME);
    // One that was taken in part.
    t.send(3, &payload(3, 100)).unwrap();
    t.settle();
    assert_eq!(t.ends[1].pull(&mut t.fabric, &mut [&mut [0; 10]]).bytes, 10);
    assert!(matches!(t.ends[1].take_loan(&mut t.fabric), Err(RefusedLoan::Elsewhere(_))), "{}", F::NAME);
}

/// The message lies around the end of the ring by direct store. By posted writes it is one chunk, whose parts become visible late.
fn a_loan_of_parts_that_are_late_is_refused_and_comes<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::new(flags, 8);
    for tag in 0..6 {
        t.send(tag, &payload(tag, 150)).unwrap();
        t.settle();
        let loan = t.loan();
        assert!(t.give_back(loan));
    }
    t.settle();
    // Room for two blocks is left of the lap.
    let bytes = if F::DIRECT { 700 } else { 430 };
    t.send(6, &payload(6, bytes)).unwrap();
    let mut refused = 0;
    let loan = loop {
        match t.ends[1].take_loan(&mut t.fabric) {
            Ok(Some(loan)) => break loan,
            Ok(None) => t.fabric.step(),
            Err(RefusedLoan::Incomplete(incoming)) => {
                assert_eq!(incoming.tag, 6);
                refused += 1;
                t.fabric.step();
                t.ends[0].progress(&mut t.fabric);
            }
            Err(other) => panic!("{}: {other:?}", F::NAME),
        }
    };
    assert!(F::DIRECT || refused > 0);
    t.holds(loan, &payload(6, bytes));
    let spans = (0..bytes).filter_map(|at| {
        let (.., here) = t.ends[1].loan_span(loan, u32::try_from(at).unwrap())?;
        (here == 1).then_some(())
    });
    assert_eq!(spans.count(), 2, "{}: ends of contiguous spans", F::NAME);
}

fn a_stale_loan_is_refused<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::new(flags, 8);
    t.send(1, &payload(1, 150)).unwrap();
    t.send(2, &payload(2, 20)).unwrap();
    t.settle();
    let stale = t.loan();
    assert!(t.give_back(stale));
    let loan = t.loan();
    assert!(!t.give_back(stale) && !t.ends[1].holds_loan(stale));
    assert!(t.ends[1].loan_span(stale, 0).is_none());
    assert!(!t.ends[1].copy_from_loan(&mut t.fabric, stale, 0, &mut []));
    t.holds(loan, &payload(2, 20));
    assert!(t.give_back(loan) && !t.give_back(loan));
}

fn loans_outlive_the_end_of_the_connection<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::new(flags, 8);
    t.send(1, &payload(1, 150)).unwrap();
    t.settle();
    let loan = t.loan();
    t.ends[0].close(&mut t.fabric, Reason(7));
    t.settle();
    assert!(t.ends[1].closed().is_some(), "{}", F::NAME);
    t.holds(loan, &payload(1, 150));
    assert!(t.give_back(loan));
    assert!(!t.ends[1].holds_loan(loan));
}

fn a_close_and_keepalives_go_out_while_a_loan_is_held<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::new(flags, 8);
    t.send(1, &payload(1, 150)).unwrap();
    t.settle();
    let loan = t.loan();
    let before = t.ends[0].activity();
    t.ends[1].send_keepalive(&mut t.fabric);
    t.settle();
    assert_ne!(t.ends[0].activity(), before, "{}", F::NAME);
    t.ends[1].close(&mut t.fabric, Reason::DONE);
    t.settle();
    assert!(t.ends[0].closed().is_some(), "{}", F::NAME);
    t.holds(loan, &payload(1, 150));
}

fn a_copy_beyond_the_message_is_refused<F: TestFabric>(flags: FlagPlace) {
    let mut t = Ends::<F>::new(flags, 8);
    t.send(1, &payload(1, 150)).unwrap();
    t.settle();
    let loan = t.loan();
    for (offset, bytes) in [(0, 151), (150, 1), (u32::MAX, 1), (151, 0)] {
        let mut place = vec![7; bytes];
        assert!(!t.ends[1].copy_from_loan(&mut t.fabric, loan, offset, &mut place), "{offset} {bytes}");
        assert!(place.iter().all(|byte| *byte == 7));
    }
    assert!(t.ends[1].copy_from_loan(&mut t.fabric, loan, 150, &mut []));
    assert!(t.ends[1].loan_span(loan, 150).is_none());
}

/// Sends as much as goes, and takes, reads and gives back in any order. All loans are compared after each step: nothing is overwritten
/// that is lent, and in the end every block is free again.
fn any_order<F: TestFabric>(flags: FlagPlace, block_count: u32, arrival: Arrival, seed: u64) {
    let origin = if seed.is_multiple_of(2) {
        Origin::default()
    } else {
        let near = u64::MAX - 20;
        Origin { sequence: near, blocks: near, ..Origin::default() }
    };
    let mut t = Ends::<F>::with(flags, block_count, arrival, origin);
    let mut rng = Rng::new(seed);
    let (mut sent, mut next, mut out_of_order) = (Vec::<Vec<u8>>::new(), 0, 0);
    let mut held = Vec::<Loan>::new();
    for _ in 0..600 {
        if rng.below(3) > 0 {
            let bytes = [0, 8, 40, 41, 100, 104, 105, 192, 256, 300, 690][rng.below(11)];
            let message = payload(sent.len() as u64 * 3, bytes);
            match t.send(sent.len() as u64, &message) {
                Ok(()) => sent.push(message),
                Err(refused) => assert!(matches!(refused, RefusedSend::NoCredit | RefusedSend::TooLong)),
            }
        }
        for _ in 0..rng.below(30) {
            t.fabric.step();
            t.ends.iter_mut().for_each(|end| _ = end.progress(&mut t.fabric));
        }
        match rng.below(4) {
            0 | 1 => match t.ends[1].take_loan(&mut t.fabric) {
                Ok(Some(loan)) => {
                    assert_eq!(loan.tag, next, "{}", F::NAME);
                    next += 1;
                    held.push(loan);
                }
                Ok(None) | Err(RefusedLoan::Full(_) | RefusedLoan::Incomplete(_)) => {}
                Err(RefusedLoan::Elsewhere(incoming)) => panic!("{}: {incoming:?}", F::NAME),
            },
            2 if !held.is_empty() => {
                let at = rng.below(held.len());
                out_of_order += usize::from(at > 0);
                let loan = held.remove(at);
                assert!(t.give_back(loan));
            }
            _ if t.ends[1].incoming(&mut t.fabric).is_some() => {
                let mut place = [0; C0_BYTES as usize];
                let mut bytes = 0;
                loop {
                    let pulled = t.ends[1].pull_from(&mut t.fabric, &mut [&mut place], bytes);
                    bytes += pulled.bytes;
                    if pulled.end == End::Fin {
                        break;
                    }
                    t.fabric.step();
                    t.ends[0].progress(&mut t.fabric);
                }
                assert_eq!(place[..bytes], sent[usize::try_from(next).unwrap()], "{}", F::NAME);
                next += 1;
            }
            _ => {}
        }
        for loan in held.clone() {
            t.holds(loan, &sent[usize::try_from(loan.tag).unwrap()]);
        }
    }
    assert!(next > 60 && out_of_order > 20, "{}: {next} and {out_of_order}", F::NAME);
    for loan in held {
        assert!(t.give_back(loan));
    }
    while next < sent.len() as u64 {
        t.settle();
        let loan = t.loan();
        assert!(t.give_back(loan));
        next += 1;
    }
    t.settle();
    assert!(t.ends[0].poll_delivered(), "{}", F::NAME);
    for tag in 0..block_count {
        assert_eq!(t.send(tag.into(), &[]), Ok(()), "{}: every block is free", F::NAME);
        t.settle();
    }
}

#[test]
fn loans_in_any_order_are_what_was_sent() {
    for seed in 0..8 {
        for block_count in [5, 16] {
            any_order::<Direct>(APART, block_count, Arrival::Flag, seed);
            any_order::<Direct>(FlagPlace::Inside, block_count, Arrival::Flag, seed);
            any_order::<Direct>(APART, block_count, Arrival::CheckedFlag, seed);
            for arrival in [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify] {
                any_order::<Posted>(FlagPlace::Inside, block_count, arrival, seed);
            }
        }
    }
}
