//! Groups of blocks, of which only the first has a flag. wire.md 2.4, 3.1, 4.2.

use superpipe_core::{
    Arrival, Closed, Config, End, Endpoint, Failure, FlagPlace, Layout, Length, Line, Origin, ProtocolError,
    Readable, RefusedSend, TryRecv,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, Memory, PairFabric, Setup, TestFabric, crc32c};

const BLOCK: u32 = 128;
const GROUP: u32 = 4;
const MESSAGE: u64 = kind::RTS | kind::FIN | kind::LEFT;
const BLOCKS: u32 = 16;

fn layout() -> Layout {
    Layout { block_bytes: BLOCK, block_count: BLOCKS, flags: FlagPlace::Apart { group_blocks: 4 } }
}

fn ends(config: Config) -> (Direct, [Endpoint<Direct>; 2]) {
    let fabric = Direct::new(&Setup::new(layout(), 1));
    let ends = [0, 1]
        .map(|side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap());
    (fabric, ends)
}

fn config(arrival: Arrival) -> Config {
    Config { arrival, c0_bytes: 2048, folds: 1, ..Config::default() }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (1..=251).cycle().take(bytes).collect()
}

fn offset(block: u32) -> u32 {
    layout().bytes() - (BLOCKS - block) * BLOCK
}

/// Writes the payload of a message into the blocks from the first on.
fn put(fabric: &mut Direct, bytes: &[u8]) {
    for (block, part) in bytes.chunks(BLOCK as usize).enumerate() {
        for (at, line) in part.chunks(64).enumerate() {
            let mut words = [0; 64];
            words[..line.len()].copy_from_slice(line);
            let words =
                core::array::from_fn(|index| u64::from_le_bytes(*words[index * 8..].first_chunk().unwrap()));
            let at = offset(count(block)) + 64 * count(at);
            fabric.forge(Memory::landing(0), at, &Line(words));
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap()
}

/// Writes a flag alone into the slot line of a block.
fn flag(fabric: &mut Direct, block: u32, flag: u64) {
    fabric.forge(Memory::landing(0), layout().line_at(block), &Line([0, 0, 0, 0, 0, 0, 0, flag]));
}

/// Returns the blocks of the peer's ring, up to the tenth, whose flag is the sequence.
fn flagged(fabric: &Direct, sequence: u64) -> Vec<u32> {
    let line = |block| fabric.memories().line(Memory::landing(1), layout().line_at(block));
    (0..10).filter(|block| line(*block).flag() == sequence).collect()
}

#[test]
fn one_flag_of_a_sender_stands_for_a_group() {
    let bytes = pattern(9 * BLOCK as usize + 1);
    for way in 0..3 {
        let (mut fabric, [mut end, _]) = ends(config(Arrival::Flag));
        match way {
            0 => _ = end.try_send(&mut fabric, 7, &[&bytes]).unwrap(),
            1 => _ = end.try_send(&mut fabric, 7, &[&bytes[..300], &bytes[300..]]).unwrap(),
            _ => {
                let id = end.start(7, Length::Exact(bytes.len() as u64)).unwrap();
                let room = end.reserve(&mut fabric, id, count(bytes.len())).unwrap();
                assert_eq!(room.bytes() as usize, bytes.len());
                let spans: Vec<_> = room.spans().collect();
                assert_eq!(
                    spans,
                    [(offset(0), 4 * BLOCK), (offset(4), 4 * BLOCK), (offset(8), BLOCK + 1)],
                    "a group is one run"
                );
                let mut from = &bytes[..];
                for (at, length) in spans {
                    let part = from.split_off(..length as usize).unwrap();
                    fabric.fill(room.memory, at, part);
                }
                end.commit(&mut fabric, id, count(bytes.len())).unwrap();
            }
        }
        assert_eq!(flagged(&fabric, 1), [0, 4, 8], "way {way}");
        assert_eq!(*fabric.visible(Memory::landing(1), offset(0), count(bytes.len())), bytes);
    }
}

#[test]
fn a_group_arrives_with_its_own_flag_alone() {
    let bytes = pattern(9 * BLOCK as usize);
    let header = wire::chunk(MESSAGE, 7, bytes.len() as u64, bytes.len() as u64, 1, 1);
    for in_place in [false, true] {
        let (mut fabric, [mut end, _]) = ends(config(Arrival::Flag));
        put(&mut fabric, &bytes);
        // Flags of the blocks inside of groups prove nothing.
        for block in [1, 2, 3, 5, 6, 7] {
            flag(&mut fabric, block, 1);
        }
        fabric.forge(Memory::landing(0), layout().line_at(0), &header);
        let mut got = Vec::new();
        for (arrives, whole) in [(None, 4), (Some(4), 8), (Some(8), 9)] {
            if let Some(block) = arrives {
                flag(&mut fabric, block, 1);
            }
            if in_place {
                while let Readable::Run(run) = end.readable(&mut fabric, 3 * BLOCK) {
                    for (at, length) in run.spans() {
                        got.extend_from_slice(fabric.visible(run.memory, at, length));
                    }
                    end.consume(&mut fabric, run.bytes);
                }
            } else {
                let mut to = vec![0; 2048];
                let pulled = end.pull(&mut fabric, &mut [&mut to]);
                got.extend_from_slice(&to[..pulled.bytes]);
                assert_eq!(pulled.end == End::Fin, whole == 9);
            }
            assert_eq!(got.len(), whole * BLOCK as usize, "{in_place} {arrives:?}");
        }
        assert_eq!(got, bytes);
        assert_eq!(end.closed(), None);
    }
}

/// The fast path takes the groups that are here, and the rest by the general path.
#[test]
fn a_message_is_begun_with_a_group() {
    let bytes = pattern(6 * BLOCK as usize);
    let (mut fabric, [mut end, _]) = ends(config(Arrival::Flag));
    put(&mut fabric, &bytes);
    let header = wire::chunk(MESSAGE, 7, bytes.len() as u64, bytes.len() as u64, 1, 1);
    fabric.forge(Memory::landing(0), layout().line_at(0), &header);
    flag(&mut fabric, 1, 1);
    flag(&mut fabric, 5, 1);
    let mut to = vec![0; bytes.len()];
    assert_eq!(
        end.try_recv_complete(&mut fabric, &mut [&mut to]),
        TryRecv::Other,
        "a try takes all or nothing"
    );
    let begun = end.try_recv(&mut fabric, &mut [&mut to], 3);
    assert_eq!(begun, TryRecv::Begun { tag: 7, bytes: 4 * BLOCK as usize });
    assert_eq!(end.pull_from(&mut fabric, &mut [&mut to], 4 * BLOCK as usize).bytes, 0);
    flag(&mut fabric, 4, 1);
    let pulled = end.pull_from(&mut fabric, &mut [&mut to], 4 * BLOCK as usize);
    assert_eq!((pulled.bytes, pulled.end), (2 * BLOCK as usize, End::Fin));
    assert_eq!(to, bytes);
}

/// The check of a group covers its payload, and the number of its bytes.
#[test]
fn a_checked_flag_covers_the_group() {
    let bytes = pattern(6 * BLOCK as usize - 3);
    let [first, second] = [&bytes[..4 * BLOCK as usize], &bytes[4 * BLOCK as usize..]];
    let crc = |payload: &[u8]| {
        let seed = crc32c(&count(payload.len()).to_le_bytes(), crc32c(&1_u64.to_le_bytes(), !0));
        crc32c(payload, seed)
    };
    let mut header = wire::chunk(MESSAGE, 7, bytes.len() as u64, bytes.len() as u64, 1, 0);
    header.0[7] = 1 << 32 | u64::from(crc32c(&header.body_bytes(), crc(first)));
    let flags = [header.flag(), 1 << 32 | u64::from(crc(second))];

    let (mut fabric, [mut end, _]) = ends(config(Arrival::CheckedFlag));
    end.try_send(&mut fabric, 7, &[&bytes]).unwrap();
    let word = |block| fabric.memories().line(Memory::landing(1), layout().line_at(block)).flag();
    assert_eq!([0, 4].map(word), flags, "as sent");

    // One wrong byte in the last block of either group, and the group has not arrived.
    for (wrong, before) in [(4 * BLOCK as usize - 1, 0), (bytes.len() - 1, 4 * BLOCK as usize)] {
        let (mut fabric, [mut end, _]) = ends(config(Arrival::CheckedFlag));
        let mut late = bytes.clone();
        late[wrong] ^= 1;
        put(&mut fabric, &late);
        fabric.forge(Memory::landing(0), layout().line_at(0), &header);
        flag(&mut fabric, 4, flags[1]);
        let mut to = vec![0; bytes.len()];
        assert_eq!(end.pull(&mut fabric, &mut [&mut to]).bytes, before);
        put(&mut fabric, &bytes);
        let pulled = end.pull_from(&mut fabric, &mut [&mut to], before);
        assert_eq!((pulled.bytes, pulled.end), (bytes.len() - before, End::Fin));
        assert_eq!(to, bytes);
    }
}

/// A chunk is limited by the end of the ring, and its last group by the end of the chunk.
#[test]
fn a_group_ends_with_its_chunk() {
    // Two blocks are left up to the end of the ring: less than a group.
    for (bytes, fits) in [(2 * BLOCK, true), (2 * BLOCK + 1, false)] {
        for fast in [false, true] {
            let (mut fabric, [mut end, _]) = ends(config(Arrival::Flag));
            for block in 0..14 {
                let line = wire::inline(1, b"x", u64::from(block) + 1);
                fabric.forge(Memory::landing(0), layout().line_at(block), &line);
                let taken = end.try_recv(&mut fabric, &mut [&mut [0; 8]], 1);
                assert_eq!(taken, TryRecv::Taken { tag: 1, bytes: 1 });
            }
            let header = wire::chunk(MESSAGE, 7, bytes.into(), bytes.into(), 15, 15);
            fabric.forge(Memory::landing(0), layout().line_at(14), &header);
            let mut to = vec![0; 1000];
            let taken = if fast { end.try_recv(&mut fabric, &mut [&mut to], 1) } else { TryRecv::Other };
            if !fits {
                assert_eq!(taken, TryRecv::Other);
                end.incoming(&mut fabric);
                let refused = Closed::Failed(Failure::Protocol(ProtocolError::ChunkTooLong));
                assert_eq!(end.closed(), Some(refused));
            } else if fast {
                assert_eq!(taken, TryRecv::Taken { tag: 7, bytes: bytes as usize });
            } else {
                let pulled = end.pull(&mut fabric, &mut [&mut to]);
                assert_eq!((pulled.bytes, pulled.end), (bytes as usize, End::Fin));
            }
            if fits {
                // The next chunk is awaited in block 0.
                let line = wire::inline(1, b"x", 16);
                fabric.forge(Memory::landing(0), layout().line_at(0), &line);
                let taken = end.try_recv(&mut fabric, &mut [&mut [0; 8]], 1);
                assert_eq!(taken, TryRecv::Taken { tag: 1, bytes: 1 });
            }
        }
    }
}

/// A part of a long message waits for the blocks of a group, and takes whole groups.
#[test]
fn a_long_message_is_sent_in_whole_groups() {
    let (mut fabric, [mut end, mut peer]) = ends(Config { c0_bytes: 64, ..config(Arrival::Flag) });
    end.set_protocol(superpipe_core::Protocol::Eager);
    let bytes = pattern(64 * BLOCK as usize);
    let id = end.start(7, Length::Exact(bytes.len() as u64)).unwrap();
    // 16 blocks are free, of which one is kept for CANCEL.
    assert_eq!(end.push(&mut fabric, id, &[&bytes]).unwrap(), 12 * BLOCK as usize);
    assert_eq!(end.push(&mut fabric, id, &[&bytes[12 * BLOCK as usize..]]).unwrap(), 0, "3 blocks are free");
    let refused = end.reserve(&mut fabric, id, 4096).map(|room| room.bytes());
    assert_eq!(refused, Err(RefusedSend::NoCredit));
    // The end of the ring comes before the end of a group only if a chunk begins off a group.
    let mut to = vec![0; bytes.len()];
    let mut moved = [12 * BLOCK as usize, 0];
    while moved[1] < bytes.len() {
        moved[1] += peer.pull_from(&mut fabric, &mut [&mut to], moved[1]).bytes;
        peer.progress(&mut fabric);
        if moved[0] < bytes.len() {
            let pushed = end.push(&mut fabric, id, &[&bytes[moved[0]..]]).unwrap();
            assert!(pushed.is_multiple_of((GROUP * BLOCK) as usize), "{pushed}");
            moved[0] += pushed;
        }
    }
    assert_eq!(to, bytes);
}

/// What is short of a group and fits is sent at once, whatever is free.
#[test]
fn a_short_message_waits_for_its_own_blocks_only() {
    let (mut fabric, [mut end, _]) = ends(config(Arrival::Flag));
    for free in (1..=16).rev() {
        let sent = end.try_send(&mut fabric, 1, &[&[1; BLOCK as usize]]);
        assert!(sent.is_ok(), "{free} are free");
    }
    assert_eq!(end.try_send(&mut fabric, 1, &[&[1; 41]]), Err(RefusedSend::NoCredit));
}
