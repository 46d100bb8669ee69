//! Acknowledgements of what was taken out (wire.md 4.6): at once where someone waits for it, and later where it would only
//! be in the way.

use superpipe_core::{Config, End, Endpoint, FlagPlace, Layout, Length, Origin, RefusedSend};
use superpipe_testkit::{Direct, Posted, Setup, TestFabric};

const BLOCKS: u32 = 32;
const LAYOUT: Layout = Layout { block_bytes: 256, block_count: BLOCKS, flags: FlagPlace::Inside };
/// Three blocks take a message of so many bytes, and four one of more than that.
const C0_BYTES: u32 = 600;
/// More steps and rounds than anything here takes, but fewer empty ones than let a due acknowledgement out.
const STEPS: usize = 100;
/// More empty rounds than that.
const ROUNDS: usize = 300;

struct Ends<F: TestFabric> {
    fabric: F,
    sender: Endpoint<F>,
    receiver: Endpoint<F>,
}

impl<F: TestFabric> Ends<F> {
    fn new() -> Self {
        let fabric = F::new(&Setup::new(LAYOUT, 1));
        let [sender, receiver] = [0, 1].map(|side| {
            let config = Config { c0_bytes: C0_BYTES, ..Config::default() };
            Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap()
        });
        Self { fabric, sender, receiver }
    }

    /// All that was posted arrives; the receiver does nothing meanwhile.
    fn arrive(&mut self) {
        for _ in 0..STEPS {
            self.sender.progress(&mut self.fabric);
            self.fabric.step();
        }
    }

    /// Takes the message at the head, which has arrived, without a round of progress.
    fn take(&mut self, bytes: usize) {
        let mut place = vec![0; bytes];
        let pulled = self.receiver.pull(&mut self.fabric, &mut [&mut place]);
        assert_eq!((pulled.bytes, pulled.end), (bytes, End::Fin), "{}", F::NAME);
    }

    fn send_and_take(&mut self, bytes: usize) {
        self.sender.try_send(&mut self.fabric, 1, &[&vec![7; bytes]]).unwrap();
        self.arrive();
        self.take(bytes);
    }

    fn acks(&self) -> u64 {
        self.receiver.counters().acks_sent
    }
}

fn the_end_of_a_stream_is_acknowledged_at_once<F: TestFabric>() {
    let mut ends = Ends::<F>::new();
    let id = ends.sender.start(1, Length::Stream).unwrap();
    assert_eq!(ends.sender.push(&mut ends.fabric, id, &[&[7; 100]]), Ok(100));
    ends.sender.finish(&mut ends.fabric, id).unwrap();
    ends.arrive();
    ends.take(100);
    assert_eq!(ends.acks(), 1, "{}", F::NAME);
}

fn the_end_of_a_long_message_is_acknowledged_at_once<F: TestFabric>() {
    let mut ends = Ends::<F>::new();
    let message = vec![7; C0_BYTES as usize + 1];
    let id = ends.sender.start(1, Length::Exact(message.len() as u64)).unwrap();
    let (mut place, mut sent, mut taken) = (vec![0; message.len()], 0, 0);
    for _ in 0..STEPS {
        if sent < message.len() {
            sent += ends.sender.push(&mut ends.fabric, id, &[&message[sent..]]).unwrap();
        }
        ends.sender.progress(&mut ends.fabric);
        ends.fabric.step();
        let acks = ends.acks();
        let pulled = ends.receiver.pull(&mut ends.fabric, &mut [&mut place[taken..]]);
        taken += pulled.bytes;
        if pulled.end == End::Fin {
            assert_eq!((taken, ends.acks()), (message.len(), acks + 1), "{}", F::NAME);
            return;
        }
    }
    panic!("{}: it came to no end", F::NAME);
}

/// A message of up to C0 bytes: `at_once` acknowledgements by what took it, and one once it is asked for.
fn a_short_message_is_acknowledged<F: TestFabric>(at_once: u64) {
    let mut ends = Ends::<F>::new();
    ends.send_and_take(C0_BYTES as usize);
    assert_eq!(ends.acks(), at_once, "{}", F::NAME);
    for _ in 0..2 {
        ends.receiver.acknowledge(&mut ends.fabric);
        assert_eq!(ends.acks(), 1, "{}: asked for, and only while it is due", F::NAME);
    }
    ends.arrive();
    ends.sender.poll_acknowledgements(&mut ends.fabric);
    assert!(ends.sender.poll_delivered(), "{}", F::NAME);
}

/// One in a line: wherever it came, its end is not worth an acknowledgement.
fn empty_rounds_let_an_acknowledgement_out<F: TestFabric>(rounds_min: usize) {
    let mut ends = Ends::<F>::new();
    for _ in 0..2 {
        // Those before a message do not count.
        for _ in 1..rounds_min {
            ends.receiver.progress(&mut ends.fabric);
        }
        ends.send_and_take(8);
    }
    for round in 0..ROUNDS {
        assert_eq!(ends.acks(), 0, "{}, round {round}", F::NAME);
        ends.receiver.progress(&mut ends.fabric);
        if ends.acks() == 1 {
            assert!(round >= rounds_min, "{}: already in round {round}", F::NAME);
            return;
        }
    }
    panic!("{}: nobody learns that the message was taken", F::NAME);
}

/// `acks` acknowledgements for each time that the ring is gone through.
fn blocks_come_back_before_the_ring_is_full<F: TestFabric>(acks: u32) {
    let mut ends = Ends::<F>::new();
    for taken in 1..=2 * BLOCKS {
        ends.send_and_take(8);
        let due = u64::from(taken / (BLOCKS / acks));
        assert_eq!(ends.acks(), due, "{}: after {taken} blocks", F::NAME);
    }
}

/// A peer writes its acknowledgements while this end reads them, which need not learn only then that there is room.
#[test]
fn a_torn_acknowledgement_is_read_again_a_few_times() {
    for (torn, is_sent) in [(1, true), (3, true), (1000, false)] {
        let mut ends = Ends::<Direct>::new();
        let send = |ends: &mut Ends<Direct>| ends.sender.try_send(&mut ends.fabric, 1, &[&[7; 8]]);
        for _ in 0..BLOCKS {
            send(&mut ends).unwrap();
        }
        assert_eq!(send(&mut ends), Err(RefusedSend::NoCredit), "the ring is full");
        (0..BLOCKS).for_each(|_| ends.take(8));
        ends.receiver.acknowledge(&mut ends.fabric);
        ends.fabric.tear_acks(torn);
        let sent = send(&mut ends);
        assert_eq!(sent.is_ok(), is_sent, "torn {torn} times: {sent:?}");
        let read = torn - ends.fabric.torn_reads();
        assert!(read <= 8, "{read} reads, and somebody waits");
        ends.fabric.tear_acks(0);
        assert!(is_sent || send(&mut ends).is_ok());
    }
}

#[test]
fn direct() {
    the_end_of_a_stream_is_acknowledged_at_once::<Direct>();
    the_end_of_a_long_message_is_acknowledged_at_once::<Direct>();
    a_short_message_is_acknowledged::<Direct>(1);
    empty_rounds_let_an_acknowledgement_out::<Direct>(7);
    blocks_come_back_before_the_ring_is_full::<Direct>(8);
}

/// Each acknowledgement is a packet, and what is sent next would have to wait behind it.
#[test]
fn posted() {
    the_end_of_a_stream_is_acknowledged_at_once::<Posted>();
    the_end_of_a_long_message_is_acknowledged_at_once::<Posted>();
    a_short_message_is_acknowledged::<Posted>(0);
    empty_rounds_let_an_acknowledgement_out::<Posted>(100);
    blocks_come_back_before_the_ring_is_full::<Posted>(2);
}
