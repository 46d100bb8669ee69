//! Random packets and events, at any time and in any order: no panic, one packet at most to be sent, nothing provisioned
//! beyond what is allowed, and an end.

use crate::setup::rig::{
    BEGIN, Broken, DEADLINE, FABRICS, Play, ROLES, Received, Rig, config, grant, hello, ready, welcome_of,
};
use proptest::prelude::*;
use superpipe_core::Nanos;
use superpipe_core::driver::setup::{
    Action, Ancillary, FabricKind, Handshake, HandshakeConfig, Kind, Packet, Role, Text,
};

const ALLOWED: u32 = 1 << 20;

#[derive(Clone, Debug)]
enum Event {
    /// A packet that is almost one: the kind, a few bytes changed, and how many of them arrive.
    Packet {
        kind: u8,
        changed: Vec<(usize, u8)>,
        bytes: usize,
        landing_bytes: u32,
        beside: u8,
    },
    Bytes(Vec<u8>),
    /// The honest next step, whichever that is.
    Next,
    Provisioned(bool),
    Adopted(bool),
    Held(bool),
    Later(u64),
    Lost,
    Broken,
    Poll,
}

fn event() -> impl Strategy<Value = Event> {
    let changed = prop::collection::vec((0..192usize, any::<u8>()), 0..3);
    let bytes = prop_oneof![9 => Just(192usize), 1 => 0..200usize];
    let landing = prop_oneof![Just(512 << 10), Just(400 << 20), 0..u32::MAX];
    prop_oneof![
        6 => (0..7u8, changed, bytes, landing, 0..3u8).prop_map(|(kind, changed, bytes, landing_bytes, beside)| {
            Event::Packet { kind, changed, bytes, landing_bytes, beside }
        }),
        1 => prop::collection::vec(any::<u8>(), 0..300).prop_map(Event::Bytes),
        12 => Just(Event::Next),
        1 => any::<bool>().prop_map(Event::Provisioned),
        1 => any::<bool>().prop_map(Event::Adopted),
        1 => any::<bool>().prop_map(Event::Held),
        2 => (0..DEADLINE - BEGIN).prop_map(Event::Later),
        1 => Just(Event::Lost),
        1 => Just(Event::Broken),
        4 => Just(Event::Poll),
    ]
}

fn packet(kind: u8, fabric: FabricKind, landing_bytes: u32) -> Packet {
    match kind {
        1 => hello(fabric),
        2 => welcome_of(fabric, 16 << 10, landing_bytes),
        3 => grant(fabric),
        4 => ready(),
        5 => Packet::refused(0, &Text::received([0xC3; 128])),
        _ => Packet::empty(),
    }
}

/// Actions of an end so far.
#[derive(Default)]
struct Seen {
    provisions: u32,
    adoptions: u32,
    welcomes: u32,
    ends: u32,
    is_asked: [bool; 3],
}

impl Seen {
    /// Takes the actions that wait: at most a packet and what follows it.
    fn poll(&mut self, handshake: &mut Handshake<Play>) {
        for number in 0.. {
            let Some(action) = handshake.poll_action() else { return };
            assert!(number < 2, "a packet, and one thing to do");
            assert_eq!(self.ends, 0, "nothing after the end");
            match action {
                Action::Send { packet, with_own } => {
                    assert_eq!(number, 0, "one packet at most");
                    assert!(!with_own || handshake.own().is_some());
                    self.welcomes += u32::from(packet.kind() == Ok(Kind::Welcome as u8));
                }
                Action::Provision(negotiated) => {
                    let layout = negotiated.layout;
                    assert!(layout.bytes() <= ALLOWED && layout.validate().is_ok());
                    self.provisions += 1;
                    self.is_asked[0] = true;
                }
                Action::Adopt(_) => {
                    self.adoptions += 1;
                    self.is_asked[1] = true;
                }
                Action::Hold => self.is_asked[2] = true,
                Action::Established(agreed) => {
                    assert!(agreed.negotiated.layout.bytes() <= ALLOWED);
                    assert_eq!((self.provisions, self.adoptions), (1, 1));
                    self.ends += 1;
                }
                Action::Failed(_) => self.ends += 1,
            }
            assert!(self.provisions <= 1 && self.adoptions <= 1 && self.welcomes <= 1);
        }
    }
}

fn play(role: Role, fabric: FabricKind, events: &[Event]) {
    let config = HandshakeConfig { landing_bytes_max: ALLOWED, ..config(role, fabric) };
    let mut t = Rig::of(config);
    let mut seen = Seen::default();
    let mut received = 0;
    let mut step = 0;
    for event in events {
        match event {
            Event::Packet { kind, changed, bytes, landing_bytes, beside } => {
                let mut packet = packet(*kind, fabric, *landing_bytes).0.to_vec();
                changed.iter().for_each(|(at, byte)| packet[*at] = *byte);
                packet.resize(*bytes, 0);
                received += 1;
                t.bytes(
                    &packet,
                    match beside {
                        0 => Ancillary::Nothing,
                        1 => Ancillary::One(Received(received)),
                        _ => Ancillary::Stray,
                    },
                );
            }
            Event::Bytes(bytes) => t.bytes(bytes, Ancillary::Nothing),
            Event::Next => {
                seen.poll(&mut t.handshake);
                if let Some(asked) = seen.is_asked.iter().position(|asked| *asked) {
                    seen.is_asked[asked] = false;
                    match asked {
                        0 => t.provisioned(),
                        1 => t.handshake.handle_adopted(Ok(1)),
                        _ => t.handshake.handle_held(Ok(())),
                    }
                } else {
                    let kinds = if role == Role::Active { [2, 4] } else { [1, 3] };
                    let packet = packet(kinds[step % 2], fabric, 512 << 10);
                    step += 1;
                    if t.handshake.expects_grant() { t.memory(&packet) } else { t.packet(&packet) }
                }
            }
            Event::Provisioned(true) => t.provisioned(),
            Event::Provisioned(false) => t.handshake.handle_provisioned(Err(Broken::Limit)),
            Event::Adopted(ok) => t.handshake.handle_adopted(ok.then_some(1).ok_or(Broken::Limit)),
            Event::Held(ok) => t.handshake.handle_held(ok.then_some(()).ok_or(Broken::Limit)),
            Event::Later(after) => t.at(t.now.max(BEGIN + after)),
            Event::Lost => t.handshake.handle_lost(),
            Event::Broken => t.handshake.handle_broken(Broken::Socket),
            Event::Poll => seen.poll(&mut t.handshake),
        }
        assert_eq!(t.handshake.poll_timeout().is_none(), t.handshake.is_over());
        assert!(t.handshake.poll_timeout().is_none_or(|time| time <= Nanos(DEADLINE)));
    }
    t.at(DEADLINE);
    seen.poll(&mut t.handshake);
    assert_eq!(seen.ends, 1, "it ends once");
    assert!(t.handshake.own().is_none(), "and keeps nothing");
    assert_eq!(t.handshake.poll_timeout(), None);
    // After that nothing is heard.
    for event in [hello(fabric), grant(fabric), ready()] {
        t.packet(&event);
    }
    assert!(t.handshake.poll_action().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_a_peer_sends_gets_more_than_it_may(
        role in prop::sample::select(ROLES.to_vec()),
        fabric in prop::sample::select(FABRICS.to_vec()),
        events in prop::collection::vec(event(), 0..40),
    ) {
        play(role, fabric, &events);
    }
}
