//! Whole messages by direct store fill the ring to its last block and go on over its end, and never over what was not taken
//! out.

use superpipe_core::{Config, End, Endpoint, FlagPlace, Layout, Origin, RefusedSend, TryRecv};
use superpipe_testkit::{Direct, PairFabric, Setup, TestFabric};

const C0_BYTES: u32 = 700;
const MESSAGES: usize = 600;

/// Sizes around what one block, two and three hold, with bytes that tell message and place.
fn payload(index: usize) -> Vec<u8> {
    let bytes = [60, 192, 193, 440, 441, 9, 700, 41, 600, 0, 688][index % 11];
    (0..bytes).map(|at| (index * 7 + at).to_le_bytes()[0]).collect()
}

fn send(
    fabric: &mut Direct,
    sender: &mut Endpoint<Direct>,
    index: usize,
    slices: usize,
) -> Result<(), RefusedSend> {
    let message = payload(index);
    let (head, tail) = message.split_at(message.len() / 3);
    let slices = if slices == 1 { &[&message[..]][..] } else { &[head, tail] };
    sender.try_send(fabric, index as u64, slices).map(drop)
}

fn take(fabric: &mut Direct, receiver: &mut Endpoint<Direct>, index: usize, short_way: bool) {
    let message = payload(index);
    let mut place = [0; C0_BYTES as usize];
    if short_way && let TryRecv::Taken { tag, bytes } = receiver.try_recv(fabric, &mut [&mut place], 1) {
        assert_eq!((tag, &place[..bytes]), (index as u64, &message[..]));
        return;
    }
    assert_eq!(receiver.incoming(fabric).map(|incoming| incoming.tag), Some(index as u64));
    let mut bytes = 0;
    for _ in 0..2 {
        let pulled = receiver.pull_from(fabric, &mut [&mut place], bytes);
        bytes += pulled.bytes;
        if pulled.end == End::Fin {
            break;
        }
    }
    assert_eq!(place[..bytes], message, "message {index}");
}

/// As much is sent as goes, and so many messages are taken; over and over.
fn every_message_arrives_complete(layout: Layout, slices: usize, at_once: usize, short_way: bool) {
    let fabric = &mut Direct::new(&Setup::new(layout, 1));
    let config = Config { c0_bytes: C0_BYTES, ..Config::default() };
    let [mut sender, mut receiver] =
        [0, 1].map(|side| Endpoint::new(fabric, fabric.attachment(side), config, Origin::default()).unwrap());
    let (mut sent, mut taken) = (0, 0);
    while taken < MESSAGES {
        loop {
            match send(fabric, &mut sender, sent, slices) {
                Ok(()) => sent += 1,
                Err(refused) => break assert_eq!(refused, RefusedSend::NoCredit),
            }
        }
        assert!(sent > taken, "an empty ring takes any of them");
        for _ in 0..at_once.min(sent - taken) {
            take(fabric, &mut receiver, taken, short_way);
            taken += 1;
        }
        receiver.acknowledge(fabric);
    }
}

#[test]
fn every_message_arrives_complete_over_the_end_of_the_ring() {
    let apart = [1, 2, 4, 16].map(|group_blocks| FlagPlace::Apart { group_blocks });
    for flags in apart.into_iter().chain([FlagPlace::Inside]) {
        for block_count in [5, 7, 16] {
            for (slices, at_once, short_way) in [(1, 1, true), (1, 3, false), (2, 1, false), (2, 2, true)] {
                let layout = Layout { block_bytes: 256, block_count, flags };
                every_message_arrives_complete(layout, slices, at_once, short_way);
            }
        }
    }
}

/// A ring takes this many messages of one, two and three blocks, and refuses the next one.
#[test]
fn a_ring_holds_as_many_messages_as_blocks() {
    let layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };
    for (bytes, messages) in [(8, 8), (192, 8), (193, 4), (440, 4), (441, 2)] {
        let fabric = &mut Direct::new(&Setup::new(layout, 1));
        let config = Config { c0_bytes: C0_BYTES, ..Config::default() };
        let mut end = Endpoint::new(fabric, fabric.attachment(0), config, Origin::default()).unwrap();
        for _ in 0..messages {
            end.try_send(fabric, 1, &[&vec![7; bytes]]).unwrap();
        }
        let refused = end.try_send(fabric, 1, &[&vec![7; bytes]]);
        assert_eq!(refused, Err(RefusedSend::NoCredit), "{bytes} bytes");
    }
}
