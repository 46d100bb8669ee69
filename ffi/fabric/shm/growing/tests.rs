//! Two drivers on each other's sparse segments: what is provisioned and when, by the kernel's count of blocks; and jobs that fail.

use super::*;
use crate::fabric::HostFabric;
use crate::fabric::SleepEnd;
use crate::fabric::shm::Socket;
use crate::fabric::shm::fabric::Shm;
use crate::fabric::shm::foreign::allocated_bytes;
use crate::fabric::shm::segments::{Segments, first_segment_bytes};
use crate::fabric::shm::sparse::{PageSize, SparseSizes};
use crate::os::{membarrier, monotonic_ns};
use rustix::fs::{FallocateFlags, fallocate};
use std::os::fd::OwnedFd;
use superpipe_core::driver::setup::{Defaults, LandingMode, Negotiated, Tuning};
use superpipe_core::driver::{Drive, Driver, RecvOperation, SendOperation, WaitStrategy};
use superpipe_core::{Endpoint, Nanos, Origin, Protocol, Reason};

const PAGE: u64 = 4096;
const LONG: usize = 3 << 20;
/// More than the rings that go through the base before it grows.
const MEDIUM: usize = 300_000;
const SECOND_NS: u64 = 1_000_000_000;

fn negotiated() -> Negotiated {
    let tuning = Tuning { landing: Some(LandingMode::OnDemand), ..Tuning::default() };
    Defaults::SHM.negotiate(&tuning, &Tuning::default()).unwrap()
}

/// The provision protocol.
fn provision() -> Negotiated {
    let tuning = Tuning { protocol: Some(Protocol::Provision), ..Tuning::default() };
    Defaults::SHM.negotiate(&tuning, &Tuning::default()).unwrap()
}

fn sizes(negotiated: &Negotiated) -> SparseSizes {
    let small_bytes = negotiated.small_buffer().map_or(0, |small| small.bytes() as usize);
    SparseSizes { small_bytes, slot_bytes: negotiated.layout.bytes() as usize }
}

fn sparse(sizes: SparseSizes) -> (SparseSegment, OwnedFd) {
    SparseSegment::create(c"test", sizes, PageSize::Base).unwrap()
}

fn adopted(fd: &OwnedFd, sizes: SparseSizes) -> PeerSparseSegment {
    PeerSparseSegment::adopt(fd.try_clone().unwrap(), sizes, PageSize::Base).unwrap()
}

fn share() -> Arc<BudgetShare> {
    Arc::new(BudgetShare::open(MemoryKind::Shared, 0).unwrap())
}

/// Bytes for memory that is there.
fn charge() -> Option<Charge> {
    Charge::grow(&share(), 0).ok()
}

/// What one end has, with a connected peer that nobody drives.
fn growing() -> (Growing, OwnedFd) {
    let sizes = sizes(&negotiated());
    let ((own, _), (_peer, peer_fd)) = (sparse(sizes), sparse(sizes));
    (Growing::new(own, adopted(&peer_fd, sizes), share(), None), peer_fd)
}

/// Two ends in one thread, and the descriptors of their segments.
struct Two {
    fabric: Shm,
    ends: [Driver<Shm>; 2],
    fds: [OwnedFd; 2],
    now_ns: u64,
}

impl Two {
    fn new() -> Self {
        Self::of(negotiated())
    }

    fn of(negotiated: Negotiated) -> Self {
        let sizes = sizes(&negotiated);
        let ((own_a, fd_a), (own_b, fd_b)) = (sparse(sizes), sparse(sizes));
        let (theirs_a, theirs_b) = (adopted(&fd_b, sizes), adopted(&fd_a, sizes));
        let (a, b) = Socket::pair().unwrap();
        let fenced = membarrier::register();
        let sides = [(own_a, theirs_a, a), (own_b, theirs_b, b)];
        let ends = sides.map(|(mine, theirs, socket)| {
            let mut share =
                BudgetShare::open(MemoryKind::Shared, 2 * first_segment_bytes(&negotiated)).unwrap();
            let small = SmallBuffers::of(&negotiated, &mut share);
            let segments = Segments::Sparse { mine, theirs, share: Arc::new(share), small };
            let attachment = Shm::attach(segments, negotiated.layout, socket, fenced, true, None);
            let end = Endpoint::new(&Shm::new(), attachment, negotiated.config, Origin::default()).unwrap();
            let mut driver = Driver::new(end, 1, WaitStrategy::Sleep, SECOND_NS, Nanos(0));
            driver.set_release_after(0);
            driver
        });
        Self { fabric: Shm::new(), ends, fds: [fd_a, fd_b], now_ns: 0 }
    }

    fn growing(&mut self, side: usize) -> &mut Growing {
        self.ends[side].endpoint_mut().link_mut().growing_mut()
    }

    fn allocated(&self) -> [u64; 2] {
        self.fds.each_ref().map(allocated_bytes)
    }

    fn progress(&mut self) {
        for end in &mut self.ends {
            end.progress(&mut self.fabric);
        }
    }

    /// Sends a message from one end to the other.
    fn carry(&mut self, from: usize, bytes: usize) {
        let message: Vec<u8> = (0..=250).cycle().step_by(31).take(bytes).collect();
        let mut place = vec![0; bytes];
        let (mut send, mut receive) = (SendOperation::new(9, bytes), RecvOperation::new());
        let (mut is_sent, deadline_ns) = (false, monotonic_ns() + 60 * SECOND_NS);
        loop {
            assert!(monotonic_ns() < deadline_ns, "stuck");
            self.progress();
            if !is_sent
                && let Drive::Done(sent) =
                    self.ends[from].drive_send(&mut self.fabric, &mut send, &[&message])
            {
                sent.unwrap();
                is_sent = true;
            }
            let place = &mut [&mut place[..]];
            if let Drive::Done(received) =
                self.ends[1 - from].drive_recv(&mut self.fabric, &mut receive, place)
            {
                assert_eq!(received.unwrap().bytes, bytes);
                break;
            }
        }
        assert!(is_sent && place == message);
        self.settle();
    }

    /// Lets jobs and control messages come to their end.
    fn settle(&mut self) {
        let deadline_ns = monotonic_ns() + 60 * SECOND_NS;
        let is_steady = |end: &Driver<Shm>| end.endpoint().is_growth_steady();
        let mut steady_rounds = 0;
        while steady_rounds < 50 {
            assert!(monotonic_ns() < deadline_ns, "growth has no end");
            self.progress();
            for end in &mut self.ends {
                end.endpoint_mut().poll_acknowledgements(&mut self.fabric);
            }
            steady_rounds = if self.ends.iter().all(is_steady) { steady_rounds + 1 } else { 0 };
        }
    }

    /// Lets both ends see that nothing was used, in virtual time.
    fn idle(&mut self) {
        for _ in 0..3 {
            self.now_ns += SECOND_NS;
            for end in &mut self.ends {
                end.tick(&mut self.fabric, Nanos(self.now_ns));
            }
            self.settle();
        }
    }

    /// Bytes of the budget that one end has taken for growth.
    fn shares(&mut self, side: usize) -> u64 {
        let growing = self.growing(side);
        growing.own_charges.iter().chain(&growing.peer_charges).flatten().map(Charge::bytes).sum()
    }
}

#[test]
fn memory_comes_with_a_long_message_and_goes_when_idle() {
    let mut two = Two::new();
    assert_eq!(two.allocated(), [PAGE; 2]);
    two.carry(0, 2 << 10);
    assert_eq!(two.allocated(), [PAGE; 2], "it fits into the page");
    for from in [0, 1, 0] {
        let grown = u64::from(negotiated().layout.bytes());
        let expected = [0, 1].map(|side| PAGE + if side == from { 0 } else { grown });
        // Sizes double, so it takes a few moves.
        for _ in 0..50 {
            two.carry(from, LONG);
            if two.allocated() == expected {
                break;
            }
        }
        assert_eq!(two.allocated(), expected, "a ring of the largest size at the receiver");
        assert_eq!([two.shares(0), two.shares(1)], [grown; 2], "the owner's, and the writer's for the same");
        two.idle();
        assert_eq!(two.allocated(), [PAGE; 2]);
        assert_eq!([two.shares(0), two.shares(1)], [0; 2]);
    }
}

/// The small buffer of the provision protocol is memory of its own. wire.md 4.7, 6.4.
#[test]
fn a_small_buffer_goes_once_it_was_left() {
    let mut two = Two::of(provision());
    let small = PAGE;
    assert_eq!(two.allocated(), [PAGE + small; 2]);
    assert_eq!([two.shares(0), two.shares(1)], [2 * small; 2], "this end's, and the peer's");
    for from in [0, 1] {
        for bytes in [8, 40, 900] {
            two.carry(from, bytes);
        }
    }
    assert_eq!(two.allocated(), [PAGE + small; 2], "up to the threshold it is enough");
    // A ring of 6,144 bytes, and 48 slot lines.
    two.carry(0, 5000);
    let larger = two.allocated()[1] - PAGE;
    assert!((8 << 10..32 << 10).contains(&larger), "{larger}");
    assert_eq!(two.allocated(), [PAGE + small, PAGE + larger], "the receiver's small buffer is gone");
    assert_eq!([two.shares(0), two.shares(1)], [small + larger; 2], "each end has given back what it paid");
    two.carry(1, 5000);
    assert_eq!(two.allocated(), [PAGE + larger; 2]);
    assert_eq!([two.shares(0), two.shares(1)], [2 * larger; 2]);
    two.idle();
    assert_eq!(two.allocated(), [PAGE; 2], "the base takes their place");
    assert_eq!([two.shares(0), two.shares(1)], [0; 2]);
    for from in [0, 1] {
        two.carry(from, 900);
        two.carry(from, 5000);
    }
    assert_eq!(two.allocated(), [PAGE + larger; 2]);
}

#[test]
fn a_small_buffer_goes_when_idle_as_well() {
    let mut two = Two::of(provision());
    two.carry(0, 100);
    two.idle();
    assert_eq!(two.allocated(), [PAGE; 2]);
    assert_eq!([two.shares(0), two.shares(1)], [0; 2]);
}

/// A peer that grants the small buffer has no such slot.
#[test]
fn no_claim_names_a_small_buffer() {
    let sizes = sizes(&provision());
    let ((own, _), (_peer, peer_fd)) = (sparse(sizes), sparse(sizes));
    let growing = Growing::new(own, adopted(&peer_fd, sizes), share(), None);
    let claim = RemoteClaim { address: Slot::Small.index() as u64, key: 0 };
    assert!(matches!(growing.populate(provision().layout, claim), Err(JobFailed::WrongClaim)));
}

#[test]
fn both_ends_grow_at_once() {
    let mut two = Two::new();
    for _ in 0..5 {
        two.carry(0, LONG);
        two.carry(1, LONG);
        assert!(two.allocated().iter().all(|bytes| *bytes > PAGE));
        two.carry(0, 8);
        two.idle();
        assert_eq!(two.allocated(), [PAGE; 2]);
    }
}

#[test]
fn no_end_sleeps_while_a_job_is_under_way() {
    let mut two = Two::new();
    let mut send = SendOperation::new(1, LONG);
    let message = vec![1; LONG];
    let deadline_ns = monotonic_ns() + 60 * SECOND_NS;
    // The receiver does nothing but its control messages.
    while !two.growing(1).has_jobs() {
        assert!(monotonic_ns() < deadline_ns);
        let _ = two.ends[0].drive_send(&mut two.fabric, &mut send, &[&message]);
        two.progress();
    }
    let fabric = &two.fabric;
    assert_eq!(fabric.begin_sleep(two.ends[1].endpoint_mut(), SECOND_NS), Err(SleepEnd::Poll));
    while two.growing(1).has_jobs() {
        assert!(monotonic_ns() < deadline_ns);
        two.ends[1].progress(&mut two.fabric);
    }
    // It reports what has arrived once, and then may sleep.
    let fabric = &two.fabric;
    let slept = (0..3).any(|_| fabric.begin_sleep(two.ends[1].endpoint_mut(), SECOND_NS).is_ok());
    assert!(slept);
}

#[test]
fn a_transfer_goes_on_where_the_machine_refuses_memory() {
    // Slots that hold memory which cannot be released.
    for side in [0, 1] {
        let mut two = Two::new();
        if side == 1 {
            two.growing(1).own_charges = [charge(), charge(), None];
        } else {
            two.growing(0).peer_charges = [charge(), charge(), None];
        }
        two.carry(0, MEDIUM);
        let counters = two.ends[0].counters();
        assert!(counters.growths_asked > 0 && counters.moves == 0, "{counters:?}");
        assert_eq!(two.allocated(), [PAGE; 2], "what was granted was given back");
        if side == 1 {
            two.growing(1).own_charges = [None, None, None];
        } else {
            two.growing(0).peer_charges = [None, None, None];
        }
        let has_moved = |two: &mut Two| {
            two.carry(0, MEDIUM);
            two.ends[0].counters().moves > 0
        };
        assert!((0..200).any(|_| has_moved(&mut two)), "it asks again after a while");
    }
}

#[test]
fn claims_to_what_a_peer_cannot_have_are_refused() {
    let (mut growing, _peer) = growing();
    let layout = negotiated().layout;
    let larger = Layout { block_count: layout.block_count + 1, ..layout };
    let wrong = |growing: &Growing, layout, address, key| {
        matches!(growing.populate(layout, RemoteClaim { address, key }), Err(JobFailed::WrongClaim))
    };
    for (layout, address, key) in [
        (layout, 2, 0),
        (layout, u64::MAX, 0),
        (layout, 1 << 32, 0),
        (layout, 0, 1),
        (layout, 1, u32::MAX),
        (larger, 0, 0),
    ] {
        assert!(wrong(&growing, layout, address, key), "{layout:?} {address} {key}");
    }
    for address in [0, 1] {
        assert!(growing.populate(layout, RemoteClaim { address, key: 0 }).is_ok());
    }
    growing.peer_charges[1] = charge();
    assert!(wrong(&growing, layout, 1, 0), "it is in use");
    assert!(!wrong(&growing, layout, 0, 0));
}

/// Drives the only job of an end to its end.
fn ended(growing: &mut Growing) -> JobResult<Span, Span> {
    let deadline_ns = monotonic_ns() + 60 * SECOND_NS;
    loop {
        assert!(monotonic_ns() < deadline_ns, "a job has no end");
        if let Some((_, result)) = growing.finished() {
            return result;
        }
    }
}

/// The owner grants a landing buffer that it has not provisioned, so this end allocates all of it; and it never removes a page.
#[test]
fn pages_of_an_image_go_before_their_budget_comes_back() {
    for layout in [negotiated().layout, Layout { block_count: 2, ..negotiated().layout }] {
        let (mut growing, peer) = growing();
        let budget = Arc::clone(&growing.share);
        for slot in [0, 1, 0] {
            let claim = RemoteClaim { address: slot, key: 0 };
            growing
                .begin(JobId::new(0, 0), Job::ProvisionImage { place: 0, layout, claim: Some(claim) })
                .unwrap();
            let Ok(JobOutcome::Image(image)) = ended(&mut growing) else { panic!("there is room") };
            assert_eq!(allocated_bytes(&peer), PAGE + budget.bytes());
            growing.begin(JobId::new(0, 1), Job::ReleaseImage(image)).unwrap();
            assert_eq!(ended(&mut growing), Ok(JobOutcome::Released));
            assert_eq!((allocated_bytes(&peer), budget.bytes()), (PAGE, 0), "{layout:?}");
        }
    }
}

#[test]
fn an_image_that_is_not_made_leaves_no_pages() {
    for steps in 0..12 {
        let (growing, peer) = growing();
        let layout = negotiated().layout;
        let mut populate = growing.peer.populate(Slot::Second, layout.bytes() as usize);
        for _ in 0..steps {
            if populate.step() != Step::More {
                break;
            }
        }
        let is_made = allocated_bytes(&peer) == PAGE + u64::from(layout.bytes());
        drop(populate);
        assert!(is_made || allocated_bytes(&peer) == PAGE, "{steps}");
        assert_eq!(is_made, steps >= 9);
    }
}

#[test]
fn a_peer_that_punches_changes_bytes_and_no_more() {
    let mut two = Two::new();
    two.carry(0, LONG);
    let (fd, bytes) = (two.fds[1].try_clone().unwrap(), u64::from(negotiated().layout.bytes()));
    fallocate(&fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, PAGE, 2 * bytes).unwrap();
    // Both ends have written and read there since; the pages came back, as many as are used.
    two.carry(0, LONG);
    assert!((PAGE..=PAGE + bytes).contains(&allocated_bytes(&fd)));
    two.idle();
    assert_eq!(two.allocated(), [PAGE; 2]);
}

#[test]
fn a_connection_that_is_dropped_leaves_its_jobs_nothing() {
    for rounds in [1, 2, 3, 5, 8, 13] {
        let mut two = Two::new();
        let mut send = SendOperation::new(1, LONG);
        let message = vec![1; LONG];
        for _ in 0..rounds {
            let _ = two.ends[0].drive_send(&mut two.fabric, &mut send, &[&message]);
            two.progress();
        }
        let Two { ends, fds, mut fabric, .. } = two;
        let [mut one, other] = ends;
        drop(other);
        // The surviving end still does what is due.
        one.close(&mut fabric, Reason::GIVEN_UP);
        one.progress(&mut fabric);
        drop(one);
        // A step under way may end later. The mappings are gone then: only these descriptors keep the files.
        let deadline_ns = monotonic_ns() + 60 * SECOND_NS;
        while mappings_of(&fds) > 0 {
            assert!(monotonic_ns() < deadline_ns, "a job keeps a mapping");
            std::thread::yield_now();
        }
    }
}

/// Mappings of these files in this process.
fn mappings_of(fds: &[OwnedFd; 2]) -> usize {
    let inodes = fds.each_ref().map(|fd| format!(" {} ", rustix::fs::fstat(fd).unwrap().st_ino));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| inodes.iter().any(|inode| line.contains(inode))).count()
}
