//! Landing buffers and images on a device that does what the test says. The caller makes all steps.

use super::*;
use crate::budget::BudgetUse;
use crate::fabric::rdma::fake_device::with_half_a_mebibyte;
use crate::os::MemoryPlacement;
use crate::os::page::page_bytes;
use superpipe_core::FlagPlace;
use superpipe_verbs::fake::{answer, begin, calls, channel, script, write_from_peer};
use superpipe_verbs::{CmId, WcStatus};

/// 256 KiB: four slabs.
const LARGEST: Layout = Layout { block_bytes: 8 << 10, block_count: 32, flags: FlagPlace::Inside };
const BYTES: usize = 256 << 10;
const PEER: RemoteClaim = RemoteClaim { address: 0x7000_0000, key: 99 };

fn share() -> Arc<BudgetShare> {
    Arc::new(BudgetShare::open(MemoryKind::Registered, 0).unwrap())
}

fn growth() -> Growth {
    begin();
    let channel = channel();
    let context = CmId::create(&channel).unwrap().context().unwrap();
    let jobs: &'static Jobs = Box::leak(Box::new(Jobs::alone()));
    let growth =
        Growth::new(&Pd::alloc(&context).unwrap(), LARGEST, None, jobs, &share(), MemoryPlacement::default())
            .unwrap();
    calls();
    growth
}

const fn ticket(index: u8) -> Ticket {
    Ticket::new(index, 0)
}

fn landing(place: u8) -> Job<Span, Image> {
    Job::ProvisionLanding { place, layout: LARGEST }
}

fn image(place: u8) -> Job<Span, Image> {
    Job::ProvisionImage { place, layout: LARGEST, claim: None }
}

/// Polls until a job has ended.
fn finish(growth: &mut Growth) -> JobResult<Span, Image> {
    assert!(growth.has_jobs());
    let ended = (0..1000).find_map(|_| growth.finished());
    ended.expect("each poll makes a step").1
}

fn made(growth: &mut Growth, job: Job<Span, Image>) -> JobOutcome<Span, Image> {
    assert_eq!(growth.begin(ticket(0), job), Ok(()));
    finish(growth).unwrap()
}

fn made_landing(growth: &mut Growth, place: u8) -> (Span, RemoteClaim) {
    match made(growth, landing(place)) {
        JobOutcome::Landing(span, claim) => (span, claim),
        other => panic!("{other:?}"),
    }
}

fn made_image(growth: &mut Growth, place: u8) -> Image {
    match made(growth, image(place)) {
        JobOutcome::Image(image) => image,
        other => panic!("{other:?}"),
    }
}

fn regions() -> usize {
    script(|script| script.regions.len())
}

/// Returns how many pages of this span are resident.
fn resident(span: Span) -> usize {
    let mut pages = vec![0_u8; BYTES / page_bytes()];
    // SAFETY: the span is mapped, and the vector has a byte for each of its pages.
    let answer = unsafe { libc::mincore(span.at(0, BYTES).cast(), BYTES, pages.as_mut_ptr()) };
    assert_eq!(answer, 0);
    pages.iter().filter(|page| **page & 1 == 1).count()
}

#[test]
fn a_landing_buffer_comes_zero_and_writable_by_the_peer() {
    let mut growth = growth();
    for round in 0..2 {
        let (span, claim) = made_landing(&mut growth, 0);
        assert_eq!((regions(), resident(span)), (1, BYTES / page_bytes()));
        assert!((0..BYTES / 8).all(|word| span.flag(8 * u32::try_from(word).unwrap()) == 0), "round {round}");
        let to = RemoteAddr { addr: claim.address + 8192, rkey: Rkey(claim.key) };
        // SAFETY: the region is there, and nobody looks at it.
        assert_eq!(unsafe { write_from_peer(to, &[7; 64]) }, WcStatus::SUCCESS);
        assert_eq!(span.flag(8192), u64::from_ne_bytes([7; 8]));
        assert_eq!(made(&mut growth, Job::ReleaseLanding(span)), JobOutcome::Released);
        assert_eq!((regions(), resident(span)), (0, 0));
        // SAFETY: as before; the key is that of no region.
        assert_ne!(unsafe { write_from_peer(to, &[7; 64]) }, WcStatus::SUCCESS);
    }
}

#[test]
fn a_release_gives_back_one_slab_per_step() {
    let mut growth = growth();
    let (span, _) = made_landing(&mut growth, 0);
    let slab = (64 << 10) / page_bytes();
    assert_eq!(growth.begin(ticket(0), Job::ReleaseLanding(span)), Ok(()));
    assert!(growth.finished().is_none());
    assert_eq!((regions(), resident(span)), (0, 4 * slab), "the device first");
    for left in [3, 2, 1] {
        assert!(growth.finished().is_none());
        assert_eq!(resident(span), left * slab);
    }
    assert!(growth.finished().is_some_and(|(_, ended)| ended == Ok(JobOutcome::Released)));
    assert_eq!(resident(span), 0);
}

#[test]
fn steps_are_short_and_any_two_jobs_run_at_a_time() {
    let mut growth = growth();
    let jobs = [landing(0), landing(1), image(0), image(1)];
    for (index, job) in (0..).zip(jobs) {
        assert_eq!(growth.begin(ticket(index), job), Ok(()));
        assert_eq!(growth.begin(ticket(9), job), Err(Busy), "the place is in use");
    }
    // Four slabs of each, then the device.
    for _ in 0..4 {
        assert!(growth.finished().is_none() && regions() == 0);
    }
    let ended: Vec<_> = core::iter::from_fn(|| growth.finished()).collect();
    assert_eq!(ended.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(), [0, 1, 2, 3].map(ticket));
    let spans: Vec<Span> = ended
        .iter()
        .map(|(_, result)| match result {
            Ok(JobOutcome::Landing(span, _) | JobOutcome::Image(Image { span, .. })) => *span,
            other => panic!("{other:?}"),
        })
        .collect();
    let mut starts: Vec<_> = spans.iter().map(|span| span.at(0, BYTES).addr()).collect();
    starts.dedup();
    assert_eq!(starts.len(), 4);
    let access: Vec<_> = script(|script| script.regions.iter().map(|it| it.access).collect());
    assert_eq!(access, [3, 3, 1, 1], "the peer writes landing buffers, and no image");
    assert_eq!(growth.begin(ticket(0), Job::ReleaseLanding(spans[1])), Ok(()));
    assert_eq!(growth.begin(ticket(1), Job::ReleaseLanding(spans[1])), Err(Busy));
    assert_eq!(finish(&mut growth), Ok(JobOutcome::Released));
    assert_eq!((regions(), resident(spans[1]), resident(spans[0])), (3, 0, BYTES / page_bytes()));
}

#[test]
fn writes_leave_images_for_the_epoch_of_the_peer() {
    let mut growth = growth();
    for (place, base) in [(0, 1_u32 << 31), (1, 3 << 30)] {
        let made = made_image(&mut growth, place);
        assert_eq!(made.base, base, "wire.md 10.3");
        assert!(growth.outlet(base + 8192, 100).is_none(), "the peer has granted nothing");
        assert!(growth.bind(made, PEER));
        let (from, to) = growth.outlet(base + 8192, 100).unwrap();
        assert_eq!((from.bytes(), to.addr, to.rkey), (100, PEER.address + 8192, Rkey(PEER.key)));
        assert!(growth.outlet(base + LARGEST.bytes() - 8, 8).is_some());
        assert!(growth.outlet(base + LARGEST.bytes() - 7, 8).is_none());
    }
    assert!(growth.outlet(4096, 8).is_none(), "that is no place of growth");
    assert!(growth.inlet(1 << 31, 8).is_none(), "there are images only");
}

#[test]
fn enclosed_writes_go_to_landing_buffers_that_are_there() {
    let mut growth = growth();
    let (span, _) = made_landing(&mut growth, 1);
    let (to, at) = growth.inlet((3 << 30) + 64, 200).unwrap();
    assert_eq!((to.at(0, 1), at), (span.at(0, 1), 64));
    for (offset, bytes) in [
        (1 << 31, 1),
        (64, 1),
        ((3 << 30) + LARGEST.bytes(), 1),
        ((3 << 30) + LARGEST.bytes() - 199, 200),
        (u32::MAX, 248),
    ] {
        assert!(growth.inlet(offset, bytes).is_none(), "{bytes} B at {offset:#x}");
    }
    assert_eq!(growth.begin(ticket(0), Job::ReleaseLanding(span)), Ok(()));
    assert!(growth.inlet(3 << 30, 1).is_none(), "it is being released");
}

#[test]
fn a_claim_that_cannot_be_is_given_back() {
    let mut growth = growth();
    for address in [1, 63, u64::MAX - 63, u64::MAX - (BYTES as u64) + 1] {
        let image = made_image(&mut growth, 0);
        assert!(!growth.bind(image, RemoteClaim { address, key: 1 }), "{address:#x}");
        assert!(growth.outlet(image.base, 8).is_none(), "{address:#x}");
        made(&mut growth, Job::ReleaseImage(image));
        assert!(!growth.bind(image, PEER), "it is released");
    }
    assert_eq!((regions(), growth.has_jobs()), (0, false));
}

#[test]
fn what_the_device_refuses_leaves_nothing() {
    let mut growth = growth();
    for (before, job) in [landing(0), image(0)].into_iter().enumerate() {
        answer("ibv_reg_mr", libc::ENOMEM);
        assert_eq!(growth.begin(ticket(0), job), Ok(()));
        assert_eq!(finish(&mut growth), Err(JobFailed::Refused));
        assert_eq!((regions(), growth.has_jobs()), (before, false));
        answer("ibv_reg_mr", 0);
        made(&mut growth, job);
    }
    assert_eq!(regions(), 2);
}

#[test]
fn pages_that_cannot_be_had_are_an_answer() {
    let mut growth = growth();
    let (span, _) = made_landing(&mut growth, 0);
    made(&mut growth, Job::ReleaseLanding(span));
    // The third slab becomes a part of an empty file, which has no pages.
    // SAFETY: the name is a C string.
    let empty = unsafe { libc::memfd_create(c"empty".as_ptr(), 0) };
    assert!(empty >= 0);
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    // SAFETY: it replaces pages of the reserve that nobody uses.
    let replaced =
        unsafe { libc::mmap(span.at(128 << 10, 64 << 10).cast(), 64 << 10, prot, flags, empty, 0) };
    assert_eq!(replaced.cast(), span.at(128 << 10, 64 << 10));
    assert_eq!(growth.begin(ticket(0), landing(0)), Ok(()));
    assert_eq!(finish(&mut growth), Err(JobFailed::Refused));
    assert_eq!((regions(), growth.has_jobs()), (0, false));
    let mut pages = [0_u8; (128 << 10) / 4096];
    // SAFETY: the range is mapped, and there is a byte for each of its pages.
    let answer = unsafe { libc::mincore(span.at(0, 128 << 10).cast(), 128 << 10, pages.as_mut_ptr()) };
    assert!(answer == 0 && pages.iter().all(|page| page & 1 == 0), "they were given back");
    made_landing(&mut growth, 1);
    // SAFETY: the descriptor was made here.
    unsafe { libc::close(empty) };
}

#[test]
fn memory_that_the_device_keeps_is_never_used_again() {
    let mut growth = growth();
    let (span, _) = made_landing(&mut growth, 0);
    answer("ibv_dereg_mr", libc::EBUSY);
    calls();
    assert_eq!(made(&mut growth, Job::ReleaseLanding(span)), JobOutcome::Released);
    assert_eq!(calls(), ["ibv_dereg_mr"; 2], "it is tried twice");
    assert_eq!((regions(), resident(span)), (1, BYTES / page_bytes()), "a late write meets its own memory");
    answer("ibv_dereg_mr", 0);
    for _ in 0..2 {
        assert_eq!(growth.begin(ticket(0), landing(0)), Ok(()));
        assert_eq!(finish(&mut growth), Err(JobFailed::Refused));
    }
    let (other, _) = made_landing(&mut growth, 1);
    assert_ne!(other.at(0, 1), span.at(0, 1));
}

#[test]
fn a_drop_ends_jobs_and_leaves_nothing() {
    // After so many steps: slabs, the device; and of the release.
    for steps in 0..5 {
        let mut growth = growth();
        let (span, _) = made_landing(&mut growth, 1);
        assert_eq!(growth.begin(ticket(1), image(0)), Ok(()));
        assert_eq!(growth.begin(ticket(2), Job::ReleaseLanding(span)), Ok(()));
        for _ in 0..steps {
            growth.finished();
        }
        drop(growth);
        assert_eq!(regions(), 0, "after {steps} steps");
        let calls = calls();
        let registered = calls.iter().filter(|call| **call == "ibv_reg_mr").count();
        let deregistered = calls.iter().filter(|call| **call == "ibv_dereg_mr").count();
        assert_eq!(registered, deregistered, "{calls:?}");
        let at = |name| calls.iter().rposition(|call| *call == name);
        assert!(at("ibv_dereg_mr") < at("ibv_dealloc_pd"), "{calls:?}");
    }
}

#[test]
fn a_helper_that_makes_the_steps_is_waited_for() {
    let mut growth = growth();
    growth.jobs = Jobs::of_process();
    growth.end_by(u64::MAX);
    for job in [landing(0), landing(1), image(0), image(1)] {
        assert_eq!(growth.begin(ticket(0), job), Ok(()));
    }
    drop(growth);
    // The calls of the helper are in its own record; all of what it used is gone.
    let at = |calls: &[&str]| calls.iter().rposition(|call| *call == "ibv_dealloc_pd");
    assert!(at(&calls()).is_some(), "no step holds the domain");
}

#[test]
fn the_budget_counts_what_is_there_and_refuses_growth() {
    if !with_half_a_mebibyte(
        "fabric::rdma::growth::tests::the_budget_counts_what_is_there_and_refuses_growth",
    ) {
        return;
    }
    let mut growth = growth();
    let (span, _) = made_landing(&mut growth, 0);
    assert_eq!((Budget::registered_bytes(), Budget::registered_use().grown_bytes), (256 << 10, 256 << 10));
    assert_eq!(growth.begin(ticket(0), image(0)), Ok(()));
    let refused = Err(JobFailed::OverBudget { bytes_max: 128 << 10 });
    assert_eq!(finish(&mut growth), refused, "a quarter is kept for connections that begin");
    assert!(!is_memory_short() && !growth.must_shrink());
    drop(BudgetShare::take(MemoryKind::Registered, 256 << 10).unwrap());
    // Another connection has a right to half of what is lent.
    let half = Layout { block_count: 24, ..LARGEST };
    let mut other =
        Growth::new(&growth.pd, half, None, growth.jobs, &share(), MemoryPlacement::default()).unwrap();
    let job = Job::ProvisionLanding { place: 0, layout: half };
    assert_eq!(other.begin(ticket(0), job), Ok(()));
    assert_eq!(finish(&mut other), refused);
    assert!(growth.must_shrink() && !other.must_shrink());
    made(&mut growth, Job::ReleaseLanding(span));
    assert_eq!(Budget::registered_bytes(), 0);
    // It is taken when the job begins, and comes back with a drop.
    assert_eq!(other.begin(ticket(0), job), Ok(()));
    assert_eq!((Budget::registered_bytes(), growth.must_shrink()), (192 << 10, false));
    assert_eq!(growth.begin(ticket(0), landing(0)), Ok(()));
    assert!(matches!(finish(&mut growth), Err(JobFailed::OverBudget { .. })), "more than its half");
    drop((growth, other));
    assert_eq!(Budget::registered_use(), BudgetUse::default());
}

#[test]
fn what_is_idle_is_asked_back_first() {
    if !with_half_a_mebibyte("fabric::rdma::growth::tests::what_is_idle_is_asked_back_first") {
        return;
    }
    let [mut idle, mut busy, mut asker] = [(); 3].map(|()| growth());
    let (small, smaller) = (Layout { block_count: 16, ..LARGEST }, Layout { block_count: 8, ..LARGEST });
    for growth in [&mut idle, &mut busy] {
        made(growth, Job::ProvisionLanding { place: 0, layout: small });
    }
    made(&mut busy, Job::ProvisionImage { place: 0, layout: small, claim: None });
    idle.note_idle(true);
    let job = Job::ProvisionLanding { place: 0, layout: smaller };
    assert_eq!(asker.begin(ticket(0), job), Ok(()));
    assert_eq!(finish(&mut asker), Err(JobFailed::OverBudget { bytes_max: 0 }));
    assert_eq!([&idle, &busy].map(Growth::must_shrink), [true, false]);
    idle.note_idle(false);
    assert!(!idle.must_shrink(), "it is used again");
}

#[test]
fn a_small_buffer_is_named_and_goes_like_the_others() {
    let small = Layout { block_bytes: 128, block_count: 8, flags: FlagPlace::Inside };
    let mut growth = growth();
    assert!(growth.small_region().is_none() && growth.small(small).is_none());
    growth = Growth::new(&growth.pd, LARGEST, Some(small), growth.jobs, &share(), MemoryPlacement::default())
        .unwrap();
    let mut share = BudgetShare::take(MemoryKind::Registered, 3 * 4096).unwrap();
    growth.register_small(small, [share.split(4096), share.split(4096)]).unwrap();
    assert_eq!((growth.small_bytes(), share.bytes()), (2 * 4096, 4096));
    growth.adopt_small(RemoteAddr { addr: PEER.address, rkey: Rkey(PEER.key) });
    let (landing, image) = growth.small(small).unwrap();
    let region = growth.small_region().unwrap();
    assert_eq!(region.addr, landing.memory.at(0, 1).expose_provenance() as u64);
    assert_eq!(script(|script| script.regions.iter().map(|it| it.access).collect::<Vec<_>>()), [3, 1]);
    // wire.md 10.3
    let base = 1_u32 << 30;
    assert_eq!(image.memory.base, base);
    let (from, to) = growth.outlet(base + 128, 100).unwrap();
    assert_eq!((from.bytes(), to.addr, to.rkey), (100, PEER.address + 128, Rkey(PEER.key)));
    let (inlet, at) = growth.inlet(base + 1024 - 100, 100).unwrap();
    assert_eq!((inlet.at(0, 1), at), (landing.memory.at(0, 1), 1024 - 100));
    assert!(growth.inlet(base + 1024 - 100, 101).is_none(), "behind its end");
    // Neither is one of those that are granted, which have their own places.
    made_landing(&mut growth, 0);
    made_image(&mut growth, 0);
    assert_eq!(growth.small_bytes(), 2 * 4096);
    assert_eq!(made(&mut growth, Job::ReleaseLanding(landing.memory)), JobOutcome::Released);
    assert!(growth.inlet(base, 1).is_none() && growth.small_region().is_none());
    assert_eq!(growth.small_bytes(), 4096);
    assert_eq!(made(&mut growth, Job::ReleaseImage(image.memory)), JobOutcome::Released);
    assert!(growth.outlet(base, 1).is_none());
    assert_eq!((regions(), growth.small_bytes()), (2, 0));
    drop(growth);
    assert_eq!((regions(), share.bytes()), (0, 4096));
}

#[test]
fn a_small_buffer_that_the_device_refuses_leaves_nothing() {
    let small = Layout { block_bytes: 128, block_count: 8, flags: FlagPlace::Inside };
    let mut growth = growth();
    growth = Growth::new(&growth.pd, LARGEST, Some(small), growth.jobs, &share(), MemoryPlacement::default())
        .unwrap();
    let part = || BudgetShare::take(MemoryKind::Registered, 4096).unwrap();
    answer("ibv_reg_mr", libc::ENOMEM);
    assert!(growth.register_small(small, [part(), part()]).is_err());
    drop(growth);
    assert_eq!(regions(), 0);
}
