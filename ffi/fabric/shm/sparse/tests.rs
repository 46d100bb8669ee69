//! Sparse segments: what is allocated and when, what a peer can do, and each rule that refuses.

use super::*;
use crate::fabric::shm::foreign::{allocated_bytes, foreign, sealable};
use crate::os::jobs::{Jobs, Step, Steps};
use crate::os::memory_node::some_placement;
use crate::os::monotonic_ns;
use rustix::fs::{MemfdFlags, fcntl_get_seals, fstat, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::io::pipe;
use std::os::fd::{AsRawFd, BorrowedFd};

const PAGE: u64 = 4096;
/// Neither a multiple of a slab nor of a huge page.
const SLOT: usize = 3 * SLAB_BYTES + 4096;

/// Sizes without a small buffer.
const fn slots_of(slot_bytes: usize) -> SparseSizes {
    SparseSizes { small_bytes: 0, slot_bytes }
}

fn create(slot_bytes: usize) -> (SparseSegment, OwnedFd) {
    SparseSegment::create(c"test", slots_of(slot_bytes), PageSize::Base).unwrap()
}

fn both(slot_bytes: usize) -> (SparseSegment, PeerSparseSegment, OwnedFd) {
    let (own, fd) = create(slot_bytes);
    let peer =
        PeerSparseSegment::adopt(fd.try_clone().unwrap(), slots_of(slot_bytes), PageSize::Base).unwrap();
    (own, peer, fd)
}

/// Makes all steps; returns the result and their count.
fn finish<S: Steps>(steps: &mut S) -> (S::Output, usize) {
    for count in 1..1_000_000 {
        if let Step::Done(output) = steps.step() {
            return (output, count);
        }
    }
    panic!("it has no end")
}

fn done<S: Steps<Output = Result<(), OsError>>>(mut steps: S) {
    assert_eq!(finish(&mut steps).0, Ok(()));
}

fn read(slot: NonNull<u8>, len: usize) -> Vec<u8> {
    // SAFETY: the tests ask for bytes of a slot, to which no reference exists.
    (0..len).map(|offset| unsafe { slot.add(offset).read_volatile() }).collect()
}

fn fill_with(slot: NonNull<u8>, len: usize, byte: u8) {
    for offset in 0..len {
        // SAFETY: the tests ask for bytes of a slot, to which no reference exists.
        unsafe { slot.add(offset).write_volatile(byte) };
    }
}

/// Returns the resident pages of a slot, in this mapping's process or another.
fn resident_pages(slot: NonNull<u8>, len: usize) -> usize {
    let mut resident = vec![0_u8; len / 4096];
    // SAFETY: the range is a slot's, and the vector has a byte for each page.
    let answer = unsafe { libc::mincore(slot.as_ptr().cast(), len, resident.as_mut_ptr()) };
    assert_eq!(answer, 0);
    resident.iter().filter(|page| **page & 1 == 1).count()
}

/// Returns the page faults of this thread during `work`.
fn faults(work: impl FnOnce()) -> i64 {
    let count = || {
        let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a local.
        assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) }, 0);
        // SAFETY: the call has filled it.
        unsafe { usage.assume_init() }.ru_minflt
    };
    let before = count();
    work();
    count() - before
}

fn punch(fd: BorrowedFd<'_>, at: usize, len: usize) -> Result<(), Errno> {
    fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at as u64, len as u64)
}

/// Adopts as a segment with slots of a page.
fn adopt(fd: impl Into<OwnedFd>) -> SegmentError {
    let fd: OwnedFd = fd.into();
    PeerSparseSegment::adopt(fd, slots_of(4096), PageSize::Base).unwrap_err()
}

#[test]
fn only_the_page_and_what_is_provisioned_is_allocated() {
    for bytes in [1, 4096, SLAB_BYTES, SLOT] {
        let (own, fd) = create(SLOT);
        let len = bytes.next_multiple_of(4096) as u64;
        assert_eq!(own.sizes(), slots_of(SLOT));
        assert_eq!(fstat(&fd).unwrap().st_size, 4096 + 2 * i64::try_from(SLOT).unwrap());
        assert_eq!(allocated_bytes(&fd), PAGE);
        done(own.provision(Slot::Second, bytes));
        assert_eq!(allocated_bytes(&fd), PAGE + len);
        done(own.provision(Slot::First, bytes));
        assert_eq!(allocated_bytes(&fd), PAGE + 2 * len);
        done(own.release(Slot::Second));
        assert_eq!(allocated_bytes(&fd), PAGE + len);
        done(own.release(Slot::First));
        assert_eq!(allocated_bytes(&fd), PAGE);
    }
}

/// wire.md 6.4
#[test]
fn a_small_buffer_lies_before_the_slots_and_can_be_removed() {
    let sizes = SparseSizes { small_bytes: 1024, slot_bytes: SLOT };
    let (own, fd) = SparseSegment::create(c"test", sizes, PageSize::Base).unwrap();
    let peer = PeerSparseSegment::adopt(fd.try_clone().unwrap(), sizes, PageSize::Base).unwrap();
    assert_eq!(own.sizes(), SparseSizes { small_bytes: 4096, slot_bytes: SLOT });
    assert_eq!(fstat(&fd).unwrap().st_size, 2 * 4096 + 2 * i64::try_from(SLOT).unwrap());
    assert_eq!(allocated_bytes(&fd), 2 * PAGE, "the page and the small buffer");
    let starts = [Slot::Small, Slot::First, Slot::Second].map(|slot| own.slot(slot).addr().get());
    let page = own.control().addr().get();
    assert_eq!(starts.map(|start| start - page), [4096, 8192, 8192 + SLOT]);
    for slot in [Slot::Small, Slot::First, Slot::Second] {
        assert_eq!((own.slot_at(own.slot(slot)), peer.slot_at(peer.slot(slot))), (Some(slot), Some(slot)));
    }
    assert_eq!(own.slot_at(own.control()), None);
    assert!(faults(|| fill_with(peer.slot(Slot::Small), 4096, 7)) < 10, "it is mapped");
    assert!(read(own.slot(Slot::Small), 4096).iter().all(|byte| *byte == 7));
    let mut release = own.release(Slot::Small);
    assert_eq!(finish(&mut release), (Ok(()), 1));
    assert_eq!(allocated_bytes(&fd), PAGE);
    done(own.provision(Slot::First, SLOT));
    assert_eq!(allocated_bytes(&fd), PAGE + SLOT as u64);
    // Without one the slots follow the page.
    let (without, _) = create(SLOT);
    assert_eq!(without.slot_at(without.slot(Slot::First)), Some(Slot::First));
    assert_eq!(without.slot(Slot::First).addr().get() - without.control().addr().get(), 4096);
}

#[test]
fn each_step_is_a_slab() {
    let (own, fd) = create(SLOT);
    let mut provision = own.provision(Slot::First, SLOT);
    let mut allocated = vec![];
    while provision.step() == Step::More {
        allocated.push((allocated_bytes(&fd) - PAGE) / PAGE);
    }
    // Slabs end at multiples of 16 pages of the file, which begins with the control page.
    assert_eq!(allocated, [0, 15, 31, 47]);
    assert_eq!(allocated_bytes(&fd), PAGE + SLOT as u64);
    let mut release = own.release(Slot::First);
    assert_eq!(release.step(), Step::More);
    assert_eq!(allocated_bytes(&fd), PAGE + SLOT as u64 - 15 * PAGE);
    assert_eq!(finish(&mut release), (Ok(()), 3));
}

#[test]
fn both_ends_see_the_same_bytes_in_both_slots() {
    let (own, peer, fd) = both(SLOT);
    // Interleaved.
    let mut jobs = Slot::BOTH.map(|slot| own.provision(slot, SLOT));
    while jobs.iter_mut().any(|job| job.step() == Step::More) {}
    jobs.iter_mut().for_each(|job| assert_eq!(finish(job).0, Ok(())));
    for (slot, byte) in [(Slot::First, 0x11), (Slot::Second, 0x22)] {
        assert_eq!(resident_pages(own.slot(slot), SLOT), SLOT / 4096);
        assert!(read(own.slot(slot), SLOT).iter().all(|byte| *byte == 0));
        // Of 49 pages. The kernel may have taken a few mappings away in between.
        assert!(faults(|| fill_with(own.slot(slot), SLOT, 0xFF)) < 10);
        done(peer.populate(slot, SLOT));
        assert!(faults(|| fill_with(peer.slot(slot), SLOT, byte)) < 10);
    }
    // SAFETY: the bytes are the first of the control page, to which no reference exists.
    let page = unsafe {
        peer.control().write_volatile(0x33);
        own.control().read_volatile()
    };
    assert_eq!(page, 0x33);
    assert!(read(own.slot(Slot::First), SLOT).iter().all(|byte| *byte == 0x11));
    assert!(read(own.slot(Slot::Second), SLOT).iter().all(|byte| *byte == 0x22));
    assert_eq!(allocated_bytes(&fd), PAGE + 2 * SLOT as u64, "populating allocated nothing");
}

#[test]
fn memory_is_zero_when_provisioned_again() {
    let (own, peer, fd) = both(SLOT);
    done(own.provision(Slot::First, SLOT));
    done(peer.populate(Slot::First, SLOT));
    fill_with(peer.slot(Slot::First), SLOT, 0xA5);
    done(own.release(Slot::First));
    // A peer that writes where nothing is provisioned.
    fill_with(peer.slot(Slot::First), 2 * 4096, 0x5A);
    assert_eq!(allocated_bytes(&fd), 3 * PAGE);
    done(own.provision(Slot::First, SLOT));
    assert!(read(own.slot(Slot::First), SLOT).iter().all(|byte| *byte == 0));
    assert_eq!(allocated_bytes(&fd), PAGE + SLOT as u64);
}

#[test]
fn a_dropped_provision_gives_everything_back() {
    let (own, fd) = create(SLOT);
    for steps in 0..4 {
        let mut provision = own.provision(Slot::First, SLOT);
        (0..steps).for_each(|_| assert_eq!(provision.step(), Step::More));
        assert!(steps < 2 || allocated_bytes(&fd) > PAGE);
        drop(provision);
        assert_eq!(allocated_bytes(&fd), PAGE);
    }
    done(own.provision(Slot::First, SLOT));
    drop(own.release(Slot::First));
    assert_eq!(allocated_bytes(&fd), PAGE, "a dropped release releases");
    done(own.provision(Slot::First, SLOT));
}

#[test]
fn a_failed_provision_gives_everything_back() {
    let (own, fd) = create(SLOT);
    let mut provision = own.provision(Slot::First, SLOT);
    (0..3).for_each(|_| assert_eq!(provision.step(), Step::More));
    assert_eq!(allocated_bytes(&fd), 32 * PAGE);
    provision.phase = Phase::GiveBack(OsError::new(libc::ENOMEM, "cannot"));
    assert_eq!(provision.step(), Step::More);
    assert_eq!(allocated_bytes(&fd), 17 * PAGE, "in slabs");
    assert_eq!(finish(&mut provision).0.unwrap_err().errno(), libc::ENOMEM);
    assert_eq!(allocated_bytes(&fd), PAGE);
    drop(provision);
    done(own.provision(Slot::First, SLOT));
    assert_eq!(allocated_bytes(&fd), PAGE + SLOT as u64);
}

#[test]
fn a_peer_that_removes_pages_leaves_zeros() {
    let (own, peer, fd) = both(SLOT);
    done(own.provision(Slot::First, SLOT));
    fill_with(own.slot(Slot::First), SLOT, 7);
    let (address, file) = (peer.slot(Slot::First), fd.as_raw_fd());
    // SAFETY: the child makes system calls only, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // The mapping is not the child's, but the descriptor is.
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: both are system calls that touch no memory of this process.
        unsafe {
            for _ in 0..200 {
                if libc::fallocate(file, mode, 4096, SLOT as i64) != 0 {
                    libc::_exit(1);
                }
            }
            libc::_exit(0);
        }
    }
    let mut status = -1;
    // SAFETY: the pointer is to a local.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        assert!(read(own.slot(Slot::First), SLOT).iter().all(|byte| [0, 7].contains(byte)));
        // SAFETY: the byte is a slot's, to which no reference exists.
        unsafe { address.add(SLOT - 1).write_volatile(7) };
    }
    assert_eq!(status, 0);
    punch(fd.as_fd(), 4096, SLOT).unwrap();
    assert_eq!(read(own.slot(Slot::First), SLOT), vec![0; SLOT]);
    assert_eq!(allocated_bytes(&fd), PAGE + SLOT as u64, "never more than what was provisioned");
    // The whole file, by the peer's mapping.
    peer.memory.mapping.remove(0..peer.memory.mapping.len()).unwrap();
    assert_eq!(allocated_bytes(&fd), 0);
    // SAFETY: the byte is the first of the control page, to which no reference exists.
    assert_eq!(unsafe { own.control().read_volatile() }, 0);
    done(own.release(Slot::First));
    assert_eq!(allocated_bytes(&fd), PAGE);
}

#[test]
fn the_seals_permit_removal_and_nothing_else() {
    let (own, fd) = create(4096);
    let seals = fcntl_get_seals(&fd).unwrap();
    assert!(seals.contains(SEALS_SPARSE) && !seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE));
    assert_eq!(fcntl_add_seals(&fd, SealFlags::FUTURE_WRITE), Err(Errno::PERM));
    assert_eq!(ftruncate(&fd, 0), Err(Errno::PERM));
    assert_eq!(ftruncate(&fd, 1 << 20), Err(Errno::PERM));
    assert_eq!(punch(fd.as_fd(), 0, 4096), Ok(()));
    drop(own);
    // The reason: this seal forbids removal, also through a mapping that is older.
    let sealed = sealable(PAGE, SealFlags::empty());
    let mapping = Mapping::shared(sealed.as_fd(), 4096).unwrap();
    mapping.remove(0..4096).unwrap();
    fcntl_add_seals(&sealed, SealFlags::FUTURE_WRITE).unwrap();
    assert_eq!(punch(sealed.as_fd(), 0, 4096), Err(Errno::PERM));
    assert_eq!(mapping.remove(0..4096).unwrap_err().errno(), libc::EPERM);
}

#[test]
fn a_kernel_that_needs_the_descriptor_gets_the_same_memory() {
    let (mut own, fd) = create(SLOT);
    assert!(own.memory.fd.is_none(), "Linux 5.14 needs none");
    Arc::get_mut(&mut own.memory).unwrap().fd = Some(fd.try_clone().unwrap());
    done(own.provision(Slot::Second, SLOT));
    assert_eq!(allocated_bytes(&fd), PAGE + SLOT as u64);
    assert_eq!(resident_pages(own.slot(Slot::Second), SLOT), SLOT / 4096);
    assert_eq!(read(own.slot(Slot::Second), SLOT), vec![0; SLOT]);
    done(own.release(Slot::Second));
    assert_eq!(allocated_bytes(&fd), PAGE);
}

#[test]
fn huge_pages_are_asked_for_inside_a_slot_only() {
    const HUGE: usize = HUGE_PAGE_BYTES;
    assert_eq!(huge_inside(&(4096..4096 + 2 * HUGE)), HUGE..2 * HUGE);
    assert!(huge_inside(&(4096..HUGE + 4096 - 1)).len() <= HUGE && huge_inside(&(4096..HUGE)).is_empty());
    let slot_bytes = 4 * HUGE;
    let (own, fd) = SparseSegment::create(c"test", slots_of(slot_bytes), PageSize::Huge).unwrap();
    let peer =
        PeerSparseSegment::adopt(fd.try_clone().unwrap(), slots_of(slot_bytes), PageSize::Huge).unwrap();
    assert_eq!(allocated_bytes(&fd), PAGE);
    for bytes in [slot_bytes, 3 * HUGE + 4096, 4096] {
        for slot in Slot::BOTH {
            done(own.provision(slot, bytes));
            done(peer.populate(slot, bytes));
            fill_with(peer.slot(slot), 4096, 9);
        }
        assert_eq!(allocated_bytes(&fd), PAGE + 2 * bytes as u64);
        Slot::BOTH.into_iter().for_each(|slot| done(own.release(slot)));
        assert_eq!(allocated_bytes(&fd), PAGE);
    }
}

#[test]
fn locked_memory_is_released_too() {
    let (own, fd) = create(SLAB_BYTES);
    done(own.provision(Slot::First, SLAB_BYTES));
    // SAFETY: the range is the slot's; locking changes no byte.
    if unsafe { libc::mlock(own.slot(Slot::First).as_ptr().cast(), SLAB_BYTES) } != 0 {
        println!("no memory may be locked here");
        return;
    }
    done(own.release(Slot::First));
    assert_eq!(allocated_bytes(&fd), PAGE);
}

#[test]
fn a_slot_in_use_is_not_provisioned_again() {
    let panics = |work: &dyn Fn()| std::panic::catch_unwind(core::panic::AssertUnwindSafe(work)).is_err();
    let (own, _fd) = create(4096);
    assert!(panics(&|| drop(own.release(Slot::First))));
    let provision = own.provision(Slot::First, 4096);
    assert!(panics(&|| drop(own.provision(Slot::First, 4096))));
    drop(provision);
    assert!(panics(&|| drop(own.provision(Slot::First, 4097))));
    done(own.provision(Slot::First, 4096));
}

#[test]
fn a_child_removes_nothing_of_its_parent() {
    let (own, fd) = create(SLOT);
    let mut provision = own.provision(Slot::First, SLOT);
    (0..3).for_each(|_| assert_eq!(provision.step(), Step::More));
    let before = allocated_bytes(&fd);
    // SAFETY: the child takes no lock of another thread but those of the allocator, which the C library hands to the child.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let failed = matches!(finish(&mut provision).0, Err(error) if error.errno() == libc::EFAULT);
        drop(own);
        // SAFETY: _exit ends the child and runs nothing of the program's.
        unsafe { libc::_exit(i32::from(!failed)) }
    }
    let mut status = -1;
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!((status, allocated_bytes(&fd)), (0, before));
    done(provision);
}

#[test]
fn each_missing_seal_is_named() {
    let size = 3 * PAGE;
    for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
        assert_eq!(adopt(sealable(size, SEALS_SPARSE - missing)), SegmentError::Unsealed { missing });
    }
    assert_eq!(
        adopt(sealable(size, SEALS)).to_string(),
        "the peer's segment can still change: it lacks F_SEAL_SEAL"
    );
    for seal in [SealFlags::WRITE, SealFlags::FUTURE_WRITE] {
        assert_eq!(adopt(sealable(size, SEALS_SPARSE | seal)), SegmentError::NotWritable);
    }
    let never = adopt(foreign(MemfdFlags::empty(), size, SealFlags::empty()));
    assert_eq!(never, SegmentError::Unsealed { missing: SEALS });
    let sealed = sealable(size, SEALS_SPARSE);
    let read_only = File::open(format!("/proc/self/fd/{}", sealed.as_raw_fd())).unwrap();
    assert_eq!(adopt(read_only), SegmentError::NotWritable);
}

#[test]
fn wrong_sizes_and_other_files_are_refused() {
    let agreed = 3 * PAGE;
    for found in [0, agreed - 1, agreed + 1, 2 * PAGE, 4 * PAGE] {
        assert_eq!(adopt(sealable(found, SEALS_SPARSE)), SegmentError::WrongSize { agreed, found });
    }
    assert!(PeerSparseSegment::adopt(sealable(agreed, SEALS_SPARSE), slots_of(4096), PageSize::Base).is_ok());
    assert_eq!(adopt(pipe().unwrap().0), SegmentError::NotMemory);
    assert_eq!(adopt(File::open("/dev/null").unwrap()), SegmentError::NotMemory);
    match memfd_create(c"huge", MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING) {
        Ok(fd) => {
            fcntl_add_seals(&fd, SEALS_SPARSE).unwrap();
            assert_eq!(adopt(fd), SegmentError::HugePages);
        }
        Err(_) => println!("no huge pages here"),
    }
}

#[test]
fn more_than_the_machine_or_the_limit_is_refused() {
    let error = |bytes| SparseSegment::create(c"test", slots_of(bytes), PageSize::Base).unwrap_err();
    assert_eq!(error(usize::MAX).errno(), libc::ENOMEM);
    assert_eq!(error(usize::MAX / 2).errno(), libc::ENOMEM);
    let told = error(1 << 50).to_string();
    assert!(told.starts_with("cannot reserve 1024 TiB of shared memory: cannot allocate memory"), "{told}");

    // SAFETY: the child has only this thread, makes system calls, allocates, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let limit = libc::rlimit { rlim_cur: 8192, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the pointer is to a local.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
        let told = "cannot make a shared segment of 12 KiB: RLIMIT_FSIZE is 8 KiB: file too large; raise it (ulimit -f)";
        let is_well = error(4096).to_string() == told;
        // SAFETY: _exit ends the child and runs nothing of the program's.
        unsafe { libc::_exit(i32::from(!is_well)) }
    }
    let mut status = -1;
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[test]
fn a_slot_is_provisioned_as_a_job() {
    let (own, fd) = create(SLOT);
    let jobs = Jobs::new();
    let Ok(mut ticket) = jobs.begin(own.provision(Slot::First, SLOT)) else { panic!("the table is full") };
    // Ten times what it takes on a machine that is busy.
    let end_ns = monotonic_ns() + 20_000_000_000;
    let result = loop {
        if let Some(result) = ticket.poll() {
            break result;
        }
        assert!(monotonic_ns() < end_ns, "it hangs");
    };
    assert_eq!(result, Ok(Ok(())));
    assert_eq!(allocated_bytes(&fd), PAGE + SLOT as u64);
}

#[test]
fn a_job_that_is_cancelled_gives_its_slot_back() {
    let (own, fd) = create(SLOT);
    // No helper, which could end the job before it is cancelled.
    let jobs = Jobs::alone();
    let Ok(mut ticket) = jobs.begin(own.provision(Slot::Second, SLOT)) else { panic!("the table is full") };
    while allocated_bytes(&fd) == PAGE {
        assert_eq!(ticket.poll(), None, "the slot has several slabs");
    }
    assert!(ticket.wait(monotonic_ns() + 20_000_000_000));
    assert_eq!(allocated_bytes(&fd), PAGE);
}

#[test]
fn what_is_provisioned_later_is_of_the_node_asked_for() {
    let Some(placement) = some_placement() else { return };
    let (own, fd) = SparseSegment::create_at(c"test", slots_of(1 << 20), PageSize::Base, placement).unwrap();
    assert_eq!(own.memory.mapping.preferred_node(), placement.node());
    let theirs = PeerSparseSegment::adopt(fd, slots_of(1 << 20), PageSize::Base).unwrap();
    assert_eq!(theirs.memory.mapping.preferred_node(), placement.node(), "also what the peer populates");
}
