//! Checked flags. wire.md 3.1.

use superpipe_core::{Arrival, Config, End, Endpoint, Origin};
use superpipe_testkit::{
    PairFabric, Posted, Setup, TestFabric, crc32c,
    wire::{self, kind},
};

use crate::table::{LAYOUT, Victim};

/// Checked flags: the low half of the sequence, and a CRC of all that the flag stands for.
#[test]
fn checked_flags() {
    let sequence = (5 << 32) + 9;
    let fabric = Posted::new(&Setup { order_inside_write: false, ..Setup::new(LAYOUT, 1) });
    let config = Config { arrival: Arrival::CheckedFlag, ..Config::default() };
    let origin = Origin { sequence, ..Origin::default() };
    let end = Endpoint::new(&fabric, fabric.attachment(0), config, origin).unwrap();
    let mut t = Victim { fabric, end, controls_fed: 0 };
    t.end.try_send(&mut t.fabric, 1, &[b"tiny"]).unwrap();
    t.end.try_send(&mut t.fabric, 2, &[&[3; 41]]).unwrap();
    t.settle();
    expect!(t, sent 0, wire::checked(wire::inline(1, b"tiny", 0), sequence));
    let line = wire::chunk(kind::RTS | kind::FIN, 2, 41, 41, 2, 0);
    let seed = crc32c(&41u32.to_le_bytes(), crc32c(&(sequence + 1).to_le_bytes(), !0));
    let crc = crc32c(&line.body_bytes(), crc32c(&[3; 41], seed));
    expect!(t, sent 1, wire::chunk(kind::RTS | kind::FIN, 2, 41, 41, 2, (sequence + 1) << 32 | u64::from(crc)));

    // One wrong bit, and it has not arrived.
    for bit in [0, 63, 64 * 3 + 5, 64 * 7] {
        let mut wrong = wire::checked(wire::inline(4, b"to you", 0), sequence);
        wrong.0[bit / 64] ^= 1 << (bit % 64);
        feed!(t, slot 0, wrong);
        expect!(t, pulled 0, End::No);
    }
    feed!(t, slot 0, wire::checked(wire::inline(4, b"to you", 0), sequence));
    expect!(t, pulled 6, End::Fin);
    expect!(t, open);
}
