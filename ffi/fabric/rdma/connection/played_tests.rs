//! Two ends on devices that carry out what is posted: the fabric below core as it ships, byte for byte, and its sleep.

mod growing;
mod provision;

use super::*;
use crate::budget::{Budget, BudgetShare, MemoryKind};
use crate::fabric::rdma::fabric::{LinkTerms, Rdma, RdmaLink};
use crate::fabric::rdma::fake_device::{gathered, receive, with_half_a_mebibyte};
use crate::fabric::rdma::memory::LinkMemory;
use crate::fabric::rdma::receive_pool::IS_RECEIVE;
use crate::fabric::rdma::signal::Signal;
use crate::fabric::rdma::violation::Violation;
use crate::fabric::{HostFabric, LossCause, SleepEnd};
use crate::os::memory_node::some_placement;
use crate::os::mempolicy::preferred_node_at;
use crate::os::monotonic_ns;
use crate::os::poll::{PollFd, Polled, poll_now};
use core::mem::{swap, take};
use std::io::{Write as _, pipe};
use std::os::fd::AsFd as _;
use superpipe_core::driver::setup::RemoteRegion;
use superpipe_core::driver::{Drive, Driver, Received, RecvOperation, SendOperation, WaitStrategy};
use superpipe_core::{
    Arrival, CONTROL_PAGE_BYTES, Config, CopyKernel, Endpoint, Fabric, FlagPlace, Line, Nanos, Origin,
    small_layout,
};
use superpipe_verbs::fake::{
    Posted, Region, Script, answer, begin, calls, channel, ibv_send_flags, ibv_wr_opcode, receive_immediate,
    receive_write, script, sent, write_from_peer,
};
use superpipe_verbs::{CmId, RemoteAddr, Rkey, WcStatus};

type List<T> = std::vec::Vec<T>;

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };
const SECOND_NS: u64 = 1_000_000_000;
const UNANSWERED_NS: u64 = 100_000;

/// An end, and its device.
pub(super) struct Side {
    pub(super) driver: Driver<Rdma>,
    pub(super) device: Script,
    /// The device carries out what is posted, and completes nothing, as one that repeats its writes to a peer without an answer.
    pub(super) completes_nothing: bool,
}

pub(super) struct Pair {
    pub(super) sides: [Side; 2],
    fabric: Rdma,
}

/// A wire, with memory that the peer writes and an image to write from. Its landing buffers grow up to `largest`.
fn connection(largest: Option<Layout>) -> (RdmaConnection, LinkMemory) {
    connection_with(largest, None)
}

/// The same, and with small buffers.
fn connection_with(largest: Option<Layout>, small: Option<Layout>) -> (RdmaConnection, LinkMemory) {
    connection_on(MemoryNode::Auto, largest, small)
}

/// The same, with memory of a node.
fn connection_on(
    memory_node: MemoryNode,
    largest: Option<Layout>,
    small: Option<Layout>,
) -> (RdmaConnection, LinkMemory) {
    begin();
    answer("ibv_get_cq_event", libc::EAGAIN);
    let channel = channel();
    let id = CmId::create(&channel).unwrap();
    let connection = RdmaConnection::new(Cm::new(channel, id), memory_node, None).unwrap();
    let first = FirstLanding::behind_page(LAYOUT);
    let image = connection.register(first, Access::Local).unwrap();
    let mine = connection.register(first, Access::RemoteWrite).unwrap();
    let growth = largest.map(|largest| {
        // The device of this thread sees all steps.
        let jobs: &'static Jobs = Box::leak(Box::new(Jobs::alone()));
        let mut share = BudgetShare::open(MemoryKind::Registered, 8192).unwrap();
        let parts = [share.split(4096), share.split(4096)];
        let mut growth = Box::new(connection.growth(largest, small, jobs, &Arc::new(share)).unwrap());
        if let Some(small) = small {
            growth.register_small(small, parts).unwrap();
        }
        growth
    });
    let lending = Box::new(connection.lending(Box::leak(Box::new(Jobs::alone()))));
    (connection, LinkMemory { mine, image, remote: REMOTE, growth, lending })
}

const REMOTE: RemoteAddr = RemoteAddr { addr: 0x10_0000, rkey: Rkey(9) };

const fn terms(arrival: Arrival, largest: Option<Layout>) -> LinkTerms {
    LinkTerms { arrival, notifications_max: 128, largest, small: None }
}

/// Carries out a posted write, as the devices do: this one is the peer's.
fn carry_out(posted: &Posted, bytes: &[u8]) {
    let to = RemoteAddr { addr: posted.to, rkey: Rkey(posted.rkey) };
    // SAFETY: it is a region of the peer, which lives as long as the link, and nobody borrows it.
    assert_eq!(unsafe { write_from_peer(to, bytes) }, WcStatus::SUCCESS, "{posted:?}");
}

impl Pair {
    pub(super) fn new(arrival: Arrival) -> Self {
        Self::of(arrival, None)
    }

    fn of(arrival: Arrival, largest: Option<Layout>) -> Self {
        Self::on_devices(arrival, largest, arrival == Arrival::Notify)
    }

    /// On devices without immediates, if `is_iwarp`.
    pub(super) fn on_devices(arrival: Arrival, largest: Option<Layout>, is_iwarp: bool) -> Self {
        let config = Config { arrival, c0_bytes: 600, order_asserted: true, ..Config::default() };
        Self::with(terms(arrival, largest), config, is_iwarp)
    }

    fn with(terms: LinkTerms, config: Config, is_iwarp: bool) -> Self {
        let LinkTerms { largest, small, .. } = terms;
        let mut ends = [0, 1].map(|_| {
            let (mut connection, memory) = connection_with(largest, small);
            connection.is_iwarp = is_iwarp;
            assert_eq!(connection.is_iwarp(), is_iwarp);
            (connection, memory, script(take))
        });
        let [a, b] = ends.each_ref().map(|(_, memory, _)| RemoteAddr {
            addr: memory.mine.mr.remote_addr(),
            rkey: memory.mine.mr.rkey(),
        });
        (ends[0].1.remote, ends[1].1.remote) = (b, a);
        let small_regions =
            ends.each_ref().map(|(_, memory, _)| memory.growth.as_ref().and_then(|it| it.small_region()));
        for (own, region) in small_regions.into_iter().enumerate() {
            if let Some((growth, RemoteRegion { addr, rkey })) = ends[1 - own].1.growth.as_mut().zip(region) {
                growth.adopt_small(RemoteAddr { addr, rkey: Rkey(rkey) });
            }
        }
        let fabric = Rdma::new();
        let mut id = 0;
        let sides = ends.map(|(connection, memory, device)| {
            let attachment = RdmaLink::attach(connection, memory, terms);
            let endpoint = Endpoint::new(&fabric, attachment, config, Origin::default()).unwrap();
            id += 1;
            let driver = Driver::new(endpoint, id, WaitStrategy::Sleep, SECOND_NS, Nanos(0));
            Side { driver, device, completes_nothing: false }
        });
        Self { sides, fabric }
    }

    /// Has one end do something, and then its device what was posted.
    pub(super) fn on<T>(&mut self, side: usize, act: impl FnOnce(&mut Driver<Rdma>, &mut Rdma) -> T) -> T {
        let Self { sides, fabric } = self;
        let [own, other] = sides.get_disjoint_mut([side, 1 - side]).unwrap();
        script(|script| swap(script, &mut own.device));
        let done = act(&mut own.driver, fabric);
        let posted = script(|script| take(&mut script.posted)).concat();
        for posted in &posted {
            let ours = posted.from.iter().zip(&posted.lkeys);
            for (&(at, bytes), &key) in ours {
                let holds = |region: &Region| region.key == key && region.holds(at, bytes.into());
                assert!(script(|script| script.regions.iter().any(holds)), "{posted:?}");
            }
            if posted.flags & ibv_send_flags::IBV_SEND_SIGNALED.0 != 0 && !own.completes_nothing {
                sent(posted.id, WcStatus::SUCCESS);
            }
        }
        let bytes: List<_> = posted.iter().map(gathered).collect();
        script(|script| swap(script, &mut own.device));
        script(|script| swap(script, &mut other.device));
        for (posted, bytes) in posted.iter().zip(&bytes) {
            match posted.opcode {
                ibv_wr_opcode::IBV_WR_RDMA_WRITE => carry_out(posted, bytes),
                ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM => {
                    carry_out(posted, bytes);
                    receive_write(posted.immediate);
                }
                ibv_wr_opcode::IBV_WR_SEND => receive(bytes),
                other => panic!("{other:?}"),
            }
        }
        script(|script| swap(script, &mut other.device));
        done
    }

    /// Sends a message from one end to the other.
    fn carry(&mut self, from: usize, tag: u64, message: &[u8]) {
        let (mut send, mut receive) = (SendOperation::new(tag, message.len()), RecvOperation::new());
        let (mut is_sent, mut place) = (false, vec![0; message.len()]);
        for _ in 0..20_000 {
            if !is_sent
                && let Drive::Done(done) =
                    self.on(from, |driver, fabric| driver.drive_send(fabric, &mut send, &[message]))
            {
                assert_eq!(done, Ok(()));
                is_sent = true;
            }
            let received = self
                .on(1 - from, |driver, fabric| driver.drive_recv(fabric, &mut receive, &mut [&mut place]));
            if let Drive::Done(done) = received {
                assert_eq!(done, Ok(Received { tag, bytes: message.len() }));
                assert!(is_sent && place == message, "{} bytes", message.len());
                return;
            }
            for side in [0, 1] {
                self.on(side, |driver, fabric| driver.progress(fabric));
            }
        }
        panic!(
            "stuck: {} bytes, {:?}",
            message.len(),
            self.sides.each_ref().map(|side| side.driver.endpoint().closed())
        );
    }

    fn begin_sleep(&mut self, side: usize) -> Result<u64, SleepEnd> {
        self.on(side, |driver, fabric| fabric.begin_sleep(driver.endpoint_mut(), SECOND_NS))
    }

    /// Ends a sleep; what the device, or rdma_cm, has told is readable.
    fn end_sleep(&mut self, side: usize, polled: Polled, is_signaled: bool, is_ended: bool) -> SleepEnd {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"x").unwrap();
        let mut fds = [is_signaled, is_ended].map(|is_ready| match is_ready {
            true => PollFd::new(reader.as_fd(), libc::POLLIN),
            false => PollFd::none(),
        });
        poll_now(&mut fds);
        self.on(side, |driver, fabric| fabric.end_sleep(driver.endpoint_mut(), Ok(polled), fds))
    }

    /// Both ends do what needs no asking.
    pub(super) fn settle(&mut self) {
        for _ in 0..10 {
            for side in [0, 1] {
                self.on(side, |driver, fabric| driver.progress(fabric));
            }
        }
    }

    fn link(&self, side: usize) -> &RdmaLink {
        self.sides[side].driver.endpoint().link()
    }
}

pub(super) fn payload(bytes: usize) -> List<u8> {
    (0..bytes).map(|at| u8::try_from(at * 7 % 251).unwrap() | 1).collect()
}

#[test]
fn messages_of_every_kind_cross_both_ways() {
    for arrival in MODES {
        let mut pair = Pair::new(arrival);
        for (tag, bytes) in (0..).zip([0, 1, 8, 40, 41, 192, 193, 600, 601, 2500, 9000]) {
            pair.carry(0, tag, &payload(bytes));
            pair.carry(1, tag + 100, &payload(bytes));
        }
    }
}

/// 256 KiB.
const LARGEST: Layout = Layout { block_bytes: 8 << 10, block_count: 32, flags: FlagPlace::Inside };
pub(super) const MODES: [Arrival; 3] = [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify];

impl Pair {
    /// Both ends drive until no growth is under way.
    fn quiesce(&mut self) {
        for _ in 0..20_000 {
            for side in [0, 1] {
                self.on(side, |driver, fabric| driver.progress(fabric));
            }
            if self.sides.iter().all(|side| side.driver.endpoint().is_growth_steady()) {
                return;
            }
        }
        panic!("growth never ends");
    }

    fn shrink(&mut self) {
        for side in [0, 1] {
            self.on(side, |driver, _| driver.endpoint_mut().shrink());
        }
        self.quiesce();
    }

    /// Returns whether each end has a landing buffer that was grown.
    fn grown(&self) -> [bool; 2] {
        self.sides.each_ref().map(|side| side.driver.endpoint().has_grown())
    }

    /// Returns the count of regions at each end.
    fn regions(&self) -> [usize; 2] {
        self.sides.each_ref().map(|side| side.device.regions.len())
    }

    fn are_open(&self) -> bool {
        self.sides.iter().all(|side| side.driver.endpoint().closed().is_none())
    }
}

#[test]
fn offsets_of_core_are_addresses_of_the_memory() {
    let line = Line([1, 2, 3, 4, 5, 6, 7, 8]);
    let (connection, memory) = connection(None);
    assert!(!connection.is_iwarp());
    let (ours, theirs, remote) = (memory.mine.all(), memory.image.all(), memory.remote);
    let keeps_order = connection.keeps_order();
    let parts = RdmaLink::attach(connection, memory, terms(Arrival::Flag, None));
    let (page, landing, mut link) = (parts.control_page, parts.landing.memory, parts.link);
    let (their_page, their_landing) = (parts.peer_control_page, parts.peer_landing.memory);
    let fabric = &mut Rdma::new();
    assert_eq!(fabric.crc(b"123456789", 0), 0xE306_9283, "the check value of CRC32C");
    let (before, now, after) = (monotonic_ns(), fabric.now().0, monotonic_ns());
    assert!((before..=after).contains(&now));
    let caps = fabric.caps(&link);
    assert_eq!((caps.order_inside_write, caps.notifications_max), (keeps_order, 128));

    // Memory that the peer writes.
    ours.write_line(128, &line);
    ours.write_line(CONTROL_PAGE_BYTES + 256, &line);
    assert_eq!((fabric.take_line(&link, page, 128), fabric.flag(&link, page, 128 + 48)), (line, 7));
    assert_eq!((fabric.take_line(&link, landing, 256), fabric.flag(&link, landing, 256 + 56)), (line, 8));
    let bytes = line.0.map(u64::to_le_bytes).concat();
    for kernel in CopyKernel::ALL {
        let mut out = [0; 60];
        fabric.copy_out(&mut link, landing, 256, &mut out, kernel);
        assert_eq!(out, bytes[..60]);
    }
    assert_eq!(fabric.crc_out(&link, landing, 256, 60, 5), fabric.crc(&bytes[..60], 5));
    assert_eq!(fabric.source_of(&link, landing, 256, 64), ours.at(CONTROL_PAGE_BYTES + 256, 64).cast_const());

    // The image of the peer's memory.
    fabric.write_line(&mut link, their_page, 64, &line);
    fabric.publish(&mut link, their_page, 128, 77);
    fabric.copy_in(&mut link, their_landing, 512, &bytes[..60], CopyKernel::Plain);
    assert_eq!((theirs.take_line(64), theirs.flag(128)), (line, 77));
    assert_eq!(theirs.take_line(CONTROL_PAGE_BYTES + 512).0[..7], line.0[..7]);
    assert_eq!(fabric.crc_in(&link, their_landing, 512, 60, 5), fabric.crc(&bytes[..60], 5));
    assert_eq!(fabric.place_in(&link, their_landing, 512, 64), theirs.at(CONTROL_PAGE_BYTES + 512, 64));

    // Local and remote addresses of a posted write.
    for (to, at, place) in [(their_page, 64, 64), (their_landing, 512, CONTROL_PAGE_BYTES + 512)] {
        let wr = WrId(u64::from(at));
        assert_eq!(fabric.post_write(&mut link, to, at, 60, Some(wr), None), Ok(()));
        assert_eq!(script(|script| script.posted.len()), 0, "it waits for the doorbell");
        fabric.ring_doorbell(&mut link);
        let [posted] = script(|script| take(&mut script.posted)).concat().try_into().unwrap();
        assert_eq!(posted.to, remote.addr + u64::from(place));
        assert_eq!(posted.from, [(theirs.at(place, 60).expose_provenance() as u64, 60)]);
        assert_eq!(fabric.poll_cq(&mut link), None);
        sent(posted.id, WcStatus::SUCCESS);
        assert_eq!(fabric.poll_cq(&mut link).map(|done| (done.wr, done.result)), Some((wr, Ok(()))));
    }
    let full = (0..1000).find(|_| fabric.post_write(&mut link, their_page, 64, 8, None, None).is_err());
    assert!(full.is_some_and(|posted| posted > 8), "{full:?}");
}

#[test]
fn notifications_and_the_end_of_a_connection_are_reported() {
    let (connection, memory) = connection(None);
    let mut link = RdmaLink::attach(connection, memory, terms(Arrival::Notify, None)).link;
    let fabric = &mut Rdma::new();
    assert!(!fabric.has_notification(&link) && fabric.poll_notification(&mut link).is_none());
    receive_immediate(IS_RECEIVE, 5);
    link.connection.poll();
    assert!(fabric.has_notification(&link));
    assert_eq!(
        (fabric.poll_notification(&mut link), fabric.has_notification(&link)),
        (Some(Notification(5)), false)
    );
    receive_immediate(IS_RECEIVE, Signal::Sleep.encode());
    link.connection.poll();
    assert!(link.connection.sleep.owes_wake());
    fabric.set_quiet(&mut link, true);
    assert!(!link.connection.sleep.owes_wake());
    assert!(fabric.is_alive(&link));
    assert_eq!(fabric.why_gone(&link), None);
    fabric.end_by(&mut link, 4711);
    assert_eq!(link.connection.cm.get_mut().ends_by(), 4711);
    link.connection.finish(State::Violation(Violation::UnknownMessage));
    assert!(!fabric.is_alive(&link));
    assert!(matches!(fabric.why_gone(&link), Some(LossCause::Violation(rule)) if rule.contains("10.3")));
}

#[test]
fn a_sleep_is_short_until_the_peer_has_agreed_to_wake() {
    for arrival in [Arrival::Flag, Arrival::CheckedFlag] {
        let mut pair = Pair::new(arrival);
        assert_eq!(pair.begin_sleep(0), Ok(UNANSWERED_NS), "SLEEP is not answered");
        assert_eq!(pair.end_sleep(0, Polled::TimedOut, false, false), SleepEnd::TimedOut);
        pair.settle();
        assert!(pair.link(0).connection.sleep.is_granted(), "the peer's progress answered");
        assert_eq!(pair.begin_sleep(0), Ok(SECOND_NS));
        pair.on(1, |driver, fabric| driver.try_send(fabric, 7, &[b"wake"]).unwrap());
        pair.on(1, |driver, fabric| driver.progress(fabric));
        assert_eq!(pair.end_sleep(0, Polled::Ready, true, false), SleepEnd::Poll);
        let mut place = [0; 4];
        let received = pair.on(0, |driver, fabric| driver.try_recv(fabric, &mut [&mut place]).unwrap());
        assert_eq!((received, &place), (Some(Received { tag: 7, bytes: 4 }), b"wake"));
        pair.settle();
        assert!(!pair.link(0).connection.sleep.is_granted(), "WAKE came behind it");
    }
}

#[test]
fn an_arrival_prevents_a_sleep() {
    for arrival in [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify] {
        let mut pair = Pair::new(arrival);
        pair.on(1, |driver, fabric| driver.try_send(fabric, 7, &[b"here"]).unwrap());
        pair.on(1, |driver, fabric| driver.progress(fabric));
        assert_eq!(pair.begin_sleep(0), Err(SleepEnd::Poll));
        assert!(pair.link(0).sleepers.is_empty(), "{arrival:?}");
    }
}

#[test]
fn in_notify_mode_no_sleep_is_requested() {
    let mut pair = Pair::new(Arrival::Notify);
    assert_eq!(pair.begin_sleep(0), Ok(SECOND_NS));
    pair.settle();
    assert!(!pair.link(1).connection.sleep.owes_wake(), "SLEEP was not said");
    assert_eq!(pair.end_sleep(0, Polled::TimedOut, false, false), SleepEnd::TimedOut);
}

#[test]
fn the_last_of_two_sleepers_takes_the_event_out() {
    let mut pair = Pair::new(Arrival::Notify);
    assert_eq!((pair.begin_sleep(0), pair.begin_sleep(0)), (Ok(SECOND_NS), Ok(SECOND_NS)));
    pair.on(0, |_, _| calls());
    let events = |pair: &mut Pair| {
        let calls = pair.on(0, |_, _| calls());
        calls.into_iter().filter(|call| *call == "ibv_get_cq_event").count()
    };
    assert_eq!(pair.end_sleep(0, Polled::Ready, true, false), SleepEnd::Poll);
    assert_eq!(events(&mut pair), 0);
    assert_eq!(pair.begin_sleep(0), Err(SleepEnd::Poll), "the other has yet to see it");
    assert_eq!(pair.end_sleep(0, Polled::Ready, true, false), SleepEnd::Poll);
    assert_eq!(events(&mut pair), 1);
    assert_eq!(pair.begin_sleep(0), Ok(SECOND_NS));
}

#[test]
fn the_channel_is_armed_once_per_event() {
    let mut pair = Pair::new(Arrival::Notify);
    let mut sleep = |is_signaled| {
        assert_eq!(pair.begin_sleep(0), Ok(SECOND_NS));
        pair.end_sleep(0, Polled::Ready, is_signaled, false);
        let calls = pair.on(0, |_, _| calls());
        calls.into_iter().filter(|call| *call == "ibv_req_notify_cq").count()
    };
    assert_eq!((sleep(false), sleep(false)), (1, 0));
}

#[test]
fn a_sleep_learns_that_the_peer_is_gone() {
    // rdma_cm told, and means it.
    let mut pair = Pair::new(Arrival::Flag);
    assert_eq!(pair.begin_sleep(0), Ok(UNANSWERED_NS));
    assert_eq!(pair.end_sleep(0, Polled::Ready, false, true), SleepEnd::Poll, "the peer is there");
    assert_eq!(pair.begin_sleep(0), Ok(UNANSWERED_NS));
    pair.on(0, |driver, _| driver.endpoint_mut().link_mut().connection.finish(State::Gone));
    assert_eq!(pair.end_sleep(0, Polled::Ready, false, true), SleepEnd::PeerGone);
    // A sleep that timed out on a wire that has ended asks for a poll.
    let mut pair = Pair::new(Arrival::Flag);
    assert_eq!(pair.begin_sleep(0), Ok(UNANSWERED_NS));
    pair.on(0, |driver, _| driver.endpoint_mut().link_mut().connection.finish(State::Gone));
    assert_eq!(pair.end_sleep(0, Polled::TimedOut, false, false), SleepEnd::Poll);
    // A channel that cannot be armed.
    let mut pair = Pair::new(Arrival::Flag);
    pair.on(0, |_, _| answer("ibv_req_notify_cq", libc::EIO));
    assert_eq!(pair.begin_sleep(0), Err(SleepEnd::PeerGone));
}

#[test]
fn all_that_is_registered_is_of_the_node_asked_for() {
    let Some(placement) = some_placement() else { return };
    let node = placement.node();
    let nodes = || {
        let starts = script(|script| script.regions.iter().map(|region| region.start).collect::<List<_>>());
        let of = |start| preferred_node_at(core::ptr::without_provenance(usize::try_from(start).unwrap()));
        starts.into_iter().map(of).collect::<List<_>>()
    };
    // The first receives, both control pages with a landing buffer, both small buffers.
    let asked = MemoryNode::Number(node.unwrap());
    let (connection, memory) = connection_on(asked, Some(LAYOUT), Some(small_layout(1024)));
    assert_eq!((connection.placement(), nodes()), (placement, vec![node; 5]));
    drop((connection, memory));
}
