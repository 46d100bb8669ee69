//! Half-open connections on a device that does what the test says.

use super::*;
use crate::budget::Budget;
use crate::fabric::rdma::cm::Cm;
use crate::fabric::rdma::fake_device::{gathered, receive, with_half_a_mebibyte};
use crate::fabric::rdma::violation::Violation;
use crate::fabric::rdma::{AckTimeout, RdmaDevice};
use crate::os::MemoryNode;
use crate::os::page::round_to_pages;
use core::ops::{Deref, DerefMut};
use superpipe_core::WcError;
use superpipe_core::driver::setup::{Kind, PACKET_BYTES, PacketError, Tuning};
use superpipe_verbs::CmId;
use superpipe_verbs::fake::{answer, begin, calls, channel, script};

const DEADLINE_NS: u64 = 5_000_000_000;
const BLOCK_BYTES: u32 = 16 << 10;

fn connection() -> RdmaConnection {
    begin();
    answer("ibv_get_cq_event", libc::EAGAIN);
    let channel = channel();
    let id = CmId::create(&channel).unwrap();
    RdmaConnection::new(Cm::new(channel, id), MemoryNode::Auto, None).unwrap()
}

fn half_open(role: Role) -> Unsent {
    let tuning = Tuning { arrival: Some(superpipe_core::Arrival::CheckedFlag), ..Tuning::default() };
    half_open_of(role, tuning, 1 << 20)
}

/// One that may register 1 GiB, whatever this host's RLIMIT_MEMLOCK is.
fn half_open_of(role: Role, tuning: Tuning, landing_bytes_max: u32) -> Unsent {
    Budget::set_registered_max(1 << 30);
    begin_half_open(role, tuning, landing_bytes_max)
}

fn begin_half_open(role: Role, tuning: Tuning, landing_bytes_max: u32) -> Unsent {
    let options = RdmaOptions {
        tuning: &tuning,
        landing_bytes_max,
        idle_timeout_ns: 30_000_000_000,
        device: RdmaDevice::default(),
        ack_timeout: AckTimeout::default(),
        memory_node: MemoryNode::Auto,
        shards: None,
    };
    let connection = connection();
    calls();
    Unsent(HalfOpen::new(connection, role, &options, DEADLINE_NS, 0))
}

/// A passive end that was greeted, and would register more than the budget has.
fn without_room() -> Unsent {
    let tuning = Tuning { landing_bytes: Some(600 << 20), ..Tuning::default() };
    let mut end = half_open_of(Role::Passive, tuning, 600 << 20);
    receive(&Packet::new(Kind::Hello).0);
    assert!(is_pending(&end.drive(0)));
    end
}

/// Kinds and codes of the packets that went out since this was asked last.
fn said() -> Vec<(u8, u8)> {
    let posted = script(|script| core::mem::take(&mut script.posted)).concat();
    posted
        .iter()
        .map(gathered)
        .filter(|sent| sent.len() == PACKET_BYTES)
        .map(|sent| (sent[10], sent[11]))
        .collect()
}

fn welcome(landing_bytes: u32) -> Packet {
    let mut welcome = Packet::new(Kind::Welcome);
    welcome.0[13..16].copy_from_slice(&[4, 2, 3]);
    welcome.0[16..20].copy_from_slice(&BLOCK_BYTES.to_le_bytes());
    welcome.0[20..24].copy_from_slice(&landing_bytes.to_le_bytes());
    welcome.0[30] = ArrivalReason::Requested as u8;
    welcome.0[32..40].copy_from_slice(&0x1000_u64.to_le_bytes());
    welcome.0[40..44].copy_from_slice(&9_u32.to_le_bytes());
    welcome
}

const HELLO: (u8, u8) = (1, 0);
const REFUSED: u8 = 5;

fn is_pending(progress: &Progress) -> bool {
    matches!(progress, Progress::Pending)
}

fn failure(progress: Progress) -> ConnectError {
    match progress {
        Progress::Failed(error) => error,
        Progress::Pending | Progress::Done(_) => panic!("it has not failed"),
    }
}

/// One on a device that would never send what was posted.
struct Unsent(HalfOpen);

impl Deref for Unsent {
    type Target = HalfOpen;

    fn deref(&self) -> &HalfOpen {
        &self.0
    }
}

impl DerefMut for Unsent {
    fn deref_mut(&mut self) -> &mut HalfOpen {
        &mut self.0
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.0.connection.state = State::Gone;
    }
}

#[test]
fn an_active_end_goes_on_with_each_packet_that_comes() {
    let mut end = half_open(Role::Active);
    assert!(is_pending(&end.drive(0)));
    assert_eq!((said(), end.timeout_ns()), (vec![HELLO], AGAIN_NS));
    assert!(is_pending(&end.drive(AGAIN_NS)));
    assert_eq!((said(), end.timeout_ns()), (vec![HELLO], 2 * AGAIN_NS), "it is said again");
    receive(&welcome(1 << 20).0);
    assert!(is_pending(&end.drive(AGAIN_NS)));
    assert_eq!((said(), end.timeout_ns()), (vec![(3, 0)], DEADLINE_NS));
    let registered = calls().iter().filter(|call| **call == "ibv_reg_mr").count();
    assert_eq!(registered, 3, "our memory, the image, and more receives");
    receive(&Packet::new(Kind::Ready).0);
    let Progress::Done(agreed) = end.drive(AGAIN_NS) else { panic!("all is agreed") };
    assert_eq!(
        (agreed.memory.remote.addr, agreed.memory.remote.rkey, agreed.why),
        (0x1000, Rkey(9), ArrivalReason::Requested)
    );
    assert_eq!(agreed.negotiated.layout.block_count, 64);
}

#[test]
fn the_share_of_the_budget_is_all_that_is_registered() {
    let mut end = half_open(Role::Active);
    assert_eq!(end.share_bytes(), 0, "nothing is agreed on");
    let registered = || script(|script| script.regions.iter().map(|region| region.bytes).sum::<u64>());
    assert_eq!(registered(), 8 << 10, "the first receives, before the budget can be asked");
    end.drive(0);
    receive(&welcome(1 << 20).0);
    assert!(is_pending(&end.drive(0)));
    let share_bytes = end.share_bytes();
    receive(&Packet::new(Kind::Ready).0);
    let Progress::Done(agreed) = end.drive(0) else { panic!("all is agreed") };
    let halves = FirstLanding::of(&agreed.negotiated).registered_bytes() * 2;
    // 256 heads, a packet, 16 receives, and the same with 144.
    let mail = [16, 144].map(|receives| round_to_pages(256 * 8 + 256 + receives * 256).unwrap());
    assert_eq!(share_bytes, (halves + mail[0] + mail[1]) as u64);
    assert_eq!(agreed.share.bytes(), share_bytes);
    assert_eq!(registered(), share_bytes);
    assert_eq!(script(|script| script.receives.len()), 144, "those that took packets are posted again");
}

/// wire.md 4.7, 10.2
#[test]
fn small_buffers_are_registered_counted_and_named() {
    let mut end = half_open_of(Role::Active, Tuning::default(), 1 << 20);
    end.drive(0);
    let mut welcome = welcome(1 << 20);
    welcome.0[13] = 5;
    welcome.0[52..60].copy_from_slice(&0x8000_u64.to_le_bytes());
    welcome.0[60..64].copy_from_slice(&11_u32.to_le_bytes());
    receive(&welcome.0);
    assert!(is_pending(&end.drive(0)));
    let grant = script(|script| core::mem::take(&mut script.posted)).concat();
    let grant = grant.iter().map(gathered).find(|sent| sent.len() == PACKET_BYTES && sent[10] == 3).unwrap();
    let share_bytes = end.share_bytes();
    receive(&Packet::new(Kind::Ready).0);
    let Progress::Done(agreed) = end.drive(0) else { panic!("all is agreed") };
    let HandshakeResult { memory, negotiated, share, provisioned_bytes, .. } = agreed;
    let small = negotiated.small_buffer().unwrap();
    // Two pages, two of messages, two for small buffers.
    assert_eq!((share_bytes, provisioned_bytes, share.bytes()), (6 * 4096, 6 * 4096, 4 * 4096));
    let registered: u64 = script(|script| script.regions.iter().map(|region| region.bytes).sum());
    assert_eq!(registered, share_bytes);
    let growth = memory.growth.as_ref().unwrap();
    let region = growth.small_region().unwrap();
    assert_eq!(grant[52..64], [&region.addr.to_le_bytes()[..], &region.rkey.to_le_bytes()].concat());
    assert_ne!(region.rkey, memory.mine.mr.rkey().0, "a region of its own");
    let (_, image) = growth.small(small).unwrap();
    let (_, to) = growth.outlet(image.memory.base, 64).unwrap();
    assert_eq!(to, RemoteAddr { addr: 0x8000, rkey: Rkey(11) });
    assert_eq!((memory.remote.addr, memory.remote.rkey), (0x1000, Rkey(9)));
}

#[test]
fn landing_on_demand_registers_pages_and_few_receives() {
    let on_demand = Tuning { landing: Some(LandingMode::OnDemand), ..Tuning::default() };
    for (receives, expected) in [(None, 16), (Some(8), 16), (Some(32), 32)] {
        let mut end = half_open_of(Role::Active, Tuning { receives, ..on_demand }, 1 << 20);
        end.drive(0);
        let mut welcome = welcome(1 << 20);
        welcome.set_tuning(&Tuning { receives, landing: on_demand.landing, ..welcome.tuning().unwrap() });
        receive(&welcome.0);
        assert!(is_pending(&end.drive(0)));
        receive(&Packet::new(Kind::Ready).0);
        let Progress::Done(agreed) = end.drive(0) else { panic!("all is agreed") };
        let HandshakeResult { memory, negotiated, share, .. } = agreed;
        assert_eq!(
            (negotiated.landing, memory.mine.bytes(), memory.image.bytes()),
            (LandingMode::OnDemand, 4096, 4096)
        );
        assert_eq!(negotiated.layout.block_count, 64, "the largest one");
        let registered: u64 = script(|script| script.regions.iter().map(|region| region.bytes).sum());
        assert_eq!(registered, share.bytes());
        assert!(receives == Some(32) || registered == 4 * 4096, "{registered}");
        assert_eq!(script(|script| script.receives.len()), expected);
        assert!(memory.growth.is_some_and(|growth| !growth.has_jobs()));
    }
}

#[test]
fn a_handshake_ends_by_deadline_or_flag() {
    for (wait_ns, is_set, expected) in
        [(300_000_000, false, ConnectError::TimedOut), (10_000_000_000, true, ConnectError::Interrupted)]
    {
        let tuning = Tuning::default();
        let options = RdmaOptions {
            tuning: &tuning,
            landing_bytes_max: 1 << 20,
            idle_timeout_ns: 30_000_000_000,
            device: RdmaDevice::default(),
            ack_timeout: AckTimeout::default(),
            memory_node: MemoryNode::Auto,
            shards: None,
        };
        let deadline_ns = monotonic_ns() + wait_ns;
        let deadline = ConnectDeadline { deadline_ns, interrupted: &|| is_set };
        assert_eq!(connect(connection(), &options, &deadline).err(), Some(expected));
        assert!(calls().contains(&"post_send"), "HELLO");
    }
}

#[test]
fn a_passive_end_waits_for_budget_until_its_deadline() {
    let mut end = without_room();
    for now_ns in [1, DEADLINE_NS - 1] {
        assert!(is_pending(&end.drive(now_ns)));
        assert!(end.lacks().is_some_and(|bytes| bytes > 1200 << 20), "{:?}", end.lacks());
        assert_eq!((said(), end.steps(), end.share_bytes()), (vec![], 1, 0));
    }
    assert!(is_pending(&end.drive(DEADLINE_NS)));
    assert_eq!((said(), end.lacks()), (vec![(REFUSED, REFUSED_LIMIT)], None));
    assert!(matches!(failure(end.drive(2 * DEADLINE_NS)), ConnectError::Budget(_)));
}

#[test]
fn after_refuse_it_refuses_and_an_active_end_never_waits() {
    let mut end = without_room();
    assert!(end.lacks().is_some());
    end.refuse();
    assert!(is_pending(&end.drive(1)));
    assert_eq!((said(), end.lacks()), (vec![(REFUSED, REFUSED_LIMIT)], None));

    let tuning = Tuning { arrival: Some(superpipe_core::Arrival::CheckedFlag), ..Tuning::default() };
    let mut end = half_open_of(Role::Active, tuning, 600 << 20);
    end.drive(0);
    said();
    receive(&welcome(600 << 20).0);
    assert!(is_pending(&end.drive(1)));
    assert_eq!((said(), end.lacks()), (vec![(REFUSED, REFUSED_LIMIT)], None));
}

#[test]
fn memlock_bounds_the_memory_that_is_registered() {
    if !with_half_a_mebibyte("fabric::rdma::handshake::tests::memlock_bounds_the_memory_that_is_registered") {
        return;
    }
    let tuning = Tuning { arrival: Some(superpipe_core::Arrival::CheckedFlag), ..Tuning::default() };
    let greeted = |landing_bytes| {
        let mut end = begin_half_open(Role::Active, tuning, 1 << 20);
        end.drive(0);
        said();
        receive(&welcome(landing_bytes).0);
        assert!(is_pending(&end.drive(1)));
        end
    };
    let mut end = greeted(1 << 20);
    assert_eq!(said(), [(REFUSED, REFUSED_LIMIT)]);
    let text = failure(end.drive(DEADLINE_NS)).to_string();
    assert!(text.starts_with("cannot provision"), "{text}");
    assert!(text.contains("raise RLIMIT_MEMLOCK (now 512 KiB): ulimit -l"), "{text}");
    // It has room for small buffers.
    let small = greeted(64 << 10);
    assert_eq!((said(), Budget::registered_bytes()), (vec![(3, 0)], small.share_bytes()));
    assert_eq!(Budget::shared_bytes(), 0);
    // The program may set another limit, here a lower one.
    Budget::set_registered_max(0);
    let mut end = greeted(64 << 10);
    let text = failure(end.drive(DEADLINE_NS)).to_string();
    assert!(text.ends_with("or raise the limit with Budget::set_registered_max"), "{text}");
}

#[test]
fn a_refusal_says_whether_a_limit_was_reached() {
    // A limit of registered memory, of the machine's, and none.
    for (errno, code) in [(libc::ENOMEM, REFUSED_LIMIT), (libc::ENOSPC, REFUSED_LIMIT), (libc::EIO, 0)] {
        let mut end = half_open(Role::Active);
        end.drive(0);
        said();
        answer("ibv_reg_mr", errno);
        receive(&welcome(1 << 20).0);
        assert!(is_pending(&end.drive(1)));
        assert_eq!(said(), [(REFUSED, code)]);
        assert!(matches!(failure(end.drive(DEADLINE_NS)), ConnectError::Verbs(_)));
    }
}

#[test]
fn the_cause_of_the_end_is_the_error_of_the_handshake() {
    let ended = |why| {
        let mut end = half_open(Role::Active);
        end.drive(0);
        end.0.connection.finish(why);
        failure(end.drive(1))
    };
    assert_eq!(ended(State::Gone), ConnectError::Lost("in the handshake"));
    assert_eq!(
        ended(State::Violation(Violation::UnknownMessage)),
        ConnectError::Violation(Violation::UnknownMessage)
    );
    let text = ended(State::Failed(WcError { status: 4, vendor_err: 0 })).to_string();
    assert!(text.starts_with("handshake: "), "{text}");
    // Packets that it sent before are handled.
    let mut end = half_open(Role::Active);
    end.drive(0);
    receive(&welcome(1 << 20).0);
    end.0.connection.finish(State::Gone);
    assert_eq!(end.steps(), 0);
    end.drive(1);
    assert_eq!(end.steps(), 1);
}

#[test]
fn the_active_end_bounds_the_landing_buffer() {
    let mut end = half_open(Role::Active);
    end.drive(0);
    said();
    receive(&welcome(400 << 20).0);
    assert!(is_pending(&end.drive(7)), "the peer has time to take it in");
    assert_eq!((said(), end.timeout_ns()), (vec![(REFUSED, 2)], 7 + SLICE_NS));
    assert!(!calls().contains(&"ibv_reg_mr"), "nothing was provisioned");
    assert!(is_pending(&end.drive(6 + SLICE_NS)));
    let error = failure(end.drive(7 + SLICE_NS));
    assert!(matches!(error, ConnectError::Packet(PacketError::Disagreement(_))), "{error}");
    assert!(error.to_string().contains("more than the 1 MiB that the connecting end allows"), "{error}");
}

#[test]
fn a_passive_end_does_not_wait_for_a_silent_peer() {
    let mut end = half_open(Role::Passive);
    assert!(is_pending(&end.drive(FIRST_NS - 1)));
    assert_eq!(end.timeout_ns(), FIRST_NS);
    assert_eq!(failure(end.drive(FIRST_NS)), ConnectError::Lost("before it sent anything"));
    assert_eq!(said(), []);
}

#[test]
fn a_flood_of_packets_is_taken_a_few_at_a_time() {
    let mut end = half_open(Role::Passive);
    receive(&Packet::new(Kind::Hello).0);
    assert!(is_pending(&end.drive(0)));
    assert_eq!((said(), end.timeout_ns()), (vec![(2, 0)], DEADLINE_NS));
    let room = script(|script| script.receives.len());
    for _ in 0..room {
        receive(&Packet::new(Kind::Hello).0);
    }
    assert!(is_pending(&end.drive(1)));
    assert_eq!(end.timeout_ns(), 0, "there is more");
    assert!(is_pending(&end.drive(2)));
    assert_eq!((said(), end.timeout_ns()), (vec![], DEADLINE_NS));
}
