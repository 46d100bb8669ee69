extern crate std;

use super::super::error::{PacketError, REFUSED_PROPOSAL, REFUSED_VERSION};
use super::super::tuning::Disagreement;
use super::*;
use std::string::{String, ToString};

fn with(packet: Packet, at: usize, byte: u8) -> Packet {
    let Packet(mut bytes) = packet;
    bytes[at] = byte;
    Packet(bytes)
}

#[test]
fn the_version_precedes_what_other_versions_may_change() {
    let hello = || Packet::new(Kind::Hello);
    assert_eq!(hello().kind(), Ok(Kind::Hello as u8));
    assert_eq!(with(hello(), 10, 0xFF).kind(), Ok(0xFF), "a kind is judged by whoever waits for one");
    assert_eq!(with(hello(), 7, b'e').kind(), Err(PacketError::Garbage));
    let refused = || Packet::refused(0, &"no".into());
    assert_eq!(with(refused(), 9, 1).kind(), Err(PacketError::Version { theirs: 0x106 }));
    assert_eq!(with(with(refused(), 9, 1), 0, 0).kind(), Err(PacketError::Garbage));
    assert_eq!(Packet::empty().kind(), Err(PacketError::Garbage));
    assert_eq!(check_head(&hello().0[..10]), Ok(()));
    assert_eq!(check_head(&hello().0[..9]), Err(PacketError::Garbage));
}

fn said(packet: &Packet) -> String {
    match packet.kind() {
        Err(PacketError::Refused { code: 2, text }) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refusal_is_shown_without_what_could_harm_a_terminal() {
    let text = |text: &str| said(&Packet::refused(2, &text.into()));
    assert_eq!(text("folds is 3 here"), "folds is 3 here");
    assert_eq!(text("\x1b[2J\r\nno\u{9b}"), "?[2J??no?");
    assert_eq!(text(&"x".repeat(200)), "x".repeat(TEXT_BYTES), "without an end");
    assert_eq!(said(&with(Packet::refused(2, &"a-z".into()), TEXT_AT + 1, 0xFF)), "a\u{fffd}z");
    let all = Packet::refused(2, &Text::received([0xFF; TEXT_BYTES]));
    assert_eq!(said(&all), "\u{fffd}".repeat(TEXT_BYTES));
}

#[test]
fn a_text_is_cut_between_characters_and_ends_there() {
    let long = [&"x".repeat(TEXT_BYTES - 1), "\u{e9}", "y"].concat();
    assert_eq!(Text::of(&long).to_string(), "x".repeat(TEXT_BYTES - 1));
    let [long, next, last] = ["x".repeat(TEXT_BYTES - 1), "\u{e9}".to_string(), "y".to_string()];
    let parts = Text::of(format_args!("{long}{next}{last}"));
    assert_eq!(parts.to_string(), "x".repeat(TEXT_BYTES - 1), "nothing is put behind the cut");
    let mut bytes = [b'a'; TEXT_BYTES];
    bytes[3] = 0;
    assert_eq!(Text::received(bytes), "aaa".into());
}

#[test]
fn each_error_but_the_peers_refusal_has_a_code() {
    let proposed = Disagreement::Landing { bytes: 2, bytes_max: 1, by: "listener" };
    for (error, code) in [
        (PacketError::Garbage, Some(0)),
        (PacketError::Malformed("a packet out of turn"), Some(0)),
        (PacketError::Version { theirs: 9 }, Some(REFUSED_VERSION)),
        (PacketError::Disagreement(proposed), Some(REFUSED_PROPOSAL)),
        (PacketError::Refused { code: 0, text: "no".into() }, None),
    ] {
        assert_eq!(error.refusal(), code, "{error}");
    }
}

#[test]
fn each_proposed_value_survives_the_packet() {
    let none = Tuning::default();
    let mut proposed = std::vec![
        none,
        Tuning { folds: Some(255), ..none },
        Tuning { block_bytes: Some(0x0102_0304), ..none },
        Tuning { landing_bytes: Some(0x0506_0708), ..none },
        Tuning { chunk_bytes: Some(u32::MAX), ..none },
        Tuning { small_buffer_bytes: Some(2000), ..none },
        Tuning { threshold_bytes: Some(0x0102), ..none },
        Tuning { group_blocks: Some(16), ..none },
        Tuning { receives: Some(8), ..none },
        Tuning { landing: Some(LandingMode::OnDemand), ..none },
        Tuning { c0_bytes: Some(0x090a_0b0c), ..none },
        Tuning { growth_q8: Some(0x0304), ..none },
    ];
    proposed.extend(Protocol::ALL.map(|protocol| Tuning { protocol: Some(protocol), ..none }));
    proposed.extend(ARRIVALS.map(|arrival| Tuning { arrival: Some(arrival), ..none }));
    proposed.extend(FirstChunk::ALL.map(|first| Tuning { first_chunk: Some(first), ..none }));
    proposed.extend(SWITCH.map(|is_on| Tuning { sub_blocks: Some(is_on), ..none }));
    proposed.extend(SWITCH.map(|is_on| Tuning { triple_buffer: Some(is_on), ..none }));
    for tuning in proposed {
        let mut packet = Packet::new(Kind::Hello);
        packet.set_tuning(&tuning);
        assert_eq!(packet.tuning(), Ok(tuning));
    }
}

/// wire.md 6.1, 6.6
#[test]
fn refinements_have_places_and_unknown_numbers_are_refused() {
    let tuning = Tuning {
        c0_bytes: Some(0x0102_0304),
        growth_q8: Some(0x0506),
        first_chunk: Some(FirstChunk::AfterCts),
        sub_blocks: Some(false),
        triple_buffer: Some(true),
        ..Tuning::default()
    };
    let mut packet = Packet::new(Kind::Hello);
    packet.set_tuning(&tuning);
    assert_eq!(packet.0[64..], *[[4, 3, 2, 1, 6, 5, 3, 1, 2].as_slice(), &[0; 119]].concat());
    for (at, most) in [(70, 4), (71, 2), (72, 2)] {
        for byte in 0..=u8::MAX {
            let read = with(packet.clone(), at, byte).tuning();
            let is_known = byte <= most;
            assert_eq!(read.is_ok(), is_known, "byte {at} is {byte}");
            assert!(is_known || read == Err(PacketError::Malformed("an unknown choice")), "{read:?}");
        }
    }
}

#[test]
fn means_survive_the_way_and_others_are_refused() {
    for (keeps_order, has_fast_crc) in [(false, false), (false, true), (true, false), (true, true)] {
        let means = ArrivalCaps { keeps_order, has_fast_crc, proposed: None };
        let mut packet = Packet::new(Kind::Hello);
        packet.set_arrival_caps(keeps_order, has_fast_crc);
        assert_eq!(packet.arrival_caps(None), Ok(means));
        for at in [ORDER_AT, CRC_AT] {
            packet.0[at] = 2;
            assert_eq!(packet.arrival_caps(None), Err(PacketError::Malformed("an unknown choice")));
        }
    }
}

#[test]
fn a_region_is_aligned_and_does_not_wrap() {
    let said = |addr: u64| {
        let mut packet = Packet::new(Kind::Grant);
        packet.set_regions(RemoteRegions { page: RemoteRegion { addr, rkey: 7 }, small: None });
        packet.regions(false)
    };
    let small = |addr: u64| {
        let mut packet = Packet::new(Kind::Grant);
        let [page, small] = [PAGE, RemoteRegion { addr, rkey: 7 }];
        packet.set_regions(RemoteRegions { page, small: Some(small) });
        packet.regions(true)
    };
    let end = u64::MAX - (1 << 31);
    for addr in [0, 64, end - 63] {
        let region = RemoteRegion { addr, rkey: 7 };
        assert_eq!(said(addr), Ok(RemoteRegions { page: region, small: None }));
        assert_eq!(small(addr), Ok(RemoteRegions { page: PAGE, small: Some(region) }));
    }
    for addr in [1, 63, end + 1, u64::MAX - 63, u64::MAX] {
        for said in [said(addr), small(addr)] {
            assert_eq!(said, Err(PacketError::Malformed("a region that cannot be")), "{addr:#x}");
        }
    }
}

/// wire.md 10.2
#[test]
fn a_small_buffer_is_named_only_where_one_was_negotiated() {
    let small = RemoteRegion { addr: 0x0102_0304_0506_0740, rkey: 0x0809_0a0b };
    let mut packet = Packet::new(Kind::Welcome);
    packet.set_regions(RemoteRegions { page: PAGE, small: Some(small) });
    assert_eq!(packet.0[52..64], [0x40, 7, 6, 5, 4, 3, 2, 1, 11, 10, 9, 8]);
    assert_eq!(packet.regions(true), Ok(RemoteRegions { page: PAGE, small: Some(small) }));
    for at in 52..64 {
        let mut packet = Packet::new(Kind::Welcome);
        packet.set_regions(RemoteRegions { page: PAGE, small: None });
        packet.0[at] = 1;
        let wrong = PacketError::Malformed("reserved bytes are not zero");
        assert_eq!(packet.regions(false), Err(wrong), "byte {at}");
    }
}

/// wire.md 6.1
#[test]
fn the_idle_timeout_is_told_in_milliseconds() {
    let hello = |ns| {
        let mut packet = Packet::new(Kind::Hello);
        packet.set_idle_timeout(Nanos(ns));
        packet
    };
    let ms_max = u64::from(u32::MAX);
    for (ns, ms) in [
        (0, 1),
        (1_999_999, 1),
        (2_000_000, 2),
        (30_000_000_000, 30_000),
        (ms_max * 1_000_000, ms_max),
        (u64::MAX, ms_max),
    ] {
        let packet = hello(ns);
        assert_eq!(u64::from(u32::from_le_bytes(packet.0[76..80].try_into().unwrap())), ms, "{ns}");
        assert_eq!(packet.idle_timeout(), Some(Nanos(ms * 1_000_000)));
    }
    assert_eq!(
        hello(0x0403_0201 * 1_000_000).0[73..],
        *[[0, 0, 0, 1, 2, 3, 4].as_slice(), &[0; 112]].concat()
    );
    assert_eq!(Packet::new(Kind::Hello).idle_timeout(), None);
}

const PAGE: RemoteRegion = RemoteRegion { addr: 0x1000, rkey: 5 };

/// The bytes of each kind that may be other than zero, but for head and kind. wire.md 6.1, 10.2.
#[test]
fn what_a_packet_does_not_have_is_zero() {
    const DIRECT: FabricKind = FabricKind::Direct { is_fenced: true, pid: 1 };
    const POSTED: FabricKind = FabricKind::Posted { keeps_order: true, has_fast_crc: true };
    for (fabric, kind, used) in [
        (DIRECT, Kind::Hello, [12..28, 44..51, 64..73, 76..80]),
        (DIRECT, Kind::Welcome, [12..32, 44..51, 64..73, 76..80]),
        (DIRECT, Kind::Grant, [0..0, 0..0, 0..0, 0..0]),
        (DIRECT, Kind::Ready, [0..0, 0..0, 0..0, 0..0]),
        (POSTED, Kind::Hello, [13..30, 44..52, 64..73, 76..80]),
        (POSTED, Kind::Welcome, [13..31, 32..64, 64..73, 76..80]),
        (POSTED, Kind::Grant, [32..44, 52..64, 0..0, 0..0]),
        (POSTED, Kind::Ready, [0..0, 0..0, 0..0, 0..0]),
    ] {
        for at in 11..PACKET_BYTES {
            let checked = with(Packet::new(kind), at, 1).check_reserved(kind, &fabric);
            // The group is of shared memory, and the byte behind it is reserved.
            let is_used = used.iter().any(|used| used.contains(&at))
                && !(matches!(fabric, FabricKind::Posted { .. }) && matches!(at, 50 | 51));
            assert_eq!(checked.is_ok(), is_used, "{fabric:?} {kind:?} {at}");
        }
    }
    let fenced = with(Packet::new(Kind::Hello), 12, 2);
    assert!(fenced.check_reserved(Kind::Hello, &DIRECT).is_err());
}
