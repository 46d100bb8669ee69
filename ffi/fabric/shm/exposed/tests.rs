//! Exposed memory: what a peer can do with it, and each rule that refuses.

use super::*;
use crate::fabric::shm::foreign::{allocated_bytes, foreign, sealable};
use crate::os::ExposedMemory;
use crate::os::memfd::SEALS;
use core::ptr;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals};
use std::fs::File;
use std::os::fd::AsRawFd;

const PAGE: u64 = 4096;

fn sent(memory: &ExposedMemory) -> OwnedFd {
    memory.fd().try_clone_to_owned().unwrap()
}

fn adopt(memory: &ExposedMemory) -> PeerMemory {
    PeerMemory::adopt(sent(memory), memory.bytes() as u64, memory.access()).unwrap()
}

fn refusal(fd: OwnedFd, access: PeerAccess) -> SegmentError {
    PeerMemory::adopt(fd, PAGE, access).unwrap_err()
}

/// Returns the error of mapping a page of the file for writing.
fn map_for_writing(fd: &OwnedFd) -> Option<i32> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing; if it is made, nobody uses it.
    let mapped =
        unsafe { libc::mmap(ptr::null_mut(), 4096, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
    (mapped == libc::MAP_FAILED).then(|| std::io::Error::last_os_error().raw_os_error().unwrap())
}

#[test]
fn a_peer_sees_what_the_owner_writes_later() {
    let memory = ExposedMemory::create(c"test", 3 * 4096 - 1, PeerAccess::Read).unwrap();
    let seen = adopt(&memory);
    assert!(matches!(seen, PeerMemory::ReadOnly(_)));
    assert_eq!((memory.bytes(), seen.len()), (3 * 4096 - 1, 3 * 4096));
    for offset in 0..memory.bytes() {
        // SAFETY: the offset is inside both mappings, and no other thread knows them.
        let byte = unsafe {
            memory.as_ptr().add(offset).write_volatile(offset.to_le_bytes()[0] ^ 0x5A);
            seen.as_ptr().add(offset).read_volatile()
        };
        assert_eq!(byte, offset.to_le_bytes()[0] ^ 0x5A);
    }
}

#[test]
fn nobody_can_punch_write_or_resize_what_a_peer_reads() {
    let memory = ExposedMemory::create(c"test", 4 * 4096, PeerAccess::Read).unwrap();
    let (fd, seen) = (sent(&memory), adopt(&memory));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(&fd, punch, 0, PAGE), Err(Errno::PERM));
    assert_eq!(map_for_writing(&fd), Some(libc::EPERM));
    assert_eq!(rustix::io::pwrite(&fd, b"x", 0), Err(Errno::PERM));
    assert_eq!(fcntl_add_seals(&fd, SealFlags::WRITE), Err(Errno::PERM), "no seal can be added");
    let file = File::from(fd);
    for bytes in [0, PAGE, 5 * PAGE] {
        assert_eq!(file.set_len(bytes).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
    // Not even the owner, whose mapping can be written.
    assert_eq!(memory.mapping().remove(0..4096).unwrap_err().errno(), libc::EPERM);
    // SAFETY: the range is this test's own mapping.
    let protected = unsafe { libc::mprotect(seen.as_ptr().as_ptr().cast(), 4096, libc::PROT_WRITE) };
    assert_eq!(protected, -1, "a peer cannot make its mapping writable");
    assert_eq!(allocated_bytes(memory.fd()), 4 * PAGE);
}

#[test]
fn a_trusted_peer_writes_what_the_owner_sees() {
    let memory = ExposedMemory::create(c"test", 4096, PeerAccess::ReadWrite).unwrap();
    let PeerMemory::Writable(theirs) = adopt(&memory) else { panic!("it is not writable") };
    // SAFETY: the byte is inside both mappings, and no other thread knows them.
    let byte = unsafe {
        theirs.as_ptr().add(4095).write_volatile(7);
        memory.as_ptr().add(4095).read_volatile()
    };
    assert_eq!(byte, 7);
}

/// A seal against holes would forbid the peer's writes, too.
#[test]
fn a_hole_in_memory_that_is_written_is_allocated_anew() {
    let memory = ExposedMemory::create(c"test", 2 * 4096, PeerAccess::ReadWrite).unwrap();
    let PeerMemory::Writable(theirs) = adopt(&memory) else { panic!("it is not writable") };
    // SAFETY: the byte is inside the mapping, and no other thread knows it.
    unsafe { memory.as_ptr().write_volatile(9) };
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(memory.fd(), punch, 0, PAGE).unwrap();
    assert_eq!(allocated_bytes(memory.fd()), PAGE);
    // SAFETY: the bytes are inside both mappings, and no other thread knows them.
    let seen = unsafe {
        let hole = memory.as_ptr().read_volatile();
        theirs.as_ptr().write_volatile(7);
        [hole, memory.as_ptr().read_volatile()]
    };
    assert_eq!((seen, allocated_bytes(memory.fd())), ([0, 7], 2 * PAGE));
    for bytes in [0, PAGE, 5 * PAGE] {
        let file = File::from(sent(&memory));
        assert_eq!(file.set_len(bytes).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
    assert_eq!(fcntl_add_seals(memory.fd(), SealFlags::WRITE), Err(Errno::PERM), "no seal can be added");
}

#[test]
fn pages_to_be_written_are_allocated_and_mapped_first() {
    let fd = sealable(300 * PAGE, PeerAccess::ReadWrite.seals());
    let seen = PeerMemory::adopt(fd.try_clone().unwrap(), 300 * PAGE, PeerAccess::ReadWrite).unwrap();
    assert_eq!((allocated_bytes(&fd), seen.len()), (300 * PAGE, 300 * 4096));
    let mut resident = vec![0_u8; 300];
    // SAFETY: the range is the mapping's, and the vector has a byte for each of its pages.
    let answer = unsafe { libc::mincore(seen.as_ptr().as_ptr().cast(), seen.len(), resident.as_mut_ptr()) };
    assert!(answer == 0 && resident.iter().all(|page| page & 1 == 1));
}

#[test]
fn memory_outlives_its_owner_at_the_peer() {
    let memory = ExposedMemory::create(c"test", 1, PeerAccess::Read).unwrap();
    // SAFETY: the byte is inside the mapping, and no other thread knows it.
    unsafe { memory.as_ptr().write_volatile(9) };
    let seen = adopt(&memory);
    drop(memory);
    // SAFETY: the byte is inside the mapping, and nobody writes it any more.
    assert_eq!(unsafe { seen.as_ptr().read_volatile() }, 9);
}

#[test]
fn each_seal_that_is_missing_is_named() {
    let all = PeerAccess::Read.seals();
    for seal in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::FUTURE_WRITE] {
        let error = refusal(sealable(PAGE, all - seal), PeerAccess::Read);
        assert_eq!(error, SegmentError::Unsealed { missing: seal });
    }
    let error = refusal(sealable(PAGE, all - SealFlags::SEAL), PeerAccess::Read);
    assert_eq!(error, SegmentError::Unsealed { missing: SealFlags::SEAL });
    let error = refusal(sealable(PAGE, SEALS), PeerAccess::ReadWrite);
    assert_eq!(error, SegmentError::Unsealed { missing: SealFlags::SEAL });
    let read_only = sealable(PAGE, all);
    assert_eq!(refusal(read_only, PeerAccess::ReadWrite), SegmentError::NotWritable);
}

#[test]
fn a_wrong_size_and_what_is_no_memory_are_refused() {
    let error = refusal(sealable(2 * PAGE, PeerAccess::Read.seals()), PeerAccess::Read);
    assert_eq!(error, SegmentError::WrongSize { agreed: PAGE, found: 2 * PAGE });
    let file = OwnedFd::from(File::open("/proc/self/exe").unwrap());
    assert_eq!(refusal(file, PeerAccess::Read), SegmentError::NotMemory);
    let unsealable = foreign(MemfdFlags::empty(), PAGE, SealFlags::empty());
    assert!(matches!(refusal(unsealable, PeerAccess::Read), SegmentError::Unsealed { .. }));
}

/// A sparse file would be filled by the reader's faults, beyond what it has counted or as a SIGBUS.
#[test]
fn pages_that_a_peer_left_out_are_allocated_first() {
    let fd = sealable(8 * PAGE, PeerAccess::Read.seals());
    assert_eq!(allocated_bytes(&fd), 0);
    let seen = PeerMemory::adopt(fd.try_clone().unwrap(), 8 * PAGE, PeerAccess::Read).unwrap();
    assert_eq!((allocated_bytes(&fd), seen.len()), (8 * PAGE, 8 * 4096));
}
