//! Segments: what is adopted, and each rule that refuses.

use super::*;
use crate::fabric::shm::foreign::{allocated_bytes, foreign, sealable};
use crate::os::memfd::{SLAB_BYTES, call_memfd, fill, machine_bytes};
use crate::os::memory_node::some_placement;
use crate::os::page::page_bytes;
use core::ptr;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::io::{FdFlags, fcntl_getfd};
use std::fs::{self, File};
use std::io::{self, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;

const PAGE: u64 = 4096;

fn adopt(fd: impl Into<OwnedFd>) -> SegmentError {
    let fd: OwnedFd = fd.into();
    Segment::adopt(fd, PAGE).unwrap_err()
}

#[test]
fn both_ends_see_the_same_bytes() {
    let made = Segment::create(c"test", 3 * 4096 - 1).unwrap();
    assert_eq!(made.len(), round_to_pages(3 * 4096 - 1).unwrap());
    let taken = Segment::adopt(made.fd().try_clone_to_owned().unwrap(), made.len() as u64).unwrap();
    assert_ne!(made.as_ptr(), taken.as_ptr());
    for offset in 0..made.len() {
        // SAFETY: the offset is inside both mappings, and no other thread knows them.
        let zero = unsafe {
            let zero = taken.as_ptr().add(offset).read_volatile();
            made.as_ptr().add(offset).write_volatile(offset.to_le_bytes()[0] ^ 0x5A);
            zero
        };
        assert_eq!(zero, 0);
    }
    let len = made.len();
    let taken = taken.into_mapping();
    drop(made);
    for offset in 0..len {
        // SAFETY: the offset is inside the mapping, and nobody writes it any more.
        let byte = unsafe { taken.as_ptr().add(offset).read_volatile() };
        assert_eq!(byte, offset.to_le_bytes()[0] ^ 0x5A);
    }
}

#[test]
fn a_new_segment_is_sealed_resident_and_not_inherited() {
    let made = Segment::create(c"test", 8 * 4096).unwrap();
    assert_eq!(fcntl_get_seals(made.fd()).unwrap() & (SEALS | SEALS_WRITE), SEALS);
    assert_eq!(fcntl_getfd(made.fd()).unwrap(), FdFlags::CLOEXEC);
    assert_eq!(allocated_bytes(made.fd()), 8 * 4096);
    let file = File::from(made.fd().try_clone_to_owned().unwrap());
    assert_eq!(file.set_len(0).unwrap_err().raw_os_error(), Some(libc::EPERM));
    assert_eq!(file.set_len(1 << 20).unwrap_err().raw_os_error(), Some(libc::EPERM));

    let mut resident = [0_u8; 8];
    let pages = made.len() / page_bytes();
    // SAFETY: the range is the segment's, and the vector has a byte for each of its at most 8 pages.
    let answer = unsafe { libc::mincore(made.as_ptr().as_ptr().cast(), made.len(), resident.as_mut_ptr()) };
    assert_eq!((answer, resident[..pages].iter().all(|page| page & 1 == 1)), (0, true));
}

#[test]
fn missing_seals_are_named() {
    let never = adopt(foreign(MemfdFlags::empty(), PAGE, SealFlags::empty()));
    assert_eq!(never, SegmentError::Unsealed { missing: SEALS });
    assert_eq!(adopt(sealable(PAGE, SealFlags::empty())), SegmentError::Unsealed { missing: SEALS });
    for missing in [SealFlags::SHRINK, SealFlags::GROW] {
        assert_eq!(adopt(sealable(PAGE, SEALS - missing)), SegmentError::Unsealed { missing });
    }
    assert_eq!(
        adopt(sealable(PAGE, SealFlags::GROW)).to_string(),
        "the peer's segment can still change: it lacks F_SEAL_SHRINK"
    );
    // Sealed too early: nobody can add what keeps its pages.
    let missing = SealFlags::FUTURE_WRITE;
    assert_eq!(adopt(sealable(PAGE, SEALS | SealFlags::SEAL)), SegmentError::Unsealed { missing });
}

#[test]
fn a_wrong_size_names_both() {
    for (found, text) in
        [(PAGE - 1, "4095 bytes"), (PAGE + 1, "4097 bytes"), (2 * PAGE, "8 KiB"), (0, "0 bytes")]
    {
        let error = adopt(sealable(found, SEALS));
        assert_eq!(error, SegmentError::WrongSize { agreed: PAGE, found });
        assert_eq!(error.to_string(), format!("the peer's segment has {text}; agreed were 4 KiB"));
    }
    let nothing = Segment::adopt(sealable(0, SEALS), 0).unwrap_err();
    assert_eq!(nothing, SegmentError::WrongSize { agreed: 0, found: 0 });
}

#[test]
fn descriptors_without_memory_are_refused() {
    let (reader, writer) = pipe().unwrap();
    assert_eq!(adopt(reader), SegmentError::NotMemory);
    assert_eq!(adopt(writer), SegmentError::NotMemory);
    assert_eq!(adopt(UnixStream::pair().unwrap().0), SegmentError::NotMemory);
    assert_eq!(adopt(File::open("/").unwrap()), SegmentError::NotMemory);
    assert_eq!(adopt(File::open("/dev/null").unwrap()), SegmentError::NotMemory);
    let path_only = File::options().read(true).custom_flags(libc::O_PATH).open("/").unwrap();
    assert_eq!(adopt(path_only), SegmentError::NotMemory);
    let proc = adopt(File::open("/proc/self/status").unwrap());
    assert_eq!(proc, SegmentError::NotMemory);
    assert_eq!(
        proc.to_string(),
        "the peer's segment is no memory: its descriptor has no seals; expected a memfd"
    );
}

#[test]
fn a_file_of_a_mounted_tmpfs_is_refused() {
    // not named as memory of a tool, whose tests look for what is left
    let path = format!("/dev/shm/sp-unit-{}", std::process::id());
    let Ok(file) = File::create_new(&path) else {
        println!("no /dev/shm here");
        return;
    };
    fs::remove_file(&path).unwrap();
    file.set_len(PAGE).unwrap();
    let read_write =
        File::options().read(true).write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let missing = SEALS;
    assert_eq!(adopt(read_write.unwrap()), SegmentError::Unsealed { missing });
}

#[test]
fn huge_pages_are_refused() {
    let Ok(fd) = memfd_create(c"huge", MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING) else {
        println!("no huge pages here");
        return;
    };
    fcntl_add_seals(&fd, SEALS).unwrap();
    assert_eq!(adopt(fd), SegmentError::HugePages);
}

#[test]
fn a_segment_that_cannot_be_written_is_refused() {
    let sealed = sealable(PAGE, SEALS);
    let path = format!("/proc/self/fd/{}", sealed.as_raw_fd());
    assert_eq!(adopt(File::open(&path).unwrap()), SegmentError::NotWritable);
    assert_eq!(adopt(File::options().write(true).open(&path).unwrap()), SegmentError::NotWritable);
    for seal in [SealFlags::WRITE, SealFlags::FUTURE_WRITE] {
        assert_eq!(adopt(sealable(PAGE, SEALS | seal)), SegmentError::NotWritable);
    }
    assert!(Segment::adopt(sealed, PAGE).is_ok());
}

#[test]
fn holes_of_the_maker_are_filled_before_use() {
    let sparse = sealable(64 * PAGE, SEALS);
    assert_eq!(allocated_bytes(sparse.as_fd()), 0);
    let taken = Segment::adopt(sparse, 64 * PAGE).unwrap();
    assert_eq!(allocated_bytes(taken.fd()), 64 * PAGE);
}

/// Punches a hole into the first page.
fn punch(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, PAGE)
}

#[test]
fn no_page_can_be_removed_once_both_ends_have_mapped() {
    let made = Segment::create(c"test", 2 * 4096).unwrap();
    let fd = made.fd().try_clone_to_owned().unwrap();
    assert_eq!(punch(fd.as_fd()), Ok(()), "before, the peer can");
    let taken = Segment::adopt(fd, made.len() as u64).unwrap();
    made.hold().unwrap();
    for segment in [&made, &taken] {
        // SAFETY: the byte is inside the mapping, which no other thread knows.
        unsafe { segment.as_ptr().write_volatile(7) };
        assert_eq!(punch(segment.fd()), Err(Errno::PERM));
        // SAFETY: the range is the segment's first page; where the kernel took it away, it would read as zero.
        assert_eq!(unsafe { libc::madvise(segment.as_ptr().as_ptr().cast(), 4096, libc::MADV_REMOVE) }, -1);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));
        // SAFETY: the byte is inside the mapping, to which no reference exists.
        assert_eq!(unsafe { segment.as_ptr().read_volatile() }, 7);
        assert_eq!(allocated_bytes(segment.fd()), 2 * 4096);
        assert!(Mapping::shared(segment.fd(), 4096).is_err(), "nobody else maps it for writing");
    }
}

#[test]
fn holes_of_the_taker_are_filled_by_the_maker() {
    let made = Segment::create(c"test", 2 * 4096).unwrap();
    assert_eq!(punch(made.fd()), Ok(()));
    fcntl_add_seals(made.fd(), SEALS_HELD).unwrap();
    assert_eq!(allocated_bytes(made.fd()), 4096);
    made.hold().unwrap();
    assert_eq!(allocated_bytes(made.fd()), 2 * 4096);
}

#[test]
fn the_maker_refuses_a_taker_that_seals_too_little() {
    let made = Segment::create(c"test", 4096).unwrap();
    fcntl_add_seals(made.fd(), SealFlags::SEAL).unwrap();
    let missing = SealFlags::FUTURE_WRITE;
    assert_eq!(made.hold().unwrap_err(), SegmentError::Unsealed { missing });
}

#[test]
fn frequent_signals_do_not_prevent_reserving() {
    // A kernel before 6.10, and a signal every 16 pages: a call that takes longer has done nothing.
    let (mut reserved, mut calls) = (0, 0);
    let old = |at: u64, len: u64| {
        calls += 1;
        assert!(calls < 100_000, "it restarts for ever");
        assert_eq!(at, reserved, "in order, without gaps");
        if len > 16 * PAGE {
            return Err(Errno::INTR);
        }
        reserved += len;
        Ok(())
    };
    let bytes = 5 * SLAB_BYTES + 3 * PAGE;
    assert_eq!(fill(bytes, old), Ok(()));
    assert_eq!(reserved, bytes);
    assert_eq!(fill(bytes, |_, _| Err(Errno::INTR)), Err(Errno::INTR), "and it ends");
    assert_eq!(fill(bytes, |_, _| Err(Errno::NOSPC)), Err(Errno::NOSPC));
}

#[test]
fn a_child_does_not_get_the_memory() {
    let made = Segment::create(c"test", 4096).unwrap();
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let start = format!("{:x}-", made.as_ptr().addr());
    let ours = smaps.lines().skip_while(|line| !line.starts_with(&start));
    let flags = ours.into_iter().find(|line| line.starts_with("VmFlags:")).unwrap();
    assert!(flags.split(' ').any(|flag| flag == "dc"), "{flags}");
    assert_ne!(made.as_ptr().as_ptr(), ptr::null_mut());
}

#[test]
fn more_memory_than_the_machine_has_is_refused() {
    let machine = machine_bytes();
    assert!(machine > 1 << 20 && machine < 1 << 50, "{machine}");
    let unlimited = sealable(0, SealFlags::empty());
    let error = reserve(unlimited.as_fd(), 1 << 60).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot reserve 1048576 TiB of shared memory: cannot allocate memory; free memory, or raise the \
         container's memory limit"
    );
    let error = Segment::adopt(sealable(1 << 50, SEALS), 1 << 50).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the peer's segment was not mapped: cannot reserve 1024 TiB of shared memory: cannot allocate memory; \
         free memory, or raise the container's memory limit"
    );
    assert_eq!(Segment::create(c"test", usize::MAX).unwrap_err().errno(), libc::ENOMEM);
}

#[test]
fn a_kernel_without_noexec_seal_is_asked_without() {
    let asked = |results: [Result<u32, Errno>; 2]| {
        let calls = core::cell::RefCell::new(Vec::new());
        let made = call_memfd(|flags| {
            let result = results[calls.borrow().len()];
            calls.borrow_mut().push(flags);
            result
        });
        (made, calls.into_inner())
    };
    let without = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let with = without | MemfdFlags::NOEXEC_SEAL;
    assert_eq!(asked([Err(Errno::INVAL), Ok(7)]), (Ok(7), vec![with, without]));
    assert_eq!(asked([Err(Errno::MFILE), Ok(7)]), (Err(Errno::MFILE), vec![with]));
    assert_eq!(asked([Ok(5), Ok(7)]), (Ok(5), vec![with]));
    assert_eq!(asked([Ok(0), Ok(7)]), (Ok(0), vec![with]));
}

#[test]
fn a_segment_is_of_the_node_that_is_asked_for() {
    let Some(placement) = some_placement() else { return };
    let made = Segment::create_at(c"test", 3 * 4096, placement).unwrap();
    assert_eq!(made.mapping.preferred_node(), placement.node());
    assert_eq!(made.mapping.node_at(2 * 4096), placement.node());
    // The policy is that of the file, so the peer has it as well.
    let theirs = Segment::adopt(made.fd().try_clone_to_owned().unwrap(), made.len() as u64).unwrap();
    assert_eq!(theirs.mapping.preferred_node(), placement.node());
    assert_eq!(Segment::create(c"test", 4096).unwrap().mapping.preferred_node(), None);
}
