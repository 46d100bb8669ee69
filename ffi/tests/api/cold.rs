//! Receiving into memory that was never written: what arrives is the same, and nothing else is touched.

use core::time::Duration;
use std::thread::{self, JoinHandle};

use superpipe::{Connection, ErrorKind, Protocol, RecvBuf};

use crate::support::{DEADLINE, bytes, pair};

const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;

/// Nothing, tiny, less than a page, around C0, around a huge page, and several.
const SIZES: [usize; 9] = [0, 8, 1000, 65_536, 65_537, 1_000_003, HUGE, HUGE + 1, 3 * HUGE + 12_345];

/// Sends a message of each size by each protocol, and receives it with `receive`.
fn exchange(mut receive: impl FnMut(&mut Connection, usize, &[u8])) {
    let (mut a, mut b) = pair();
    let sender = thread::spawn(move || {
        for protocol in Protocol::ALL {
            a.set_protocol(protocol);
            for (seed, size) in SIZES.into_iter().enumerate() {
                let message = bytes(seed as u64, size);
                a.send(seed as u64, &[&message], DEADLINE).unwrap();
            }
        }
        a.flush(DEADLINE).unwrap();
    });
    for _ in Protocol::ALL {
        for (seed, size) in SIZES.into_iter().enumerate() {
            receive(&mut b, seed, &bytes(seed as u64, size));
        }
    }
    sender.join().unwrap();
}

#[test]
fn a_recv_buf_takes_what_is_sent() {
    exchange(|connection, seed, message| {
        let mut buffer = RecvBuf::new(message.len()).unwrap();
        let received = if seed % 2 == 0 {
            connection.recv_into(&mut [&mut buffer], DEADLINE)
        } else {
            connection.recv_into_cold(&mut [&mut buffer], DEADLINE)
        };
        assert_eq!(received.unwrap().bytes, message.len());
        assert!(*buffer == *message, "{} bytes", message.len());
    });
}

#[test]
fn slices_of_any_alignment_are_filled_and_nothing_beside() {
    const EDGE: usize = 0xEE;
    for offset in [0, 1, 63, PAGE - 1, HUGE - 1] {
        exchange(|connection, _, message| {
            // The heap's own memory, never written where it is large.
            let mut memory = vec![0; offset + message.len() + EDGE];
            memory[..offset].fill(0xA5);
            memory[offset + message.len()..].fill(0x5A);
            let slice = &mut memory[offset..offset + message.len()];
            let (first, rest) = slice.split_at_mut(message.len() / 3);
            let (second, third) = rest.split_at_mut(rest.len().min(100));
            let received = connection.recv_into_cold(&mut [first, &mut [], second, third], DEADLINE);
            assert_eq!(received.unwrap().bytes, message.len());
            assert!(memory[offset..offset + message.len()] == *message, "{} at {offset}", message.len());
            assert!(memory[..offset].iter().all(|&byte| byte == 0xA5), "before");
            assert!(memory[offset + message.len()..].iter().all(|&byte| byte == 0x5A), "after");
        });
    }
}

/// Sends one message from a thread of its own.
fn send(mut connection: Connection, message: Vec<u8>) -> JoinHandle<()> {
    thread::spawn(move || {
        connection.send(1, &[&message], DEADLINE).and_then(|()| connection.flush(DEADLINE)).unwrap();
    })
}

/// Pages of the buffer that are resident.
fn resident_pages(buffer: &RecvBuf) -> usize {
    let mut answers = vec![0_u8; buffer.len() / PAGE];
    // SAFETY: the buffer begins at a page and is whole pages long, and there is a byte for each.
    let status =
        unsafe { libc::mincore(buffer.as_ptr().cast_mut().cast(), buffer.len(), answers.as_mut_ptr()) };
    assert_eq!(status, 0);
    answers.iter().filter(|&&answer| answer & 1 == 1).count()
}

#[test]
fn nothing_is_touched_before_there_is_something_to_receive() {
    let (mut a, mut b) = pair();
    let mut buffer = RecvBuf::new(3 * HUGE).unwrap();
    let error = b.recv_into_cold(&mut [&mut buffer], Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(resident_pages(&buffer), 0);
    a.send(1, &[b"late"], DEADLINE).unwrap();
    assert_eq!(b.recv_into_cold(&mut [&mut buffer], DEADLINE).unwrap().bytes, 4);
    assert_eq!(buffer[..5], *b"late\0");
}

#[test]
fn nothing_is_touched_beyond_the_message() {
    let (a, mut b) = pair();
    // Too small for a huge page, so that residency shows page by page.
    let mut buffer = RecvBuf::new(64 * PAGE).unwrap();
    let message = bytes(1, 20 * PAGE + 1);
    let sender = send(a, message.clone());
    assert_eq!(b.recv_into_cold(&mut [&mut buffer], DEADLINE).unwrap().bytes, message.len());
    assert!(buffer[..message.len()] == *message);
    assert_eq!(resident_pages(&buffer), 21);
    sender.join().unwrap();
}

#[test]
fn what_does_not_fit_stays_and_nothing_is_touched() {
    let (a, mut b) = pair();
    let message = bytes(1, 100_000);
    let sender = send(a, message.clone());
    let mut small = RecvBuf::new(16 * PAGE).unwrap();
    let error = b.recv_into_cold(&mut [&mut small], DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooSmall);
    assert_eq!(resident_pages(&small), 0);
    let mut large = RecvBuf::new(message.len()).unwrap();
    assert_eq!(b.recv_into_cold(&mut [&mut large], DEADLINE).unwrap().bytes, message.len());
    assert!(*large == *message);
    sender.join().unwrap();
}

/// Memory of whole huge pages that nobody has advised or written.
struct Fresh {
    at: *mut u8,
    bytes: usize,
}

impl Fresh {
    fn new(bytes: usize) -> Self {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let at = unsafe { libc::mmap(core::ptr::null_mut(), bytes, prot, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Self { at: at.cast(), bytes }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is ours alone, borrowed mutably, and zeros where nothing was written.
        unsafe { core::slice::from_raw_parts_mut(self.at, self.bytes) }
    }

    /// Returns true if huge pages were asked for at this address (`hg`, proc(5)).
    fn is_advised(&self, offset: usize) -> bool {
        let address = self.at.addr() + offset;
        let mut is_here = false;
        for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
            if let Some((from, to)) = line.split(' ').next().and_then(|range| range.split_once('-'))
                && let (Ok(from), Ok(to)) = (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
            {
                is_here = (from..to).contains(&address);
            } else if is_here && let Some(flags) = line.strip_prefix("VmFlags:") {
                return flags.split_whitespace().any(|flag| flag == "hg");
            }
        }
        false
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows it any more.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

#[test]
fn huge_pages_are_asked_for_as_far_as_the_message_goes() {
    if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        return; // this kernel has none
    }
    let (a, mut b) = pair();
    let mut memory = Fresh::new(16 * HUGE);
    let message = bytes(1, 6 * HUGE);
    let sender = send(a, message.clone());
    assert!(!memory.is_advised(4 * HUGE));
    // Over two slices, that do not touch.
    let (first, rest) = memory.bytes_mut().split_at_mut(5 * HUGE);
    let received = b.recv_into_cold(&mut [&mut first[..3 * HUGE], &mut rest[..4 * HUGE]], DEADLINE).unwrap();
    assert_eq!(received.bytes, message.len());
    for (offset, advised) in [(HUGE, true), (4 * HUGE, false), (6 * HUGE, true), (9 * HUGE, false)] {
        assert_eq!(memory.is_advised(offset), advised, "{} MiB", offset >> 20);
    }
    assert!(memory.bytes_mut()[..3 * HUGE] == message[..3 * HUGE]);
    assert!(memory.bytes_mut()[5 * HUGE..8 * HUGE] == message[3 * HUGE..]);
    sender.join().unwrap();
}
