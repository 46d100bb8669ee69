//! Notifications. wire.md 3.4.

use superpipe_core::{
    Arrival, Config, End, Endpoint, Fabric, NOTIFICATIONS_MIN, Notification, Origin, RefusedSend,
};
use superpipe_testkit::{
    EndLink, PairFabric, Posted, Setup, TestFabric,
    wire::{self, kind},
};

use crate::table::{LAYOUT, Victim};

const CHUNK: u32 = 1 << 28;
const CONTROL: u32 = 2 << 28;
const ACK: u32 = 3 << 28;

/// No order inside a write, and the fewest receives that there can be.
fn victim(origin: Origin) -> Victim<Posted> {
    let setup = Setup {
        order_inside_write: false,
        notifications_max: NOTIFICATIONS_MIN,
        send_queue: 8,
        ..Setup::new(LAYOUT, 1)
    };
    let fabric = Posted::new(&setup);
    let config = Config { arrival: Arrival::Notify, ..Config::default() };
    let end = Endpoint::new(&fabric, fabric.attachment(0), config, origin).unwrap();
    Victim { fabric, end, controls_fed: 0 }
}

fn notified(t: &mut Victim<Posted>, notice: u32) {
    t.fabric.forge_notification(1, Notification(notice));
    t.settle();
}

/// Returns the next notification of the peer.
fn told(t: &mut Victim<Posted>) -> Option<u32> {
    t.settle();
    t.fabric.poll_notification(&mut EndLink(1)).map(|notice| notice.0)
}

#[test]
fn a_notified_line_is_taken_and_answered_with_a_notification() {
    let mut t = victim(Origin::default());
    feed!(t, slot 0, wire::inline(4, b"to you", 1));
    expect!(t, pulled 0, End::No);
    notified(&mut t, CHUNK | 1);
    expect!(t, pulled 6, End::Fin);
    t.end.try_send(&mut t.fabric, 1, &[b"tiny"]).unwrap();
    let mut all: Vec<u32> = core::iter::from_fn(|| told(&mut t)).collect();
    all.sort_unstable();
    assert_eq!(all, [CHUNK | 1, ACK | 1]);
    expect!(t, sent 0, wire::inline(1, b"tiny", 1));
    expect!(t, open);
}

#[test]
fn what_does_not_come_next_is_wrong() {
    for notice in [0, 1, CHUNK, CHUNK | 2, CONTROL, CONTROL | 2] {
        let mut t = victim(Origin::default());
        notified(&mut t, notice);
        expect!(t, broken NotificationWrong);
    }
    // More chunks than blocks.
    let mut t = victim(Origin::default());
    for sequence in 1..=8 {
        notified(&mut t, CHUNK | sequence);
        expect!(t, open);
    }
    notified(&mut t, CHUNK | 9);
    expect!(t, broken NotificationWrong);
}

#[test]
fn what_is_notified_is_there() {
    let mut t = victim(Origin::default());
    notified(&mut t, CHUNK | 1);
    expect!(t, open);
    expect!(t, pulled 0, End::No);
    expect!(t, broken NotificationWithoutFlag);

    let mut t = victim(Origin::default());
    notified(&mut t, CONTROL | 1);
    expect!(t, broken NotificationWithoutFlag);

    // The first block is, and the second is not.
    let mut t = victim(Origin::default());
    feed!(t, slot 0, wire::chunk(kind::RTS | kind::FIN, 2, 300, 300, 1, 1));
    notified(&mut t, CHUNK | 1);
    t.pull();
    expect!(t, broken NotificationWithoutFlag);
}

#[test]
fn no_more_are_sent_than_the_peer_has_receives_for() {
    let mut t = victim(Origin { notifications: u64::from(CHUNK) - 1, ..Origin::default() });
    for _ in 0..3 {
        t.end.try_send(&mut t.fabric, 1, &[b"tiny"]).unwrap();
        t.settle();
    }
    // The last credit is for giving back.
    assert_eq!(t.end.try_send(&mut t.fabric, 1, &[b"tiny"]), Err(RefusedSend::NoCredit));
    t.end.send_keepalive(&mut t.fabric);
    assert_eq!(
        [told(&mut t), told(&mut t), told(&mut t), told(&mut t)],
        [1, 2, 3, 0].map(|s| (s > 0).then_some(CHUNK | s))
    );

    // Half of the peer's were taken: they are given back with it.
    notified(&mut t, ACK | (CHUNK - 1));
    notified(&mut t, ACK | (CHUNK - 1));
    assert_eq!(told(&mut t), Some(ACK | 1));
    // One comes back: it replaces the one that went for that.
    notified(&mut t, ACK);
    assert_eq!(t.end.try_send(&mut t.fabric, 1, &[b"tiny"]), Err(RefusedSend::NoCredit));
    notified(&mut t, ACK | 1);
    assert_eq!(told(&mut t), Some(ACK | 3));
    t.end.poll_acknowledgements(&mut t.fabric);
    expect!(t, open);
    // More than were sent.
    notified(&mut t, ACK | 100);
    expect!(t, broken NotificationsBeyondSent);
}
