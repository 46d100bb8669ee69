//! Activity of the peer: keepalives, and acknowledgements of control messages.

use superpipe_core::{Config, Endpoint, FlagPlace, Layout, Origin, control_page};
use superpipe_testkit::{Direct, Memory, PairFabric, Setup, TestFabric, wire};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };
const BEFORE_FIRST: u64 = u64::MAX;

fn end(origin: Origin) -> (Direct, Endpoint<Direct>) {
    let fabric = Direct::new(&Setup::new(LAYOUT, 1));
    let end = Endpoint::new(&fabric, fabric.attachment(0), Config::default(), origin).unwrap();
    (fabric, end)
}

/// Data that is taken, a control message, an acknowledgement, a sign of life; and nothing else.
#[test]
fn all_that_the_peer_does_is_activity() {
    let (mut fabric, mut end) = end(Origin::default());
    end.try_send(&mut fabric, 1, &[b"tiny"]).unwrap();
    let mut heard = end.activity();
    let mut hears = |end: &mut Endpoint<Direct>, fabric: &mut Direct| {
        end.progress(fabric);
        end.poll_acknowledgements(fabric);
        core::mem::replace(&mut heard, end.activity()) != end.activity()
    };
    assert!(!hears(&mut end, &mut fabric));
    fabric.forge(Memory::control_page(0), wire::mailbox(0), &wire::cts(1, 1));
    assert!(hears(&mut end, &mut fabric));
    assert!(!hears(&mut end, &mut fabric));
    fabric.forge(Memory::control_page(0), control_page::ACK, &wire::ack(1, BEFORE_FIRST, 0));
    assert!(hears(&mut end, &mut fabric));
    assert!(!hears(&mut end, &mut fabric));
    fabric.forge(Memory::control_page(0), control_page::ACK, &wire::ack(1, BEFORE_FIRST, 1));
    assert!(hears(&mut end, &mut fabric));
    assert!(!hears(&mut end, &mut fabric));
    fabric.forge(Memory::landing(0), LAYOUT.line_at(0), &wire::inline(1, b"tiny", 1));
    assert!(!hears(&mut end, &mut fabric), "it is not taken");
    assert_eq!(end.pull(&mut fabric, &mut [&mut [0; 9]]).bytes, 4);
    assert!(hears(&mut end, &mut fabric));
}

/// Not each of them, and not only once nothing else is to be done.
#[test]
fn four_control_messages_are_acknowledged_together() {
    let (mut fabric, mut end) = end(Origin { controls: 101, ..Origin::default() });
    end.try_send(&mut fabric, 1, &[b"tiny"]).unwrap();
    for taken in 1..=8 {
        let at = wire::mailbox(u32::try_from(taken).unwrap() - 1);
        fabric.forge(Memory::control_page(0), at, &wire::cts(1, 100 + taken));
        end.progress(&mut fabric);
        let acked = fabric.memories().line(Memory::control_page(1), control_page::ACK).0[2];
        let expected = if taken < 4 { 0 } else { 100 + taken / 4 * 4 };
        assert_eq!((acked, end.counters().acks_sent), (expected, taken / 4));
    }
}
