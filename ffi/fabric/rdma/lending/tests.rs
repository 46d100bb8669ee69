//! Memory of the application on a device that does what the test says. The caller makes all steps.

use super::*;
use crate::fabric::rdma::fake_device::aborts;
use crate::os::MemoryPlacement;
use superpipe_core::JobResult;
use superpipe_verbs::fake::{answer, begin, calls, channel, script, write_from_peer};
use superpipe_verbs::{CmId, RemoteAddr, Rkey, WcStatus};

fn lending() -> Lending {
    begin();
    let channel = channel();
    let context = CmId::create(&channel).unwrap().context().unwrap();
    let jobs: &'static Jobs = Box::leak(Box::new(Jobs::alone()));
    let lending = Lending::new(&Pd::alloc(&context).unwrap(), true, jobs);
    calls();
    lending
}

const fn ticket(index: u8) -> Ticket {
    Ticket::new(index, 0)
}

fn buffer(bytes: usize) -> Arc<RegisteredMemory> {
    Arc::new(RegisteredMemory::new(bytes, MemoryPlacement::default()).unwrap())
}

fn lend(lending: &mut Lending, way: Way, memory: &mut [u8]) -> Option<Buffer> {
    let len = memory.len();
    // SAFETY: these tests keep the memory until it was taken back.
    unsafe { lending.lend(way, NonNull::from(memory).cast(), len) }
}

fn lend_buffer(lending: &mut Lending, memory: &Arc<RegisteredMemory>, is_trusted: bool) -> RecvMemory {
    // SAFETY: 1. Nobody else uses the memory. 2. The peer writes only what a test says.
    unsafe { lending.lend_destination(memory, is_trusted) }.unwrap()
}

fn register(way: Way, buffer: Buffer, bytes: u64) -> Job<Span, Image> {
    match way {
        Way::Out => Job::RegisterSource { buffer, bytes },
        Way::In => Job::RegisterDestination { buffer, bytes },
    }
}

fn done(lending: &mut Lending, job: Job<Span, Image>) -> JobResult<Span, Image> {
    assert_eq!(lending.begin(ticket(1), job), Ok(()));
    let (of, result) = (0..10).find_map(|_| lending.finished()).unwrap();
    assert_eq!(of, ticket(1));
    result
}

fn registered(lending: &mut Lending, job: Job<Span, Image>) -> (Registration, RemoteClaim) {
    match done(lending, job) {
        Ok(JobOutcome::Registered(registration, claim)) => (registration, claim),
        other => panic!("{other:?}"),
    }
}

fn regions() -> Vec<(u64, i32)> {
    script(|script| script.regions.iter().map(|region| (region.bytes, region.access)).collect())
}

fn peer_writes(claim: RemoteClaim) -> bool {
    let to = RemoteAddr { addr: claim.address, rkey: Rkey(claim.key) };
    // SAFETY: the memory is there as long as a region names it, and nobody looks at it.
    unsafe { write_from_peer(to, &[7]) == WcStatus::SUCCESS }
}

#[test]
fn borrowed_memory_is_registered_for_its_message_only() {
    let (mut lending, mut memory) = (lending(), vec![0; 10_000]);
    for (way, access) in [(Way::Out, 0), (Way::In, 3)] {
        let lent = lend(&mut lending, way, &mut memory).unwrap();
        let (registration, claim) = registered(&mut lending, register(way, lent, 9_000));
        assert_eq!(regions(), [(9_000, access)], "the bytes of the message");
        assert_eq!(claim.address, memory.as_ptr().addr() as u64);
        assert_eq!(lending.is_source(registration), way == Way::Out);
        assert_eq!(lending.sge(8_000, 1_000).is_some(), way == Way::Out);
        assert!(lending.sge(8_001, 1_000).is_none());
        assert_eq!(done(&mut lending, Job::Deregister(registration)), Ok(JobOutcome::Released));
        assert_eq!((regions(), peer_writes(claim)), (vec![], false));
        lending.take_back(way, false);
        assert!(lend(&mut lending, way, &mut memory).is_some(), "the next message");
        assert!(lend(&mut lending, way, &mut memory).is_none(), "one at a time");
        lending.take_back(way, false);
    }
}

#[test]
fn memory_is_taken_back_in_any_state() {
    for (way, steps) in [Way::Out, Way::In].into_iter().flat_map(|way| (0..4).map(move |step| (way, step))) {
        let (mut lending, mut memory) = (lending(), vec![0; 10_000]);
        let lent = lend(&mut lending, way, &mut memory).unwrap();
        let mut registration = None;
        if steps == 1 {
            assert_eq!(lending.begin(ticket(2), register(way, lent, 10_000)), Ok(()));
        } else if steps > 1 {
            registration = Some(registered(&mut lending, register(way, lent, 10_000)).0);
        }
        if let Some(registration) = registration.filter(|_| steps == 3) {
            assert_eq!(lending.begin(ticket(2), Job::Deregister(registration)), Ok(()));
        }
        assert_eq!(lending.is_in_use(way), steps > 0);
        lending.take_back(way, true);
        assert_eq!(regions(), [], "{steps}");
        // Core gets the end of the job that was under way, and that of what it asks for later.
        let ended = [None, Some(Err(JobFailed::Refused)), None, Some(Ok(JobOutcome::Released))][steps];
        assert_eq!(lending.finished().map(|(_, result)| result), ended);
        if let Some(registration) = registration {
            assert_eq!(done(&mut lending, Job::Deregister(registration)), Ok(JobOutcome::Released));
        }
        assert_eq!(done(&mut lending, register(way, lent, 10_000)), Err(JobFailed::Refused), "it is stale");
        assert_eq!(regions(), []);
    }
}

#[test]
fn a_refused_registration_leaves_nothing() {
    let (mut lending, mut memory) = (lending(), vec![0; 10_000]);
    let lent = lend(&mut lending, Way::Out, &mut memory).unwrap();
    assert_eq!(done(&mut lending, register(Way::Out, lent, 10_001)), Err(JobFailed::Refused), "too long");
    assert_eq!(done(&mut lending, register(Way::Out, Buffer(lent.0 + 1), 1)), Err(JobFailed::Refused));
    answer("ibv_reg_mr", libc::ENOMEM);
    assert_eq!(done(&mut lending, register(Way::Out, lent, 10_000)), Err(JobFailed::Refused));
    let share = lending.share.as_ref().unwrap().clone();
    assert_eq!((share.bytes(), regions()), (0, vec![]));
    answer("ibv_reg_mr", 0);
    registered(&mut lending, register(Way::Out, lent, 10_000));
    assert!([3, 4].map(|pages| pages * page_bytes() as u64).contains(&share.bytes()), "whole pages");
    lending.take_back(Way::Out, false);
    assert_eq!(share.bytes(), 0);
    // More than any budget has.
    // SAFETY: nothing is registered of it.
    let vast = unsafe { lending.lend(Way::Out, NonNull::from(&mut memory[0]), 1 << 60) }.unwrap();
    calls();
    assert_eq!(done(&mut lending, register(Way::Out, vast, 1 << 60)), Err(JobFailed::Refused));
    assert!(!calls().contains(&"ibv_reg_mr"));
    lending.take_back(Way::Out, false);
}

#[test]
fn a_buffer_stays_registered_until_it_or_the_link_ends() {
    for is_buffer_first in [true, false] {
        let (mut lending, memory) = (lending(), buffer(20_000));
        let bytes = memory.len() as u64;
        let Some(SendMemory::Keepable { buffer: lent, .. }) = lending.lend_source(&memory, 100, false) else {
            panic!("a miss")
        };
        let (registration, _) = registered(&mut lending, register(Way::Out, lent, 5_000));
        assert_eq!(regions(), [(bytes, 0)], "all of the buffer");
        assert!(lending.sge(19_900, 0).is_some() && lending.sge(bytes - 100, 1).is_none(), "the offset");
        assert_eq!(done(&mut lending, Job::Deregister(registration)), Ok(JobOutcome::Released));
        lending.take_back(Way::Out, false);
        assert_eq!(regions(), [(bytes, 0)]);
        let share = Arc::clone(lending.share.as_ref().unwrap());
        assert_eq!(share.bytes(), bytes);
        assert!(matches!(lending.lend_source(&memory, 0, false), Some(SendMemory::Registered(_))), "a hit");
        lending.take_back(Way::Out, false);
        calls();
        if is_buffer_first {
            memory.registrations().end();
            assert_eq!((regions(), share.bytes(), calls()), (vec![], 0, vec!["ibv_dereg_mr"]));
            assert!(matches!(lending.lend_source(&memory, 0, false), Some(SendMemory::Keepable { .. })));
        }
        drop(lending);
        assert_eq!((regions(), share.bytes()), (vec![], 0));
        memory.registrations().end();
        assert_eq!(Arc::strong_count(&memory), 1, "nothing else has the memory");
    }
}

/// Nobody asked for it, so nothing is registered for one message, and what others keep stays.
#[test]
fn by_default_what_cannot_be_kept_is_not_registered() {
    let (mut lending, hot) = (lending(), buffer(20_000));
    assert!(lending.register_ahead(&hot));
    let share = Arc::clone(lending.share.as_ref().unwrap());
    // No room is left for what is kept.
    let room = (1..=40).rev().map(|log2| 1_u64 << log2).filter(|bytes| share.cache(*bytes).is_ok());
    let taken: u64 = room.sum();
    for is_default in [true, false] {
        let memory = buffer(20_000);
        let Some(SendMemory::Keepable { buffer: lent, .. }) = lending.lend_source(&memory, 0, is_default)
        else {
            panic!("it is lent")
        };
        calls();
        let done = done(&mut lending, register(Way::Out, lent, 5_000));
        assert_eq!(matches!(done, Err(JobFailed::Refused)), is_default, "{done:?}");
        assert_eq!(calls().contains(&"ibv_reg_mr"), !is_default);
        assert_eq!(lending.cache.find(&hot, access(Way::Out)).is_some(), is_default, "what is kept");
        lending.take_back(Way::Out, false);
    }
    share.uncache(taken);
}

#[test]
fn a_buffer_that_comes_again_is_remembered() {
    let mut lending = lending();
    let buffers: Vec<_> = (0..18).map(|_| buffer(4096)).collect();
    let is_again = |lending: &mut Lending, index: usize| {
        let memory: SendMemory = lending.lend_source(&buffers[index], 0, false).unwrap();
        lending.take_back(Way::Out, false);
        matches!(memory, SendMemory::Keepable { is_again: true, .. })
    };
    for index in 0..16 {
        assert!(!is_again(&mut lending, index), "{index}");
    }
    assert!((0..16).all(|index| is_again(&mut lending, index)));
    // 16 takes the place of the oldest.
    assert!(is_again(&mut lending, 0) && !is_again(&mut lending, 16) && is_again(&mut lending, 0));
    assert!(!is_again(&mut lending, 1) && is_again(&mut lending, 16));
    assert_eq!(regions(), [], "nothing was registered");
    drop(lending);
    assert!(buffers.iter().all(|buffer| Arc::strong_count(buffer) == 1), "nothing else has the memory");
}

#[test]
fn a_buffer_can_be_registered_ahead() {
    let (mut lending, memory) = (lending(), buffer(20_000));
    assert!(lending.register_ahead(&memory) && lending.register_ahead(&memory));
    assert_eq!(regions().len(), 1);
    assert!(matches!(lending.lend_source(&memory, 0, false), Some(SendMemory::Registered(_))));
    lending.take_back(Way::Out, false);
    answer("ibv_reg_mr", libc::ENOMEM);
    assert!(!lending.register_ahead(&buffer(20_000)));
    memory.registrations().end();
    assert_eq!(regions().len(), 0);
}

#[test]
fn delivered_memory_has_remote_rights_only_with_trust() {
    for is_trusted in [false, true] {
        let (mut lending, memory) = (lending(), buffer(20_000));
        let RecvMemory::Lent(lent) = lend_buffer(&mut lending, &memory, is_trusted) else { panic!("a miss") };
        let (registration, claim) = registered(&mut lending, register(Way::In, lent, 5_000));
        assert_eq!(regions(), [(if is_trusted { memory.len() as u64 } else { 5_000 }, 3)]);
        assert!(peer_writes(claim));
        assert_eq!(done(&mut lending, Job::Deregister(registration)), Ok(JobOutcome::Released));
        assert_eq!(peer_writes(claim), is_trusted);
        lending.take_back(Way::In, false);
        let again = lend_buffer(&mut lending, &memory, is_trusted);
        assert_eq!(matches!(again, RecvMemory::Registered(_)), is_trusted);
        // A call that fails while the peer may write.
        lending.take_back(Way::In, true);
        assert!(!peer_writes(claim) && regions().is_empty());
        memory.registrations().end();
    }
}

#[test]
fn a_link_that_ended_reads_no_buffer_that_was_taken_back() {
    let (mut lending, memory) = (lending(), buffer(20_000));
    let Some(SendMemory::Keepable { buffer: lent, .. }) = lending.lend_source(&memory, 100, false) else {
        panic!("a miss")
    };
    registered(&mut lending, register(Way::Out, lent, 5_000));
    // A call that fails while the device may read.
    lending.take_back(Way::Out, true);
    assert_eq!(regions(), []);
    assert_eq!(lending.share.as_ref().unwrap().bytes(), 0);
    memory.registrations().end();
    assert_eq!(Arc::strong_count(&memory), 1);
}

#[test]
fn the_least_recently_used_registration_goes_first() {
    let mut lending = lending();
    let buffers: Vec<_> = (0..65).map(|_| buffer(4096)).collect();
    let use_one = |lending: &mut Lending, index: usize| {
        let memory = lending.lend_source(&buffers[index], 0, false).unwrap();
        if let SendMemory::Keepable { buffer: lent, .. } = memory {
            registered(lending, register(Way::Out, lent, 4096));
        }
        lending.take_back(Way::Out, false);
        matches!(memory, SendMemory::Registered(_))
    };
    for index in 0..64 {
        assert!(!use_one(&mut lending, index));
    }
    assert!(use_one(&mut lending, 0));
    assert!(!use_one(&mut lending, 64), "in the place of 1");
    assert_eq!(regions().len(), 64);
    assert!(use_one(&mut lending, 0) && use_one(&mut lending, 2) && !use_one(&mut lending, 1));
    // What is in use stays.
    let memory = lending.lend_source(&buffers[0], 0, false).unwrap();
    while let Some(kept) = lending.take_oldest() {
        cache::retire(kept, lending.jobs);
    }
    assert!(matches!(memory, SendMemory::Registered(_)) && lending.sge(0, 4096).is_some());
    assert_eq!(regions().len(), 1);
    lending.take_back(Way::Out, false);
    assert!(use_one(&mut lending, 0), "it is still kept");
    drop(lending);
    assert_eq!(regions().len(), 0);
}

#[test]
fn a_kept_registration_that_does_not_end_is_left_behind() {
    let (mut lending, memory) = (lending(), buffer(4096));
    let Some(SendMemory::Keepable { buffer: lent, .. }) = lending.lend_source(&memory, 0, false) else {
        panic!("a miss")
    };
    registered(&mut lending, register(Way::Out, lent, 4096));
    lending.take_back(Way::Out, false);
    answer("ibv_dereg_mr", libc::EBUSY);
    memory.registrations().end();
    assert_eq!(regions().len(), 1);
    assert!(Arc::strong_count(&memory) > 1, "it is never unmapped");
    drop(lending);
}

#[test]
fn a_device_without_long_messages_lends_nothing() {
    let (mut lending, mut memory) = (lending(), vec![0; 100]);
    lending.is_possible = false;
    assert!(lend(&mut lending, Way::Out, &mut memory).is_none());
    assert!(lending.lend_source(&buffer(4096), 0, false).is_none());
}

#[test]
fn memory_that_stays_registered_ends_the_process() {
    aborts("fabric::rdma::lending::tests::memory_that_stays_registered_ends_the_process", || {
        let (mut lending, mut memory) = (lending(), vec![0; 10_000]);
        let lent = lend(&mut lending, Way::In, &mut memory).unwrap();
        registered(&mut lending, register(Way::In, lent, 9_216));
        answer("ibv_dereg_mr", libc::EBUSY);
        lending.take_back(Way::In, true);
    });
}

#[test]
fn trusted_memory_that_stays_registered_ends_the_process() {
    aborts("fabric::rdma::lending::tests::trusted_memory_that_stays_registered_ends_the_process", || {
        let (mut lending, memory) = (lending(), buffer(9_216));
        let RecvMemory::Lent(lent) = lend_buffer(&mut lending, &memory, true) else { panic!("a miss") };
        registered(&mut lending, register(Way::In, lent, 9_216));
        answer("ibv_dereg_mr", libc::EBUSY);
        lending.take_back(Way::In, true);
    });
}
