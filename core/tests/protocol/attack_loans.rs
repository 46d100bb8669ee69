//! Attacks on loans and on messages that are built in place.

use superpipe_core::{
    Arrival, Config, End, Endpoint, FlagPlace, Layout, Origin, RefusedReserve, ReservedMessage,
};
use superpipe_testkit::{Direct, Setup, TestFabric};

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

    fn write(&mut self, message: ReservedMessage, payload: &[u8]) {
        assert!(self.ends[0].copy_into_message(&mut self.fabric, message, 0, payload));
    }

    #[track_caller]
    fn receive(&mut self) -> (u64, Vec<u8>) {
        let (mut place, mut bytes, mut tries) = (vec![0; 1 << 16], 0, 0);
        let mut tag = 0;
        loop {
            if let Some(incoming) = self.ends[1].incoming(&mut self.fabric) {
                tag = incoming.tag;
            }
            let pulled = self.ends[1].pull_from(&mut self.fabric, &mut [&mut place], bytes);
            bytes += pulled.bytes;
            if pulled.end != End::No {
                assert_eq!(pulled.end, End::Fin);
                break;
            }
            tries += 1;
            assert!(tries < 2000, "nothing came: {:?} {:?}", self.ends[0].closed(), self.ends[1].closed());
            self.step();
        }
        place.truncate(bytes);
        (tag, place)
    }
}

fn payload(tag: u64, bytes: u32) -> Vec<u8> {
    (0..bytes).map(|at| (tag * 31 + u64::from(at * 7)).to_le_bytes()[0]).collect()
}

/// The window shrinks while a message is open whose second chunk is longer than it.
#[test]
fn a_window_that_shrinks_while_a_message_is_open() {
    for flags in [FlagPlace::Apart { group_blocks: 4 }, FlagPlace::Inside] {
        for begin in 0..16_u64 {
            let layout = Layout { block_bytes: 256, block_count: 16, flags };
            let mut t = Ends::<Direct>::new(&Setup::new(layout, 1), Arrival::Flag);
            for tag in 0..begin {
                t.ends[0].try_send(&mut t.fabric, tag, &[b"x"]).unwrap();
                assert_eq!(t.receive(), (tag, b"x".to_vec()));
                t.settle();
            }
            let bytes = 13 * 248;
            let message = t.reserve(99, bytes).unwrap();
            t.ends[0].set_window(Some(4 * 256));
            t.write(message, &payload(9, bytes));
            t.ends[0].commit_message(&mut t.fabric, message).unwrap();
            assert!(t.receive() == (99, payload(9, bytes)), "{begin}");
            t.settle();
            for tag in 0..40 {
                t.ends[0].try_send(&mut t.fabric, tag, &[&payload(tag, 600)]).unwrap();
                assert!(t.receive() == (tag, payload(tag, 600)), "{begin}: behind, {tag}");
                t.settle();
            }
        }
    }
}

/// A loan lies in a landing buffer that was left. Its direction goes on "until the landing buffer is full", which it is not.
#[test]
fn a_loan_does_not_stop_growth() {
    let small = Layout { block_bytes: 128, block_count: 4, flags: FlagPlace::Inside };
    let largest = Layout { block_bytes: 256, block_count: 64, flags: FlagPlace::Inside };
    let growth = superpipe_testkit::GrowthSetup::new(largest, 4096);
    let setup = Setup { growth: Some(growth), ..Setup::new(small, 1) };
    let mut t = Ends::<Direct>::new(&setup, Arrival::Flag);
    t.ends[0].try_send(&mut t.fabric, 1, &[&payload(1, 60)]).unwrap();
    let loan = t.ends[1].take_loan(&mut t.fabric).unwrap().unwrap();
    for (tag, bytes) in [(2, 1000), (3, 9000)] {
        let mut tries = 0;
        let message = loop {
            match t.reserve(tag, bytes) {
                Ok(message) => break message,
                Err(refused) => assert_eq!(refused, RefusedReserve::Pending),
            }
            tries += 1;
            assert!(tries < 100, "{bytes} bytes: pending while {:?} blocks of the landing buffer are held", t.ends[1].loans());
            t.settle();
        };
        t.write(message, &payload(tag, bytes));
        t.ends[0].commit_message(&mut t.fabric, message).unwrap();
        assert!(t.receive() == (tag, payload(tag, bytes)));
        t.settle();
    }
    assert!(t.ends[1].give_back(&mut t.fabric, loan));
}

/// The second chunk of a message arrives group by group. Each group that may complete the loan is an arrival.
#[test]
fn each_group_behind_the_first_chunk_is_an_arrival() {
    use superpipe_core::{Line, RefusedLoan};
    use superpipe_testkit::{Memory, PairFabric};
    use superpipe_testkit::wire::{self, kind};
    let layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Apart { group_blocks: 2 } };
    let mut fabric = Direct::new(&Setup::new(layout, 1));
    let config = Config { c0_bytes: C0_BYTES, ..Config::default() };
    let mut end = Endpoint::new(&fabric, fabric.attachment(0), config, Origin::default()).unwrap();
    let forge = |fabric: &mut Direct, index, line| fabric.forge(Memory::landing(0), layout.line_at(index), &line);
    forge(&mut fabric, 0, wire::chunk(kind::RTS | kind::LEFT, 7, 1280, 256, 1, 1));
    assert!(end.has_arrivals(&fabric));
    assert!(matches!(end.take_loan(&mut fabric), Err(RefusedLoan::Incomplete(_))));
    let _ = end.has_arrivals(&fabric);
    assert!(!end.has_arrivals(&fabric));
    forge(&mut fabric, 1, wire::chunk(kind::FIN | kind::LEFT, 0, 0, 1024, 1, 2));
    assert!(end.has_arrivals(&fabric), "the first group of the second chunk");
    assert!(matches!(end.take_loan(&mut fabric), Err(RefusedLoan::Incomplete(_))));
    assert!(!end.has_arrivals(&fabric));
    forge(&mut fabric, 3, Line([0, 0, 0, 0, 0, 0, 0, 2]));
    assert!(end.has_arrivals(&fabric), "the last group, with which the message can be taken");
    assert!(matches!(end.take_loan(&mut fabric), Ok(Some(_))));
}
