//! Checked flags of every block of a chunk, by every way of receiving it.

use superpipe_core::{
    Arrival, Closed, Config, End, Endpoint, Failure, FlagPlace, Layout, Line, Origin, ProtocolError,
    Readable, TryRecv,
};
use superpipe_testkit::{
    Direct, Memory, Posted, Setup, TestFabric, crc32c,
    wire::{self, kind},
};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };

fn end<F: TestFabric>(arrival: Arrival) -> (F, Endpoint<F>) {
    let fabric = F::new(&Setup { order_inside_write: arrival == Arrival::Flag, ..Setup::new(LAYOUT, 1) });
    let config = Config { arrival, ..Config::default() };
    let end = Endpoint::new(&fabric, fabric.attachment(1), config, Origin::default()).unwrap();
    (fabric, end)
}

/// It fits where it is to go, and not the blocks that are left.
fn a_chunk_over_the_end<F: TestFabric>() {
    for bytes in [193, 300, 3000] {
        let (mut fabric, mut end) = end::<F>(Arrival::Flag);
        for flag in 1..8 {
            let at = LAYOUT.line_at(u32::try_from(flag).unwrap() - 1);
            fabric.forge(Memory::landing(1), at, &wire::inline(1, b"tiny", flag));
            assert!(matches!(end.try_recv(&mut fabric, &mut [&mut [0; 9]], 1), TryRecv::Taken { .. }));
        }
        let line = wire::chunk(kind::RTS | kind::FIN, 7, bytes, bytes, 8, 8);
        fabric.forge(Memory::landing(1), LAYOUT.line_at(7), &line);
        let place = &mut [0; 4000];
        assert_eq!(end.try_recv(&mut fabric, &mut [&mut place[..]], 1), TryRecv::Other, "{}", F::NAME);
        assert_eq!(end.pull(&mut fabric, &mut [&mut place[..]]).bytes, 0, "{}", F::NAME);
        let broken = Closed::Failed(Failure::Protocol(ProtocolError::ChunkTooLong));
        assert_eq!(end.closed(), Some(broken), "{}", F::NAME);
        assert!(place.iter().all(|byte| *byte == 0), "{}", F::NAME);
    }
}

#[test]
fn no_way_goes_over_the_end_of_the_ring() {
    a_chunk_over_the_end::<Direct>();
    a_chunk_over_the_end::<Posted>();
}

/// Seed and payload of the check of a block of the chunk with sequence 1.
fn check(payload: &[u8]) -> u32 {
    let bytes = u32::try_from(payload.len()).unwrap().to_le_bytes();
    crc32c(payload, crc32c(&bytes, crc32c(&1u64.to_le_bytes(), !0)))
}

const fn checked(mut line: Line, check: u32) -> Line {
    line.0[7] = 1 << 32 | check as u64;
    line
}

/// A chunk of two blocks with 192 bytes and 8; the second is late, and then wrong.
fn a_wrong_later_block<F: TestFabric>() {
    for in_place in [false, true] {
        let (mut fabric, mut end) = end::<F>(Arrival::CheckedFlag);
        let line = wire::chunk(kind::RTS | kind::FIN | kind::LEFT, 7, 200, 200, 1, 0);
        let first = checked(line, crc32c(&line.body_bytes(), check(&[0; 192])));
        fabric.forge(Memory::landing(1), LAYOUT.line_at(0), &first);
        // All that lies there is zero.
        let [wrong, right] = [7, 0].map(|value| checked(Line::default(), check(&[value; 8])));
        let mut taken = 0;
        let mut take = |fabric: &mut F| {
            if in_place {
                match end.readable(fabric, 1000) {
                    Readable::Run(run) => {
                        taken += run.bytes as usize;
                        end.consume(fabric, run.bytes)
                    }
                    Readable::Ended(end) => end,
                    Readable::Nothing => End::No,
                }
            } else {
                let pulled = end.pull(fabric, &mut [&mut [0; 1000]]);
                taken += pulled.bytes;
                pulled.end
            }
        };
        assert_eq!(take(&mut fabric), End::No, "{}", F::NAME);
        fabric.forge(Memory::landing(1), LAYOUT.line_at(1), &wrong);
        assert_eq!(take(&mut fabric), End::No, "{}: a block with another check", F::NAME);
        fabric.forge(Memory::landing(1), LAYOUT.line_at(1), &right);
        assert_eq!((take(&mut fabric), taken), (End::Fin, 200), "{}", F::NAME);
        assert_eq!((end.closed(), end.counters().check_misses), (None, 1), "{}", F::NAME);
    }
}

#[test]
fn a_later_block_is_there_once_its_check_is_right() {
    a_wrong_later_block::<Direct>();
    a_wrong_later_block::<Posted>();
}
