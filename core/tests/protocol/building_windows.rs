//! The window changes while a message is built in place.

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
