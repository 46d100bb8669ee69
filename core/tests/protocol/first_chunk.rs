//! The first chunk of a transfer: with its RTS, copied during the rendezvous, or after the CTS. Denis, section 4.

use superpipe_core::{
    Config, Endpoint, FirstChunk, FlagPlace, Layout, Length, Line, Origin, Protocol, Reason, RefusedSend,
    Sending, TransferId, control_page,
};
use superpipe_testkit::{Direct, Memory, Posted, Setup, TestFabric, wire};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 64, flags: FlagPlace::Inside };
/// One block, and two thirds of another one.
const C0_BYTES: u32 = 400;
const C0: usize = C0_BYTES as usize;

/// End 0 has started a transfer; the peer is this test.
struct Sender<F: TestFabric> {
    fabric: F,
    end: Endpoint<F>,
    id: TransferId,
    payload: Vec<u8>,
    pushed: usize,
}

impl<F: TestFabric> Sender<F> {
    fn new(first_chunk: FirstChunk, length: Length) -> Self {
        Self::with(LAYOUT.block_count, Config { folds: 4, first_chunk, ..Config::default() }, length)
    }

    fn with(block_count: u32, config: Config, length: Length) -> Self {
        let config = Config { c0_bytes: C0_BYTES, ..config };
        let layout = Layout { block_count, ..LAYOUT };
        let fabric = F::new(&Setup { send_queue: 64, ..Setup::new(layout, 1) });
        let mut end = Endpoint::new(&fabric, fabric.attachment(0), config, Origin::default()).unwrap();
        let id = end.start(1, length).unwrap();
        let payload = (0..9000_u32).map(|at| (at % 251) as u8).collect();
        Self { fabric, end, id, payload, pushed: 0 }
    }

    /// Pushes the next `bytes` bytes, and returns how many were taken.
    fn push(&mut self, bytes: usize) -> usize {
        let part = &self.payload[self.pushed..self.pushed + bytes];
        let taken = self.end.push(&mut self.fabric, self.id, &[part]).unwrap();
        self.pushed += taken;
        self.progress();
        taken
    }

    fn progress(&mut self) {
        for _ in 0..500 {
            self.end.progress(&mut self.fabric);
            self.fabric.step();
        }
    }

    fn answer(&mut self) {
        self.fabric.forge(Memory::control_page(0), wire::mailbox(0), &wire::cts(1, 1));
        self.progress();
    }

    /// Returns the headers of the chunks that the peer sees.
    fn headers(&self) -> Vec<Line> {
        let (mut lines, mut block) = (Vec::new(), 0);
        loop {
            let line = self.fabric.memories().line(Memory::landing(1), LAYOUT.line_at(block));
            if line == Line::default() {
                return lines;
            }
            lines.push(line);
            block += LAYOUT.blocks_for(u32::try_from(line.0[3]).unwrap());
        }
    }

    /// Returns the sizes of the chunks that the peer sees.
    fn chunks(&self) -> Vec<u64> {
        self.headers().iter().map(|line| line.0[3]).collect()
    }
}

fn is_prepared_until_the_cts<F: TestFabric>() {
    let mut t = Sender::<F>::new(FirstChunk::DuringRendezvous, Length::Exact(9000));
    assert_eq!(t.push(9000), C0, "{}", F::NAME);
    assert_eq!(t.chunks(), [0], "{}: the RTS alone", F::NAME);
    assert_eq!(t.push(1000), 0, "{}", F::NAME);
    assert!(!t.end.poll_delivered(), "{}", F::NAME);
    t.answer();
    assert_eq!(t.chunks(), [0, 400], "{}: a round of progress sends it", F::NAME);
    assert_eq!(t.push(2000), 2000, "{}", F::NAME);
    // q is 1.5: the RTS is no chunk of the schedule.
    assert_eq!(t.chunks(), [0, 400, 600, 900, 500], "{}", F::NAME);
    assert_eq!(t.end.counters().bytes_sent, 2400, "{}", F::NAME);
}

#[test]
fn a_first_chunk_is_prepared_until_the_cts() {
    is_prepared_until_the_cts::<Direct>();
    is_prepared_until_the_cts::<Posted>();
}

fn waits_for_the_cts<F: TestFabric>() {
    let mut t = Sender::<F>::new(FirstChunk::AfterCts, Length::Exact(9000));
    assert_eq!(t.push(9000), 0, "{}", F::NAME);
    assert_eq!(t.chunks(), [0], "{}", F::NAME);
    t.answer();
    assert_eq!(t.chunks(), [0], "{}", F::NAME);
    assert_eq!(t.push(1500), 1500, "{}", F::NAME);
    assert_eq!(t.chunks(), [0, 400, 600, 500], "{}", F::NAME);
}

#[test]
fn a_first_chunk_waits_for_the_cts() {
    waits_for_the_cts::<Direct>();
    waits_for_the_cts::<Posted>();
}

fn no_cts_is_asked<F: TestFabric>() {
    let mut t = Sender::<F>::new(FirstChunk::WithoutCts, Length::Exact(9000));
    assert_eq!(t.push(2000), 2000, "{}", F::NAME);
    assert_eq!(t.chunks(), [400, 600, 900, 100], "{}", F::NAME);
    // A CTS that was not asked for is a violation.
    assert_eq!(t.end.state().sending, Sending::Underway, "{}", F::NAME);
    // Remote writes need one, so messages that may go by them ask for it.
    assert_eq!(t.end.cancel(&mut t.fabric, t.id, Reason(1)), Ok(()));
    t.end.set_protocol(Protocol::Register);
    t.id = t.end.start(1, Length::Exact(9000)).unwrap();
    assert_eq!(t.push(2000), C0, "{}", F::NAME);
}

#[test]
fn without_a_rendezvous_no_cts_is_asked() {
    no_cts_is_asked::<Direct>();
    no_cts_is_asked::<Posted>();
}

/// A short message needs no CTS.
fn goes_at_once_if_it_is_all<F: TestFabric>(first_chunk: FirstChunk) {
    let mut t = Sender::<F>::new(first_chunk, Length::Exact(C0 as u64));
    assert_eq!(t.push(C0), C0, "{}", F::NAME);
    assert_eq!(t.chunks(), [400], "{}", F::NAME);
}

#[test]
fn a_message_of_c0_bytes_waits_for_nothing() {
    for first_chunk in FirstChunk::ALL {
        goes_at_once_if_it_is_all::<Direct>(first_chunk);
        goes_at_once_if_it_is_all::<Posted>(first_chunk);
    }
}

fn part_of_a_stream_is_prepared<F: TestFabric>() {
    let mut t = Sender::<F>::new(FirstChunk::DuringRendezvous, Length::Stream);
    assert_eq!([t.push(10), t.push(10)], [10, 0], "{}", F::NAME);
    assert_eq!(t.end.finish(&mut t.fabric, t.id), Err(RefusedSend::NoCredit), "{}", F::NAME);
    t.answer();
    assert_eq!(t.chunks(), [0, 10], "{}", F::NAME);
    assert_eq!(t.end.finish(&mut t.fabric, t.id), Ok(()), "{}", F::NAME);
}

#[test]
fn a_part_of_a_stream_is_prepared() {
    part_of_a_stream_is_prepared::<Direct>();
    part_of_a_stream_is_prepared::<Posted>();
}

/// The end of a stream sends what is prepared before itself.
fn end_follows_what_is_prepared<F: TestFabric>() {
    let mut t = Sender::<F>::new(FirstChunk::DuringRendezvous, Length::Stream);
    assert_eq!(t.push(10), 10, "{}", F::NAME);
    t.fabric.forge(Memory::control_page(0), wire::mailbox(0), &wire::cts(1, 1));
    assert_eq!(t.end.finish(&mut t.fabric, t.id), Ok(()), "{}", F::NAME);
    t.progress();
    assert_eq!(t.chunks(), [0, 10, 0], "{}", F::NAME);
}

#[test]
fn the_end_of_a_stream_follows_what_is_prepared() {
    end_follows_what_is_prepared::<Direct>();
    end_follows_what_is_prepared::<Posted>();
}

fn reservation_is_prepared<F: TestFabric>() {
    let mut t = Sender::<F>::new(FirstChunk::DuringRendezvous, Length::Exact(9000));
    let reserved = t.end.reserve(&mut t.fabric, t.id, 9000).unwrap();
    assert_eq!(reserved.bytes(), C0_BYTES, "{}", F::NAME);
    assert_eq!(t.end.commit(&mut t.fabric, t.id, 300), Ok(()), "{}", F::NAME);
    t.end.unreserve(t.id);
    t.progress();
    assert_eq!(t.chunks(), [0], "{}", F::NAME);
    assert_eq!(t.end.reserve(&mut t.fabric, t.id, 9000).map(|_| ()), Err(RefusedSend::NoCredit));
    t.answer();
    assert_eq!(t.chunks(), [0, 300], "{}", F::NAME);
    // One that is reserved during the rendezvous and filled after it is sent as it is.
    let mut t = Sender::<F>::new(FirstChunk::DuringRendezvous, Length::Exact(9000));
    assert!(t.end.reserve(&mut t.fabric, t.id, 9000).is_ok(), "{}", F::NAME);
    t.answer();
    assert_eq!(t.end.commit(&mut t.fabric, t.id, 400), Ok(()), "{}", F::NAME);
    t.progress();
    assert_eq!(t.chunks(), [0, 400], "{}", F::NAME);
}

#[test]
fn a_reservation_is_prepared() {
    reservation_is_prepared::<Direct>();
    reservation_is_prepared::<Posted>();
}

fn cancel_drops_what_is_prepared<F: TestFabric>() {
    let mut t = Sender::<F>::new(FirstChunk::DuringRendezvous, Length::Exact(9000));
    assert_eq!(t.push(9000), C0, "{}", F::NAME);
    assert_eq!(t.end.cancel(&mut t.fabric, t.id, Reason(9)), Ok(()), "{}", F::NAME);
    t.answer();
    assert_eq!(t.end.counters().bytes_sent, 0, "{}", F::NAME);
    assert!(t.end.start(2, Length::Exact(1)).is_ok(), "{}: CANCEL is in the ring", F::NAME);
}

#[test]
fn a_cancel_drops_what_is_prepared() {
    cancel_drops_what_is_prepared::<Direct>();
    cancel_drops_what_is_prepared::<Posted>();
}

/// Other protocols have no C0, and messages that go in blocks in spite of theirs have one.
#[test]
fn only_growing_chunks_have_a_prepared_one() {
    for protocol in Protocol::ALL {
        let prepares = matches!(
            protocol,
            Protocol::Superpipeline | Protocol::Register | Protocol::RegisterCached | Protocol::Auto
        );
        let mut t = Sender::<Posted>::new(FirstChunk::DuringRendezvous, Length::Exact(9000));
        assert_eq!(t.end.cancel(&mut t.fabric, t.id, Reason(1)), Ok(()));
        t.end.set_protocol(protocol);
        t.id = t.end.start(1, Length::Exact(9000)).unwrap();
        let taken = t.push(9000);
        let is_awaited = !matches!(protocol, Protocol::Eager | Protocol::Provision);
        assert_eq!(taken == C0, prepares, "{protocol}: {taken}");
        assert_eq!(t.end.counters().bytes_sent == 0, is_awaited, "{protocol}");
    }
}

/// A chunk is prepared in no block that is kept for CANCEL.
fn cancel_has_its_block<F: TestFabric>() {
    let config = Config { folds: 1, first_chunk: FirstChunk::DuringRendezvous, ..Config::default() };
    let mut t = Sender::<F>::with(2, config, Length::Exact(9000));
    assert_eq!(t.push(100), 0, "{}: the RTS has one block, CANCEL the other one", F::NAME);
    t.answer();
    assert_eq!(t.end.cancel(&mut t.fabric, t.id, Reason(9)), Ok(()), "{}", F::NAME);
    t.progress();
    assert_eq!(t.end.state().sending, Sending::Nothing, "{}: CANCEL waits for the reader", F::NAME);
}

#[test]
fn a_prepared_chunk_leaves_a_block_for_cancel() {
    cancel_has_its_block::<Direct>();
    cancel_has_its_block::<Posted>();
}

/// What is prepared is never sent, so nothing waits for its delivery.
fn reject_drops_what_is_prepared<F: TestFabric>() {
    let mut t = Sender::<F>::new(FirstChunk::DuringRendezvous, Length::Exact(9000));
    assert_eq!(t.push(9000), C0, "{}", F::NAME);
    t.fabric.forge(Memory::control_page(0), wire::mailbox(0), &wire::reject(1, 5, 1));
    t.progress();
    assert!(!t.end.poll_delivered(), "{}: RTS and CANCEL are not acknowledged", F::NAME);
    t.fabric.forge(Memory::control_page(0), control_page::ACK, &wire::ack(2, u64::MAX, 0));
    t.progress();
    assert!(t.end.poll_delivered(), "{}", F::NAME);
    let refused = t.end.push(&mut t.fabric, t.id, &[&[7]]);
    assert_eq!(refused, Err(RefusedSend::Rejected(Reason(5))), "{}", F::NAME);
}

#[test]
fn a_reject_drops_what_is_prepared() {
    reject_drops_what_is_prepared::<Direct>();
    reject_drops_what_is_prepared::<Posted>();
}
