//! A bit that is flipped on its way, for tests of whoever compares digests: that one and no other.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::thread;

use superpipe::Connection;
use superpipe::io::{Digest, DigestKind, Source};

use crate::support::{DEADLINE, bytes, pair, path};

/// More than a landing buffer, so that parts lie in two spans.
const BYTES: usize = 1_200_000;
/// Bytes that are written before the rest is read from a file.
const WRITTEN: usize = 1000;

fn send(a: &mut Connection, payload: &[u8], flip_at: u64) {
    let path = path();
    std::fs::write(&path, &payload[WRITTEN..]).unwrap();
    let mut source = Source::new(OwnedFd::from(File::open(&path).unwrap())).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut digest = Digest::new(DigestKind::Crc64);
    digest.update(&payload[..WRITTEN]);
    let mut stream = a.open_stream(7, DEADLINE).unwrap();
    stream.inject_flip(flip_at);
    stream.write_all(&payload[..WRITTEN]).unwrap();
    // Of different lengths, so that parts begin anywhere in the ring.
    let mut max_bytes = 1;
    while stream.read_from(&mut source, max_bytes, &mut digest).unwrap() > 0 {
        max_bytes = (max_bytes * 7).min(usize::MAX >> 4);
    }
    stream.finish(DEADLINE).unwrap();
    let mut whole = Digest::new(DigestKind::Crc64);
    whole.update(payload);
    assert_eq!(digest.value(), whole.value(), "it is flipped after it was counted");
}

#[test]
fn one_bit_of_one_byte_is_flipped() {
    let (mut a, mut b) = pair();
    let offsets = [1000, 1001, 1008, 1056, 1057, 20_000, 524_287, 524_288, 777_777, 777_778, 1_199_999];
    thread::scope(|scope| {
        scope.spawn(|| {
            for (seed, at) in (1..).zip(offsets) {
                send(&mut a, &bytes(seed, BYTES), at);
            }
        });
        let mut parities = [0; 2];
        for (seed, at) in (1..).zip(offsets) {
            let mut expected = bytes(seed, BYTES);
            let at = usize::try_from(at).unwrap();
            parities[usize::from(expected[at] & 1)] += 1;
            expected[at] ^= 1;
            let mut all = Vec::new();
            b.accept_stream(DEADLINE).unwrap().read_to_end(&mut all).unwrap();
            let differ: Vec<usize> =
                (0..BYTES).filter(|at| all.get(*at) != expected.get(*at)).take(5).collect();
            assert_eq!((all.len(), differ), (BYTES, vec![]), "a bit of byte {at}");
        }
        assert!(parities.iter().all(|count| *count > 1), "ones and zeros: {parities:?}");
    });
}

#[test]
fn none_is_beyond_the_stream_or_in_what_was_written() {
    let (mut a, mut b) = pair();
    let offsets = [0, 999, BYTES as u64, u64::MAX];
    thread::scope(|scope| {
        scope.spawn(|| offsets.into_iter().for_each(|at| send(&mut a, &bytes(3, BYTES), at)));
        for at in offsets {
            let mut all = Vec::new();
            b.accept_stream(DEADLINE).unwrap().read_to_end(&mut all).unwrap();
            assert!(all == bytes(3, BYTES), "{at}");
        }
    });
}
