//! Pages that no publisher made: a reader refuses them, and never waits.

use core::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use superpipe::ErrorKind;
use superpipe::metrics::{PublishOptions, Reader, processes, publish};

use super::support::{pair, publish_now, read_own, turn};

const NAME: &CStr = c"superpipe-metrics";
const SHRINK_AND_GROW: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// Memory with the name of a page, with these contents and seals.
fn forge(contents: &[u8], seals: i32) -> File {
    // SAFETY: the name ends with a zero byte.
    let fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    assert!(fd >= 0);
    // SAFETY: the kernel has just made it.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.write_all(contents).unwrap();
    // SAFETY: it is open.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) }, 0);
    file
}

fn refusal() -> superpipe::Error {
    Reader::open(std::process::id()).unwrap_err()
}

/// The bytes of an honest page.
fn honest() -> Vec<u8> {
    let _publisher = publish(PublishOptions { connections_max: 2 }).unwrap();
    own_page()
}

/// The bytes of the page of this process.
fn own_page() -> Vec<u8> {
    let pages = std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter(|link| {
        std::fs::read_link(link.path()).is_ok_and(|to| to.to_string_lossy().contains("superpipe-metrics"))
    });
    let paths: Vec<_> = pages.map(|link| link.path()).collect();
    assert_eq!(paths.len(), 1);
    std::fs::read(&paths[0]).unwrap()
}

#[test]
fn forged_pages_are_refused_by_their_fault() {
    let _turn = turn();
    let page = honest();
    let with = |word: usize, value: u64| {
        let mut forged = page.clone();
        forged[8 * word..8 * word + 8].copy_from_slice(&value.to_ne_bytes());
        forged
    };
    let longer = [&page[..], &[0]].concat();
    for (contents, seals, kind, text) in [
        (page.clone(), 0, ErrorKind::Protocol, "have seals that"),
        (page.clone(), libc::F_SEAL_GROW, ErrorKind::Protocol, "have seals that"),
        (Vec::new(), SHRINK_AND_GROW, ErrorKind::Protocol, "have a header that"),
        (page[..200].to_vec(), SHRINK_AND_GROW, ErrorKind::Protocol, "have a header that"),
        (with(0, 7), SHRINK_AND_GROW, ErrorKind::Protocol, "have a header that"),
        (with(1, 2), SHRINK_AND_GROW, ErrorKind::Version, "have layout 2"),
        (with(3, 3), SHRINK_AND_GROW, ErrorKind::Protocol, "have a size that"),
        (with(3, u64::MAX), SHRINK_AND_GROW, ErrorKind::Protocol, "have a size that"),
        (longer, SHRINK_AND_GROW, ErrorKind::Protocol, "have a size that"),
        (with(6, 0), SHRINK_AND_GROW, ErrorKind::Connect, "publishes no metrics"),
        // Of another process, as a child of fork has it.
        (with(2, 1), SHRINK_AND_GROW, ErrorKind::Connect, "publishes no metrics"),
        // Of one that has the same number in another pid namespace.
        (with(7, 1), SHRINK_AND_GROW, ErrorKind::Connect, "publishes no metrics"),
    ] {
        let _forged = forge(&contents, seals);
        let error = refusal();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(!processes().unwrap().contains(&std::process::id()));
    }
}

/// A page beside that of the library does not hide it.
#[test]
fn a_forged_page_beside_an_honest_one_hides_nothing() {
    let _turn = turn();
    let forged = forge(b"nothing", SHRINK_AND_GROW);
    let _publisher = publish_now();
    assert_eq!(read_own().connections, []);
    drop(forged);
}

/// Samples of one name and one number may come once only.
#[test]
fn a_number_that_a_page_has_twice_is_read_once() {
    let _turn = turn();
    let publisher = publish(PublishOptions { connections_max: 2 }).unwrap();
    let ends = pair("twice");
    assert_eq!(read_own().connections.len(), 2);
    let page = own_page();
    drop((ends, publisher));
    // The lines of both connections are behind 19 sequences, rounded up to a cache line, and those of the process and 16 pollers.
    let line_at = 256 + 8 * 24 + 17 * 512;
    let mut forged = page.clone();
    forged[line_at + 512..line_at + 1024].copy_from_slice(&page[line_at..line_at + 512]);
    // Two pollers, which have the same number as well.
    let (sequence_at, poller_at) = (256 + 8, 256 + 8 * 24 + 512);
    for poller in 0..2 {
        forged[sequence_at + 8 * poller..][..8].copy_from_slice(&2_u64.to_ne_bytes());
        forged[poller_at + 512 * poller..][..8].copy_from_slice(&9_u64.to_ne_bytes());
    }
    let _forged = forge(&forged, SHRINK_AND_GROW);
    let found = read_own();
    assert_eq!((found.connections.len(), found.pollers.len()), (1, 1));
}

#[test]
fn lines_that_stand_still_or_mean_nothing_do_no_harm() {
    let _turn = turn();
    let page = honest();
    let forged = forge(&page, SHRINK_AND_GROW);
    let mut reader = Reader::open(std::process::id()).unwrap();
    assert_eq!(reader.read().unwrap().unsettled, 0);
    // The first connection's sequence is behind those of the process and 16 pollers.
    let sequence_at = 256 + 8 * 17;
    // Its writer stands still.
    forged.write_all_at(&1_u64.to_ne_bytes(), sequence_at).unwrap();
    let found = reader.read().unwrap();
    assert_eq!((found.unsettled, found.connections.len()), (1, 0));
    // 19 sequences, rounded up to a cache line; then the lines.
    let line_at = 256 + 8 * 24 + 17 * 512;
    forged.write_all_at(&5_u64.to_ne_bytes(), line_at).unwrap();
    forged.write_all_at(&77_u64.to_ne_bytes(), line_at + 8).unwrap();
    forged.write_all_at(&2_u64.to_ne_bytes(), sequence_at).unwrap();
    let error = reader.read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.to_string().contains("have a fabric that superpipe does not write"), "{error}");
}
