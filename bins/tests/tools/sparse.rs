//! Runs of zeros, which become holes in a file.

use crate::support::{Mounted, Noise, Scratch, is_root};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Creates a sparse file of `size` bytes with noise at these offsets.
fn make(path: &Path, size: u64, noise_at: &[u64]) {
    let file = File::create(path).unwrap();
    file.set_len(size).unwrap();
    for &at in noise_at {
        file.write_all_at(&Noise::new(at + 1).bytes(5000), at).unwrap();
    }
}

#[test]
fn holes_are_kept_and_data_are_equal() {
    const SIZE: u64 = 48 << 20;
    for (noise_at, size) in [
        (&[][..], SIZE),
        (&[0][..], SIZE),
        (&[0, 10 << 20, (10 << 20) + 20_000], SIZE),
        (&[3, 40_000_000], SIZE + 1),
        (&[SIZE - 5000], SIZE),
        (&[][..], 1),
        (&[][..], 0),
    ] {
        for options in [&[][..], &["--block-bytes", "1M"], &["--block-bytes", "128", "--checksum", "none"]] {
            let scratch = Scratch::new("sparse");
            let (input, out) = (scratch.root().join("in"), scratch.data("out"));
            make(&input, size, noise_at);
            fs::write(&out, b"old").unwrap();
            let (sent, received) = scratch
                .pair(scratch.rsend(&[&scratch.address()]).arg(&input), scratch.rrecv(options).arg(&out));
            sent.assert_done();
            received.assert_done();
            assert!(fs::read(&out).unwrap() == fs::read(&input).unwrap(), "{noise_at:?} {options:?}");
            let found = fs::metadata(&out).unwrap();
            assert_eq!(found.len(), size);
            let on_disk = found.blocks() * 512;
            assert!(on_disk <= 2 << 20, "{on_disk} bytes on disk of {noise_at:?} with {options:?}");
            scratch.assert_only(&["out"]);
        }
    }
}

/// Zeros must be written into a file that holds other data at this place.
#[test]
fn zeros_overwrite_old_data() {
    let scratch = Scratch::new("dense");
    let out = scratch.data("out");
    fs::write(&out, vec![7; 300_000]).unwrap();
    let input = scratch.root().join("in");
    make(&input, 200_000, &[]);
    let stdout = File::options().write(true).open(&out).unwrap();
    let (sent, received) =
        scratch.pair(scratch.rsend(&[&scratch.address()]).arg(&input), scratch.rrecv(&[]).stdout(stdout));
    sent.assert_done();
    received.assert_done();
    assert_eq!(fs::read(&out).unwrap(), [vec![0; 200_000], vec![7; 100_000]].concat());
}

#[test]
fn a_sparse_file_fits_where_its_length_does_not() {
    if !is_root("a small tmpfs") {
        return;
    }
    let scratch = Scratch::new("sparse-room");
    let tmpfs = ["-t", "tmpfs", "-o", "size=1m"];
    let Some(mounted) = Mounted::new(&tmpfs, Path::new("superpipe-test"), &scratch.data("")) else {
        eprintln!("NOT TESTED: a small tmpfs, since mount is not allowed here");
        return;
    };
    let input = scratch.root().join("in");
    make(&input, 8 << 20, &[0, 5 << 20]);
    let send = |options: &[&str]| {
        scratch.pair(
            scratch.rsend(&[&scratch.address()]).arg(&input),
            scratch.rrecv(options).arg(scratch.data("out")),
        )
    };
    let refused = send(&[]);
    let (sent, received) = send(&["--sparse"]);
    let copied = fs::read(scratch.data("out"));
    drop(mounted);
    refused.1.assert(8, "no space left on device: 8 MiB were announced, and ");
    refused.0.assert(8, "receiver: cannot write to");
    sent.assert_done();
    received.assert_done();
    assert!(copied.unwrap() == fs::read(&input).unwrap());
}
