//! `delivered` and `controls_delivered` become true by rounds of progress, without a look.

use superpipe_core::{Config, End, Endpoint, FlagPlace, Layout, Origin, Reason, control_page};
use superpipe_testkit::{Memory, PairFabric, Posted, Setup, TestFabric, wire};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };
const ROUNDS: usize = 500;

fn ends<F: TestFabric>() -> (F, [Endpoint<F>; 2]) {
    let fabric = F::new(&Setup::new(LAYOUT, 1));
    let ends = [0, 1].map(|side| {
        Endpoint::new(&fabric, fabric.attachment(side), Config::default(), Origin::default()).unwrap()
    });
    (fabric, ends)
}

/// Both ends go on until one of them says so.
fn comes_about<F: TestFabric>(
    fabric: &mut F,
    ends: &mut [Endpoint<F>; 2],
    mut done: impl FnMut(&mut Endpoint<F>, &mut Endpoint<F>, &mut F) -> bool,
) -> bool {
    (0..ROUNDS).any(|_| {
        let [here, there] = &mut *ends;
        here.progress(fabric);
        there.progress(fabric);
        fabric.step();
        done(here, there, fabric)
    })
}

fn what_was_taken_is_delivered<F: TestFabric>() {
    for bytes in [8, 100, 600] {
        let (fabric, ends) = &mut ends::<F>();
        assert!(ends[0].poll_delivered(), "{}: there is nothing", F::NAME);
        ends[0].try_send(fabric, 1, &[&vec![7; bytes]]).unwrap();
        assert!(
            !comes_about(fabric, ends, |here, _, _| here.poll_delivered()),
            "{}: nobody took it",
            F::NAME
        );
        let mut place = [0; 600];
        let mut end = End::No;
        assert!(comes_about(fabric, ends, |_, there, fabric| {
            end = there.pull(fabric, &mut [&mut place]).end;
            end == End::Fin
        }));
        assert!(comes_about(fabric, ends, |here, _, _| here.poll_delivered()), "{}: it was taken", F::NAME);
    }
}

fn what_was_said_is_delivered<F: TestFabric>() {
    let (fabric, ends) = &mut ends::<F>();
    assert!(ends[0].poll_controls_delivered(), "{}: there is nothing", F::NAME);
    ends[0].close(fabric, Reason::DONE);
    assert!(!ends[0].poll_controls_delivered(), "{}: nobody took it", F::NAME);
    assert!(
        comes_about(fabric, ends, |here, _, _| here.poll_controls_delivered()),
        "{}: it was taken",
        F::NAME
    );
}

/// The send queue is full of a sign of life, which tells of nothing.
#[test]
fn an_acknowledgement_that_found_no_room_goes_later() {
    for seed in 0..50 {
        let fabric = &mut Posted::new(&Setup { send_queue: 1, ..Setup::new(LAYOUT, seed) });
        let mut end =
            Endpoint::new(fabric, fabric.attachment(1), Config::default(), Origin::default()).unwrap();
        fabric.forge(Memory::landing(1), LAYOUT.line_at(0), &wire::inline(1, b"tiny", 1));
        end.send_keepalive(fabric);
        assert_eq!(end.counters().acks_sent, 1);
        assert_eq!(end.pull(fabric, &mut [&mut [0; 9]]).end, End::Fin);
        end.acknowledge(fabric);
        assert_eq!(end.counters().acks_sent, 1, "seed {seed}: there is no room");
        for _ in 0..ROUNDS {
            end.progress(fabric);
            fabric.step();
        }
        let ack = fabric.memories().line(Memory::control_page(0), control_page::ACK);
        assert_eq!(ack, wire::ack(1, u64::MAX, 1), "seed {seed}");
        assert_eq!(end.counters().acks_sent, 2, "seed {seed}: none counts that was not posted");
    }
}

#[test]
fn direct() {
    what_was_taken_is_delivered::<superpipe_testkit::Direct>();
    what_was_said_is_delivered::<superpipe_testkit::Direct>();
}

#[test]
fn posted() {
    what_was_taken_is_delivered::<Posted>();
    what_was_said_is_delivered::<Posted>();
}
