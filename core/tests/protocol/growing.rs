//! Landing buffers that grow, with a peer that is played by hand: which control messages are wrong when, and what is done with those
//! that are right. wire.md 2.5, 5.4, 5.5.

use superpipe_core::driver::{Driver, Ended, WaitStrategy};
use superpipe_core::{
    Arrival, Closed, Config, End, Endpoint, Failure, FlagPlace, Layout, Length, Line, Nanos, Origin,
    ProtocolError, Readable, Reason, RefusedSend, control_page,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, GrowthSetup, Memory, Posted, Setup, TestFabric};

const BASE: Layout = Layout { block_bytes: 128, block_count: 4, flags: FlagPlace::Inside };
const LARGEST: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };
/// Word 2 of GROWN for the largest landing buffer.
const LARGEST_WORD: u64 = 256 | 16 << 32;

/// Sequence before the first.
const BEFORE_FIRST: u64 = u64::MAX;

/// End 0 over a fabric whose jobs never fail. The test plays end 1.
struct Victim<F: TestFabric> {
    fabric: F,
    end: Endpoint<F>,
    arrival: Arrival,
    controls: u32,
}

impl<F: TestFabric> Victim<F> {
    fn new(grows: bool) -> Self {
        Self::with(grows, Arrival::Flag, Origin::default())
    }

    fn with(grows: bool, arrival: Arrival, origin: Origin) -> Self {
        let growth = GrowthSetup::new(LARGEST, 4096);
        let fabric = F::new(&Setup { growth: grows.then_some(growth), ..Setup::new(BASE, 1) });
        let config = Config { c0_bytes: 100, folds: 1, arrival, ..Config::default() };
        let end = Endpoint::new(&fabric, fabric.attachment(0), config, origin).unwrap();
        Self { fabric, end, arrival, controls: 0 }
    }

    fn settle(&mut self) {
        for _ in 0..400 {
            self.end.progress(&mut self.fabric);
            self.fabric.step();
        }
        self.end.poll_acknowledgements(&mut self.fabric);
    }

    /// Writes the peer's next control message.
    fn control(&mut self, words: [u64; 5]) {
        let [number, one, two, three, four] = words;
        let flag = u64::from(self.controls) + 1;
        let line = Line([number, one, two, three, four, 0, 0, flag]);
        let line = if self.arrival == Arrival::CheckedFlag { wire::checked(line, flag) } else { line };
        self.fabric.forge(Memory::control_page(0), wire::mailbox(self.controls), &line);
        self.controls += 1;
        self.settle();
    }

    /// Writes a slot line of a landing buffer of the victim.
    fn slot(&mut self, memory: Memory, at: u32, line: Line) {
        self.fabric.forge(memory, at, &line);
        self.settle();
    }

    /// Returns the victim's control message number `number`.
    fn said(&self, number: u32) -> [u64; 5] {
        let Line([number, one, two, three, four, ..]) =
            self.fabric.memories().line(Memory::control_page(1), wire::mailbox(number));
        [number, one, two, three, four]
    }

    #[track_caller]
    fn is_broken(&self, rule: ProtocolError) {
        assert_eq!(self.end.closed(), Some(Closed::Failed(Failure::Protocol(rule))), "{}", F::NAME);
    }

    /// Lets the peer ask for the largest landing buffer, and get it.
    fn granted() -> Self {
        Self::new(true).grant()
    }

    fn grant(self) -> Self {
        let mut t = self;
        t.control([4, 1, 4096, 0, 0]);
        // Epoch 1, place 0 of the victim.
        assert_eq!(t.said(0), [5, 1 | 1 << 32, LARGEST_WORD, 16, 0], "{}", F::NAME);
        assert_eq!(t.end.closed(), None);
        t
    }

    fn pull(&mut self) -> (usize, End) {
        let mut place = [0; 100];
        let pulled = self.end.pull(&mut self.fabric, &mut [&mut place]);
        self.settle();
        (pulled.bytes, pulled.end)
    }
}

macro_rules! on_both {
    ($($test:ident)*) => {
        mod direct {
            $(#[test] fn $test() { super::$test::<super::Direct>() })*
        }
        mod posted {
            $(#[test] fn $test() { super::$test::<super::Posted>() })*
        }
    };
}

on_both! {
    growth_that_was_not_agreed_is_refused
    a_grow_is_answered_once
    a_chunk_in_the_new_epoch_moves_the_receiver
    a_move_is_found_where_zeros_may_be_a_checked_flag
    retired_moves_a_receiver_that_saw_no_chunk
    an_unused_epoch_comes_back
    an_epoch_is_retired_only_once_it_is_consumed
    an_epoch_is_retired_only_once_its_loans_are_given_back
    an_epoch_with_a_loan_that_was_not_left_is_not_retired
    retired_with_a_last_chunk_that_is_a_lie_releases_no_loan
    shrink_makes_the_base_the_next_epoch
    a_grant_must_answer_and_fit
    a_wrong_shrink_is_a_violation
    nothing_is_released_once_the_connection_has_ended
    a_peer_that_is_gone_has_closed_although_its_data_are_in_two_rings
    what_was_not_granted_yet_cannot_be_retired
    landing_buffers_are_counted_until_they_are_released
    a_reservation_that_is_given_up_lets_the_end_move
    an_image_is_made_beside_the_owner_s_landing_buffer
    an_image_of_a_refused_growth_is_released
    a_grant_of_another_layout_gets_an_image_of_its_own
}

fn growth_that_was_not_agreed_is_refused<F: TestFabric>() {
    for words in [[4, 1, 4096, 0, 0], [5, 1, 1, 1, 1], [6, 1, 0, 1, 0], [7, 0, 1, 0, 0], [8, 0, 1, 0, 0]] {
        let mut t = Victim::<F>::new(false);
        t.control(words);
        t.is_broken(ProtocolError::GrowthNotAgreed);
    }
}

fn a_grow_is_answered_once<F: TestFabric>() {
    let mut t = Victim::<F>::granted();
    // The next GROW waits until the granted epoch is in use and the base is retired.
    t.control([4, 2, 8192, 0, 0]);
    assert_eq!(t.end.closed(), None);
    t.control([4, 3, 8192, 0, 0]);
    t.is_broken(ProtocolError::GrowTwice);

    let mut t = Victim::<F>::new(true);
    t.control([4, 1, 100, 0, 0]);
    assert_eq!(t.said(0), [6, 1, 512, 3, 0], "it is as large already");
}

fn a_chunk_in_the_new_epoch_moves_the_receiver<F: TestFabric>() {
    let mut t = Victim::<F>::granted();
    t.slot(Memory::landing(0), BASE.line_at(0), wire::inline(7, b"old", 1));
    assert_eq!(t.pull(), (3, End::Fin));
    t.slot(Memory::grown(0, 0), LARGEST.line_at(0), wire::inline(7, b"first", 2));
    assert_eq!(t.pull(), (5, End::Fin));
    t.slot(Memory::grown(0, 0), LARGEST.line_at(1), wire::inline(7, b"second", 3));
    assert_eq!(t.pull(), (6, End::Fin));
    assert!(t.end.has_grown());
    t.control([8, 0, 1, 0, 0]);
    assert_eq!(t.end.closed(), None, "{}", F::NAME);
    t.control([8, 0, 1, 0, 0]);
    t.is_broken(ProtocolError::RetiredUnknown);
}

/// The upper half of a checked flag has 32 bits of the sequence, and these are zero in memory that nothing was written to.
fn a_move_is_found_where_zeros_may_be_a_checked_flag<F: TestFabric>() {
    for sequence in [1 << 32, 7 << 32] {
        let origin = Origin { sequence, ..Origin::default() };
        let mut t = Victim::<F>::with(true, Arrival::CheckedFlag, origin).grant();
        let line = |payload, sequence| wire::checked(wire::inline(7, payload, 0), sequence);
        t.slot(Memory::grown(0, 0), LARGEST.line_at(0), line(b"first", sequence));
        assert_eq!(t.pull(), (5, End::Fin), "{}", F::NAME);
        t.slot(Memory::grown(0, 0), LARGEST.line_at(1), line(b"second", sequence + 1));
        assert_eq!(t.pull(), (6, End::Fin), "{}", F::NAME);
    }
}

fn retired_moves_a_receiver_that_saw_no_chunk<F: TestFabric>() {
    let mut t = Victim::<F>::granted();
    t.control([8, 0, BEFORE_FIRST, 0, 0]);
    assert!(t.end.has_grown() && t.end.is_growth_steady(), "{}", F::NAME);
    t.slot(Memory::grown(0, 0), LARGEST.line_at(0), wire::inline(7, b"first", 1));
    assert_eq!(t.pull(), (5, End::Fin));
}

fn landing_buffers_are_counted_until_they_are_released<F: TestFabric>() {
    let bytes = u64::from(LARGEST.bytes());
    let mut t = Victim::<F>::granted();
    assert_eq!(t.end.counters().landing_bytes, [0, bytes, 0], "{}", F::NAME);
    t.control([8, 0, BEFORE_FIRST, 0, 0]);
    let counters = t.end.counters();
    assert_eq!((counters.landing_bytes, counters.landing_bytes_peak), ([bytes, 0, 0], bytes), "{}", F::NAME);
    assert_eq!((counters.growths, counters.refusals, counters.releases), (1, [0; 3], 0), "{}", F::NAME);
    assert!(counters.jobs_ns > 0 && counters.jobs_failed == 0, "{}", F::NAME);
    assert_eq!((counters.jobs, counters.jobs_visible_ns), (1, counters.jobs_ns), "{}", F::NAME);

    // Only one GROWN or GROW-REFUSED may be unacknowledged.
    t.fabric.forge(Memory::control_page(0), control_page::ACK, &wire::ack(0, 1, 0));
    t.control([4, 2, 100, 0, 0]);
    assert_eq!(t.end.counters().refusals, [0, 0, 1], "{}", F::NAME);
    assert!(t.end.shrink());
    t.settle();
    t.slot(Memory::landing(0), BASE.line_at(0), wire::inline(7, b"back", 1));
    assert_eq!(t.pull(), (4, End::Fin));
    t.control([8, 1, BEFORE_FIRST, 0, 0]);
    let counters = t.end.counters();
    assert_eq!((counters.landing_bytes, counters.landing_bytes_peak), ([0; 3], bytes), "{}", F::NAME);
    assert_eq!((counters.growths, counters.shrinks, counters.releases), (1, 1, 1), "{}", F::NAME);
    t.end.reset_counters();
    let counters = t.end.counters();
    assert_eq!((counters.growths, counters.landing_bytes_peak), (0, bytes), "{}", F::NAME);
}

fn an_unused_epoch_comes_back<F: TestFabric>() {
    let mut t = Victim::<F>::granted();
    assert!(t.fabric.grown_bytes() > 0);
    t.control([8, 1, 0, 0, 0]);
    assert_eq!((t.fabric.grown_bytes(), t.end.is_growth_steady()), (0, true), "{}", F::NAME);
    t.slot(Memory::landing(0), BASE.line_at(0), wire::inline(7, b"here", 1));
    assert_eq!(t.pull(), (4, End::Fin));
    // Only one GROWN may be unacknowledged.
    t.fabric.forge(Memory::control_page(0), control_page::ACK, &wire::ack(0, 1, 0));
    t.control([4, 2, 4096, 0, 0]);
    assert_eq!(t.said(1)[1], 2 | 2 << 32, "the next epoch has the next number");
}

fn an_epoch_is_retired_only_once_it_is_consumed<F: TestFabric>() {
    let mut t = Victim::<F>::granted();
    t.slot(Memory::landing(0), BASE.line_at(0), wire::inline(7, b"unread", 1));
    t.control([8, 0, 1, 0, 0]);
    t.is_broken(ProtocolError::RetiredEarly);

    // The receiver has read the header behind the chunk that RETIRED names, in the epoch that was left.
    let mut t = Victim::<F>::granted();
    t.slot(Memory::landing(0), BASE.line_at(0), wire::inline(7, b"one", 1));
    assert_eq!(t.pull(), (3, End::Fin));
    let header = wire::chunk(kind::RTS, 7, 300, 60, 2, 2);
    t.slot(Memory::landing(0), BASE.line_at(1), header);
    assert!(t.end.incoming(&mut t.fabric).is_some());
    t.control([8, 0, 1, 0, 0]);
    t.is_broken(ProtocolError::RetiredEarly);
}

/// Returns the count of blocks that the victim has acknowledged.
fn acknowledged<F: TestFabric>(t: &Victim<F>) -> u64 {
    t.fabric.memories().line(Memory::control_page(1), control_page::ACK).0[0]
}

fn an_epoch_is_retired_only_once_its_loans_are_given_back<F: TestFabric>() {
    for gives_back in [true, false] {
        let mut t = Victim::<F>::granted();
        t.slot(Memory::landing(0), BASE.line_at(0), wire::inline(7, b"lent", 1));
        let loan = t.end.take_loan(&mut t.fabric).unwrap().unwrap();
        t.slot(Memory::grown(0, 0), LARGEST.line_at(0), wire::inline(7, b"first", 2));
        assert_eq!(t.pull(), (5, End::Fin));
        t.slot(Memory::grown(0, 0), LARGEST.line_at(1), wire::inline(7, b"second", 3));
        assert_eq!(t.pull(), (6, End::Fin), "{}: later messages come meanwhile", F::NAME);
        assert_eq!(acknowledged(&t), 0, "{}", F::NAME);
        if gives_back {
            assert!(t.end.give_back(&mut t.fabric, loan));
            t.settle();
            assert_eq!(acknowledged(&t), 3, "{}", F::NAME);
            t.control([8, 0, 1, 0, 0]);
            assert_eq!(t.end.closed(), None, "{}", F::NAME);
        } else {
            t.control([8, 0, 1, 0, 0]);
            t.is_broken(ProtocolError::RetiredEarly);
            let mut place = [0; 4];
            assert!(t.end.copy_from_loan(&mut t.fabric, loan, 0, &mut place));
            assert_eq!(place, *b"lent", "{}: its memory is there as long as the connection", F::NAME);
        }
    }
}

fn an_epoch_with_a_loan_that_was_not_left_is_not_retired<F: TestFabric>() {
    let mut t = Victim::<F>::granted();
    t.slot(Memory::landing(0), BASE.line_at(0), wire::inline(7, b"lent", 1));
    assert!(t.end.take_loan(&mut t.fabric).unwrap().is_some());
    t.control([8, 0, 1, 0, 0]);
    t.is_broken(ProtocolError::RetiredEarly);
}

/// A hostile peer names a chunk before the one that is lent, which it sent into the same epoch.
fn retired_with_a_last_chunk_that_is_a_lie_releases_no_loan<F: TestFabric>() {
    let mut t = Victim::<F>::granted();
    t.control([8, 0, BEFORE_FIRST, 0, 0]);
    t.slot(Memory::grown(0, 0), LARGEST.line_at(0), wire::inline(7, b"read", 1));
    assert_eq!(t.pull(), (4, End::Fin));
    t.slot(Memory::grown(0, 0), LARGEST.line_at(1), wire::inline(7, b"lent", 2));
    let loan = t.end.take_loan(&mut t.fabric).unwrap().unwrap();
    assert!(t.end.shrink());
    t.settle();
    t.slot(Memory::landing(0), BASE.line_at(0), wire::inline(7, b"back", 3));
    assert_eq!(t.pull(), (4, End::Fin));
    assert!(t.fabric.grown_bytes() > 0);
    t.control([8, 1, 1, 0, 0]);
    assert!(t.fabric.grown_bytes() > 0, "{}: memory was released in which a loan lies", F::NAME);
    let mut place = [0; 4];
    assert!(t.end.copy_from_loan(&mut t.fabric, loan, 0, &mut place));
    assert_eq!(place, *b"lent", "{}", F::NAME);
    t.is_broken(ProtocolError::RetiredEarly);
}

fn shrink_makes_the_base_the_next_epoch<F: TestFabric>() {
    let mut t = Victim::<F>::granted();
    t.control([8, 0, BEFORE_FIRST, 0, 0]);
    assert!(t.end.shrink());
    t.settle();
    assert_eq!(t.said(1), [7, 1, 2, 0, 0], "{}", F::NAME);
    t.slot(Memory::landing(0), BASE.line_at(0), wire::inline(7, b"back", 1));
    assert_eq!(t.pull(), (4, End::Fin));
    t.control([8, 1, BEFORE_FIRST, 0, 0]);
    assert_eq!((t.end.has_grown(), t.fabric.grown_bytes()), (false, 0), "{}", F::NAME);
    assert!(!t.end.shrink(), "there is nothing to shrink");
}

/// A victim that has sent GROW for a message that does not fit its ring.
fn asking<F: TestFabric>() -> Victim<F> {
    let mut t = Victim::<F>::new(true);
    t.end.start(7, Length::Exact(5000)).unwrap();
    t.settle();
    assert_eq!(t.said(0), [4, 1, 4096, 1, 0], "{}", F::NAME);
    t
}

fn a_grant_must_answer_and_fit<F: TestFabric>() {
    let wrong_layouts =
        [0, 256, 1 << 32, 100 | 16 << 32, 256 | 17 << 32, 1 << 20 | 16 << 32, LARGEST_WORD | 1 << 63];
    for layout in wrong_layouts {
        let mut t = asking::<F>();
        t.control([5, 1 | 1 << 32, layout, 16, 0]);
        t.is_broken(ProtocolError::GrantInvalid);
    }
    let mut t = asking::<F>();
    t.control([5, 1 | 2 << 32, LARGEST_WORD, 16, 0]);
    t.is_broken(ProtocolError::GrantInvalid);
    for words in [[5, 2 | 1 << 32, LARGEST_WORD, 16, 0], [6, 2, 0, 1, 0]] {
        let mut t = asking::<F>();
        t.control(words);
        t.is_broken(ProtocolError::GrowAnswer);
    }
    let mut t = Victim::<F>::new(true);
    t.control([6, 0, 0, 1, 0]);
    t.is_broken(ProtocolError::GrowAnswer);

    // A claim to memory that cannot be: the epoch is given back.
    let mut t = asking::<F>();
    t.control([5, 1 | 1 << 32, LARGEST_WORD, 16, 9]);
    assert_eq!((t.said(1), t.end.closed()), ([8, 1, 0, 0, 0], None), "{}", F::NAME);
}

/// Bytes of images, which only posted writes have.
const fn image_bytes<F: TestFabric>(layout: Layout) -> u64 {
    if F::DIRECT { 0 } else { layout.bytes() as u64 }
}

fn an_image_is_made_beside_the_owner_s_landing_buffer<F: TestFabric>() {
    let mut t = asking::<F>();
    assert_eq!(t.fabric.grown_bytes(), image_bytes::<F>(LARGEST), "{}: before the grant", F::NAME);
    assert_eq!(t.end.counters().moves, 0, "{}", F::NAME);
    t.control([5, 1 | 1 << 32, LARGEST_WORD, 16, 0]);
    let counters = t.end.counters();
    assert_eq!((counters.moves, counters.jobs), (1, 1), "{}: it is the image of the epoch", F::NAME);
    assert_eq!(t.fabric.grown_bytes(), image_bytes::<F>(LARGEST), "{}", F::NAME);
}

fn an_image_of_a_refused_growth_is_released<F: TestFabric>() {
    let mut t = asking::<F>();
    t.control([6, 1, 0, 1, 0]);
    assert_eq!((t.fabric.grown_bytes(), t.end.is_growth_steady()), (0, true), "{}", F::NAME);
    assert_eq!((t.end.counters().moves, t.end.closed()), (0, None), "{}", F::NAME);
}

fn a_grant_of_another_layout_gets_an_image_of_its_own<F: TestFabric>() {
    let granted = Layout { block_count: 8, ..LARGEST };
    let mut t = asking::<F>();
    t.control([5, 1 | 1 << 32, 256 | 8 << 32, 8, 0]);
    assert_eq!((t.end.counters().moves, t.end.closed()), (1, None), "{}", F::NAME);
    assert_eq!(t.fabric.grown_bytes(), image_bytes::<F>(granted), "{}", F::NAME);
}

fn a_wrong_shrink_is_a_violation<F: TestFabric>() {
    // The base cannot be left.
    let mut t = Victim::<F>::new(true);
    t.control([7, 0, 1, 0, 0]);
    t.is_broken(ProtocolError::ShrinkWrong);
    let mut t = asking::<F>();
    t.control([7, 0, 1, 0, 0]);
    t.is_broken(ProtocolError::ShrinkWrong);
}

fn nothing_is_released_once_the_connection_has_ended<F: TestFabric>() {
    let mut t = Victim::<F>::granted();
    t.slot(Memory::grown(0, 0), LARGEST.line_at(0), wire::inline(7, b"first", 1));
    assert_eq!(t.pull(), (5, End::Fin));
    t.control([8, 0, BEFORE_FIRST, 0, 0]);
    assert!(t.end.shrink());
    t.settle();
    t.slot(Memory::grown(0, 0), LARGEST.line_at(1), wire::inline(7, b"shown", 2));
    let Readable::Run(run) = t.end.readable(&mut t.fabric, 100) else { panic!("it is there") };
    let grown_bytes = t.fabric.grown_bytes();
    t.control([99, 0, 0, 0, 0]);
    t.is_broken(ProtocolError::UnknownControl);
    t.control([8, 1, 1, 0, 0]);
    assert_eq!(t.fabric.grown_bytes(), grown_bytes, "{}", F::NAME);
    let shown: Vec<u8> =
        run.spans().flat_map(|(at, bytes)| t.fabric.visible(run.memory, at, bytes).to_vec()).collect();
    assert_eq!(shown, b"shown", "{}", F::NAME);
}

fn a_peer_that_is_gone_has_closed_although_its_data_are_in_two_rings<F: TestFabric>() {
    let mut t = Victim::<F>::granted();
    for sequence in 1..=3 {
        let at = BASE.line_at(sequence - 1);
        t.fabric.forge(Memory::landing(0), at, &wire::inline(7, b"old", u64::from(sequence)));
    }
    for sequence in 4..=13 {
        let at = LARGEST.line_at(sequence - 4);
        t.fabric.forge(Memory::grown(0, 0), at, &wire::inline(7, b"new", u64::from(sequence)));
    }
    t.control([3, 0, 13, 0, 0]);
    let Victim { mut fabric, end, .. } = t;
    let mut driver = Driver::new(end, 1, WaitStrategy::Yield, 1_000_000_000, Nanos(0));
    driver.note_peer_gone();
    assert_eq!(driver.ended(&fabric), Some(Ended::Closed(Closed::ByPeer(Reason::DONE))), "{}", F::NAME);
    let mut place = [0; 40];
    for _ in 0..13 {
        let taken = driver.try_recv(&mut fabric, &mut [&mut place]).unwrap().unwrap();
        assert_eq!((taken.tag, taken.bytes), (7, 3), "{}", F::NAME);
    }
}

fn what_was_not_granted_yet_cannot_be_retired<F: TestFabric>() {
    let mut t = Victim::<F>::granted();
    t.control([8, 1, 0, 0, 0]);
    // The next GROWN waits, since the first one is not acknowledged.
    t.control([4, 2, 4096, 0, 0]);
    assert_eq!(t.said(1), [0; 5]);
    t.control([8, 2, 0, 0, 0]);
    t.is_broken(ProtocolError::RetiredUnknown);

    let mut t = Victim::<F>::granted();
    t.control([8, 1, 0, 0, 0]);
    t.control([4, 2, 4096, 0, 0]);
    t.control([4, 3, 4096, 0, 0]);
    t.is_broken(ProtocolError::GrowTwice);
}

fn a_reservation_that_is_given_up_lets_the_end_move<F: TestFabric>() {
    let mut t = Victim::<F>::new(true);
    let id = t.end.start(7, Length::Exact(5000)).unwrap();
    t.settle();
    assert_eq!(t.said(0)[0], 4, "{}", F::NAME);
    t.end.reserve(&mut t.fabric, id, 10).unwrap();
    t.control([5, 1 | 1 << 32, LARGEST_WORD, 16, 0]);
    assert_eq!(t.end.counters().moves, 0, "{}: the application fills blocks in place", F::NAME);
    t.end.unreserve(id);
    t.settle();
    assert_eq!((t.end.counters().moves, t.end.closed()), (1, None), "{}", F::NAME);
    assert_eq!(t.end.commit(&mut t.fabric, id, 1), Err(RefusedSend::WrongLength), "{}", F::NAME);
}
