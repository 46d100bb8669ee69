//! Data of every size arrive byte for byte: around lines, blocks and chunks, with every protocol, tuned at either end.

use crate::support::{Noise, Scratch, some_core};
use std::fs;

/// Sends `data` from a file to a file, and compares.
fn moves(scratch: &Scratch, data: &[u8], sender: &[&str], receiver: &[&str]) {
    let (input, output) = (scratch.data("in"), scratch.data("out"));
    fs::write(&input, data).unwrap();
    let address = scratch.address();
    let (sent, received) = scratch.pair(
        scratch.rsend(&["-q", &address]).arg(&input).args(sender),
        scratch.rrecv(&["-q"]).arg(&output).args(receiver),
    );
    let what = format!("{} bytes, rsend {sender:?}, rrecv {receiver:?}", data.len());
    assert_eq!((sent.code, received.code), (0, 0), "{what}: {} {}", sent.said, received.said);
    assert_eq!((sent.said.as_str(), received.said.as_str()), ("", ""), "-q is quiet");
    assert!(fs::read(&output).unwrap() == data, "{what}: the copy differs");
    fs::remove_file(output).unwrap();
    fs::remove_file(input).unwrap();
    scratch.assert_only(&[]);
}

#[test]
fn sizes_around_lines_blocks_and_chunks_arrive() {
    let scratch = Scratch::new("sizes");
    let mut noise = Noise::from_time("sizes");
    let mut sizes = vec![0, 1, 2, 7, 8, 9];
    for edge in [40_usize, 48, 56, 64, 128, 4096, 8192, 16 << 10, 32 << 10, 64 << 10, 512 << 10, 1 << 20] {
        // the payload of a block or chunk with and without header and flag
        for less in [0, 8, 40, 64] {
            let size = usize::max(edge, less) - less;
            sizes.extend([size, size + 1]);
        }
        sizes.push(edge - 1);
    }
    sizes.extend([99_991, 1_299_709, 7_368_787]);
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        moves(&scratch, &noise.bytes(size), &[], &[]);
    }
}

#[test]
fn every_protocol_works_tuned_at_either_end() {
    let scratch = Scratch::new("protocols");
    let mut noise = Noise::from_time("protocols");
    for protocol in ["eager", "copy", "pipeline", "superpipeline", "provision"] {
        for (block, chunk, folds) in
            [("128", "1K", "1"), ("4K", "12345", "2"), ("64K", "256K", "3"), ("1M", "1M", "2")]
        {
            let tuning =
                ["--protocol", protocol, "--block-bytes", block, "--chunk-bytes", chunk, "--folds", folds];
            let size = usize::try_from(noise.below(3 << 20)).unwrap();
            let data = noise.bytes(size);
            moves(&scratch, &data, &tuning, &[]);
            moves(&scratch, &data, &[], &tuning);
        }
    }
}

#[test]
fn every_wait_and_checksum_works() {
    let scratch = Scratch::new("waits");
    let mut noise = Noise::from_time("waits");
    let data = noise.bytes(300_001);
    let core = some_core();
    for wait in ["yield", "sleep"] {
        let both = ["--wait", wait, "--core", &core];
        moves(&scratch, &data, &both, &both);
    }
    moves(&scratch, &data, &["--wait", "spin"], &["--wait", "spin"]);
    for checksum in ["crc64", "crc32c", "none"] {
        moves(&scratch, &data, &["--checksum", checksum], &[]);
        moves(&scratch, &data, &[], &["--checksum", checksum]);
    }
    moves(&scratch, &data, &["--checksum", "none"], &["--checksum", "crc32c"]);
}
