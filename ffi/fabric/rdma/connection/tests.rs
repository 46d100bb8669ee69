//! A wire on a device that does what the test says.

mod ending;

use super::posting::Message;
use super::*;
use crate::copy::CopyKernels;
use crate::fabric::rdma::fake_device::{gathered, receive};
use crate::fabric::rdma::memory::LinkMemory;
use crate::fabric::rdma::receive_pool::{ENCLOSED_MAX, IS_RECEIVE};
use crate::fabric::rdma::signal::Signal;
use crate::fabric::rdma::violation::Violation;
use crate::fabric::{LossCause, Way};
use crate::os::MemoryNode;
use core::ptr::NonNull;
use superpipe_core::driver::setup::Kind;
use superpipe_core::{FlagPlace, Job, Line, Ticket, WcError};
use superpipe_verbs::fake::{
    CmKind, Posted, answer, begin, calls, channel, ibv_send_flags, ibv_wr_opcode, receive_immediate, script,
    sent,
};
use superpipe_verbs::{CmId, RemoteAddr, Rkey, WcStatus};

const UNKNOWN_MESSAGE: State = State::Violation(Violation::UnknownMessage);
const REMOTE: RemoteAddr = RemoteAddr { addr: 0x1000, rkey: Rkey(9) };

/// A wire with an image to write from, and memory that the peer writes.
struct Ends {
    connection: RdmaConnection,
    memory: LinkMemory,
}

impl Ends {
    fn new() -> Self {
        begin();
        let channel = channel();
        let id = CmId::create(&channel).unwrap();
        let connection = RdmaConnection::new(Cm::new(channel, id), MemoryNode::Auto, None).unwrap();
        let layout = Layout { block_bytes: 128, block_count: 4, flags: FlagPlace::Inside };
        let first = FirstLanding::behind_page(layout);
        let image = connection.register(first, Access::Local).unwrap();
        let mine = connection.register(first, Access::RemoteWrite).unwrap();
        let lending = Box::new(connection.lending(Box::leak(Box::new(Jobs::alone()))));
        Self { connection, memory: LinkMemory { mine, image, remote: REMOTE, growth: None, lending } }
    }

    /// On a device that has no immediates.
    fn iwarp() -> Self {
        let mut ends = Self::new();
        ends.connection.is_iwarp = true;
        ends
    }

    /// Writes what the image has there, notified.
    fn notify(&mut self, at: u32, bytes: u32) -> Vec<Posted> {
        assert!(self.connection.write(at, bytes, Some(WrId(1)), Some(Notification(5)), &self.memory));
        self.ring();
        posted()
    }

    fn next_notification(&mut self) -> Option<Notification> {
        self.connection.take_notification(&self.memory, CopyKernels::get())
    }

    fn write(&mut self, number: u64) -> bool {
        self.connection.write(0, 64, Some(WrId(number)), None, &self.memory)
    }

    fn ring(&mut self) {
        self.connection.ring_doorbell(&self.memory);
    }

    /// Which writes are done, and how.
    fn done(&mut self) -> Vec<(u64, Result<(), WcError>)> {
        core::iter::from_fn(|| self.connection.next_completion())
            .map(|done| (done.wr.0, done.result))
            .collect()
    }
}

fn established(mut ends: Ends) -> Ends {
    ends.connection.accept(&[]).unwrap();
    ends.connection.keep_open();
    ends
}

type Vec<T> = std::vec::Vec<T>;

fn well(numbers: impl Iterator<Item = u64>) -> Vec<(u64, Result<(), WcError>)> {
    numbers.map(|number| (number, Ok(()))).collect()
}

/// Returns the work requests posted since the last call, by one doorbell or several.
fn posted() -> Vec<Posted> {
    script(|script| core::mem::take(&mut script.posted)).concat()
}

#[test]
fn a_delayed_answer_goes_out_with_the_next_completion() {
    let mut ends = Ends::new();
    while ends.connection.send_at_once(Message::Signal(Signal::Wake), false).unwrap() {}
    let last = posted().last().unwrap().id;
    receive_immediate(IS_RECEIVE, Signal::Sleep.encode());
    ends.connection.poll();
    assert_eq!(posted(), [], "the queue is full");
    assert!(ends.connection.sleep.is_due());
    sent(last, WcStatus::SUCCESS);
    ends.connection.poll();
    let [answer] = posted().try_into().unwrap();
    assert_eq!((answer.id, answer.from[0].1), (last + 1, 4));
    assert!(!ends.connection.sleep.is_due());
}

#[test]
fn a_queue_pair_has_the_inline_size_of_the_device() {
    let of = |errno| {
        begin();
        let channel = channel();
        let id = CmId::create(&channel).unwrap();
        answer("ibv_create_qp", errno);
        let connection = RdmaConnection::new(Cm::new(channel, id), MemoryNode::Auto, None)
            .map(|connection| connection.inline_bytes);
        (connection, calls().into_iter().filter(|call| *call == "ibv_create_qp").count())
    };
    let (granted, calls) = of(0);
    assert!(granted.is_ok_and(|bytes| bytes >= 256) && calls == 1);
    let (refused, calls) = of(libc::ENOMEM);
    assert!(matches!(refused, Err(ConnectError::Verbs(_))) && calls == 3, "{refused:?}");
}

#[test]
fn only_iwarp_has_no_mtu() {
    assert!(Ends::new().connection.mtu().is_ok_and(|mtu| mtu.is_some()));
    assert_eq!(Ends::iwarp().connection.mtu(), Ok(None));
}

#[test]
fn arming_once_reports_what_came_meanwhile() {
    let mut ends = Ends::new();
    calls();
    assert_eq!(ends.connection.arm(false), Ok(false));
    receive_immediate(IS_RECEIVE, Signal::Sleep.encode());
    assert_eq!((ends.connection.arm(false), ends.connection.arm(false)), (Ok(true), Ok(false)));
    assert_eq!(calls().into_iter().filter(|call| *call == "ibv_req_notify_cq").count(), 1);
}

#[test]
fn a_write_that_flushes_into_a_broken_link_completes() {
    let mut ends = Ends::new();
    answer("post_send", libc::EIO);
    let mut numbers = 1..;
    while ends.connection.state == State::Open {
        assert!(ends.write(numbers.next().unwrap()), "there is room for more than a batch");
    }
    assert!(ends.write(numbers.next().unwrap()));
    assert_eq!(ends.done(), well(1..numbers.next().unwrap()));
    posted();
    ends.ring();
    assert_eq!(posted(), [], "nothing waits any more");
}

#[test]
fn a_write_that_polls_a_lost_peer_completes() {
    let mut ends = Ends::new();
    let mut number = 0;
    // To the brim: what fits no more polls, and finds nothing.
    while ends.write(number + 1) {
        number += 1;
        if number % 11 == 0 {
            ends.ring();
        }
    }
    assert_eq!(ends.connection.state, State::Open);
    sent(0, WcStatus::FLUSHED);
    assert!(ends.write(number + 1));
    assert_eq!(ends.connection.state, State::Gone);
    assert_eq!(ends.done(), well(1..=number + 1));
}

#[test]
fn waiting_writes_complete_when_the_device_fails() {
    let mut ends = Ends::new();
    assert!((1..=3).all(|number| ends.write(number)));
    const BAD_RESPONSE: u32 = 17;
    sent(0, WcStatus(BAD_RESPONSE));
    assert_eq!(ends.connection.poll(), 1);
    let failed = Err(WcError { status: BAD_RESPONSE, vendor_err: 0 });
    assert_eq!(ends.done(), [(1, failed), (2, Ok(())), (3, Ok(()))]);
    ends.ring();
    assert_eq!(posted(), []);
    // Completions of earlier work requests still come, and change nothing.
    sent(0, WcStatus::SUCCESS);
    assert_eq!(ends.connection.poll(), 1);
    assert_eq!(ends.done(), []);
}

#[test]
fn without_immediates_a_short_write_is_enclosed() {
    const AT: u32 = 64;
    let mut ends = Ends::iwarp();
    let line = Line([1, 2, 3, 4, 5, 6, 7, 8]);
    ends.memory.image.all().write_line(AT, &line);
    let [send] = ends.notify(AT, 64).try_into().unwrap();
    let lengths: Vec<u32> = send.from.iter().map(|part| part.1).collect();
    assert_eq!((send.opcode, lengths), (ibv_wr_opcode::IBV_WR_SEND, vec![8, 64]));
    let receives = script(|script| script.receives.len());
    receive(&gathered(&send));
    assert_eq!(ends.next_notification(), Some(Notification(5)));
    assert_eq!(ends.memory.mine.all().take_line(AT), line);
    assert_eq!(ends.memory.mine.all().take_line(AT + 64), Line([0; 8]), "and nothing else was written");
    assert_eq!(script(|script| script.receives.len()), receives, "the receive is posted again");
    sent(send.id, WcStatus::SUCCESS);
    assert_eq!(ends.done(), [(1, Ok(()))]);
}

#[test]
fn without_immediates_a_notification_follows_a_longer_write() {
    let mut ends = Ends::iwarp();
    assert_eq!(ends.notify(0, ENCLOSED_MAX).len(), 1);
    let [write, send] = ends.notify(0, ENCLOSED_MAX + 1).try_into().unwrap();
    assert_eq!((write.opcode, write.to), (ibv_wr_opcode::IBV_WR_RDMA_WRITE, REMOTE.addr));
    assert_eq!((send.opcode, gathered(&send)), (ibv_wr_opcode::IBV_WR_SEND, vec![5, 0, 0, 0]));
    let signaled = |posted: &Posted| posted.flags & ibv_send_flags::IBV_SEND_SIGNALED.0 != 0;
    assert!(signaled(&write) && signaled(&send));
    for posted in [&write, &send] {
        sent(posted.id, WcStatus::SUCCESS);
    }
    assert_eq!(ends.done(), [(1, Ok(())), (1, Ok(()))], "once each, and not before the notification went");
    receive(&gathered(&send));
    assert_eq!(ends.next_notification(), Some(Notification(5)));
}

#[test]
fn outside_notify_mode_nothing_is_enclosed() {
    let mut ends = Ends::iwarp();
    ends.connection.set_notified(false);
    let [write, send] = ends.notify(0, 64).try_into().unwrap();
    assert_eq!((write.opcode, write.to), (ibv_wr_opcode::IBV_WR_RDMA_WRITE, REMOTE.addr));
    assert_eq!((send.opcode, gathered(&send)), (ibv_wr_opcode::IBV_WR_SEND, vec![5, 0, 0, 0]));
    receive(&gathered(&send));
    assert_eq!(ends.next_notification(), Some(Notification(5)));
    // The flag that it would bring is read before its notification is taken.
    receive(&[[5, 0, 0, 0], [0; 4], [7; 4]].concat());
    ends.connection.poll();
    assert_eq!(ends.connection.state, UNKNOWN_MESSAGE);
}

/// Posts a remote write, and returns its work requests: place and bytes here, place there, and whether each is signaled.
fn remote_write(ends: &mut Ends, bytes: u32) -> Vec<(u64, u32, u64, bool)> {
    let memory = vec![7; 10_000];
    let (start, len) = (NonNull::from(&memory[..]).cast(), memory.len());
    let lending = &mut ends.memory.lending;
    // SAFETY: the memory is taken back below.
    let lent = unsafe { lending.lend(Way::Out, start, len) }.unwrap();
    let job = Job::RegisterSource { buffer: lent, bytes: 10_000 };
    lending.begin(Ticket::new(0, 0), job).unwrap();
    assert!(lending.finished().is_some());
    assert!(ends.connection.write_remote(1000, bytes, REMOTE, &ends.memory));
    ends.ring();
    ends.memory.lending.take_back(Way::Out, false);
    let at = |posted: &Posted| posted.from[0].0 - memory.as_ptr().addr() as u64;
    let is_signaled = |posted: &Posted| posted.flags & ibv_send_flags::IBV_SEND_SIGNALED.0 != 0;
    posted().iter().map(|it| (at(it), it.from[0].1, it.to - REMOTE.addr, is_signaled(it))).collect()
}

#[test]
fn a_remote_write_is_no_longer_than_the_devices_messages() {
    let mut ends = Ends::new();
    assert_eq!(remote_write(&mut ends, 5000), [(1000, 5000, 0, false)]);
    ends.connection.message_bytes_max = 2000;
    let three = [(1000, 2000, 0, false), (3000, 2000, 2000, false), (5000, 1000, 4000, false)];
    assert_eq!(remote_write(&mut ends, 5000), three);
    // siw would send pages that the application has changed meanwhile.
    let mut ends = Ends::iwarp();
    assert_eq!(remote_write(&mut ends, 5000), [(1000, 5000, 0, true)]);
}

#[test]
fn with_immediates_nothing_is_enclosed() {
    let [write] = Ends::new().notify(0, 64).try_into().unwrap();
    assert_eq!((write.opcode, write.from.len()), (ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM, 1));
}

#[test]
fn an_enclosed_write_stays_in_bounds() {
    let enclosed = |place: u32, bytes: usize| {
        let mut message = [5_u32.to_le_bytes(), place.to_le_bytes()].concat();
        message.extend(core::iter::repeat_n(7, bytes));
        message
    };
    let end = Ends::new().memory.mine.bytes();
    for (place, bytes) in [(0, 1), (end - 64, 64), (end - 1, 1), (0, ENCLOSED_MAX as usize)] {
        let mut ends = Ends::new();
        receive(&enclosed(place, bytes));
        assert_eq!(ends.next_notification(), Some(Notification(5)), "{bytes} B at {place}");
        let place = ends.memory.mine.all().at(place, bytes);
        // SAFETY: `at` has checked it, and nobody else is there.
        assert!(unsafe { core::slice::from_raw_parts(place, bytes) }.iter().all(|byte| *byte == 7));
    }
    for (place, bytes) in [(end, 1), (end - 63, 64), (u32::MAX, 1), (u32::MAX - 7, 248), (0, 0)] {
        let mut ends = Ends::new();
        receive(&enclosed(place, bytes));
        assert_eq!(ends.next_notification(), None, "{bytes} B at {place}");
        let wrong = if bytes == 0 { Violation::UnknownMessage } else { Violation::OutOfBounds };
        assert_eq!(ends.connection.state, State::Violation(wrong), "{bytes} B at {place}");
    }
}

#[test]
fn an_unknown_message_ends_the_connection() {
    for message in [&[][..], &[0; 3], &[0; 5], &[0; 7], &[0xFF; 4], &[0xFF; 72], &[0x40; 191]] {
        let mut ends = Ends::new();
        receive(message);
        ends.connection.poll();
        assert_eq!((ends.next_notification(), ends.connection.state), (None, UNKNOWN_MESSAGE), "{message:?}");
    }
    for signal in [Signal::Sleep, Signal::SleepOk, Signal::Wake] {
        let mut ends = Ends::new();
        receive(&[signal.encode().to_le_bytes(), [0; 4], [7; 4]].concat());
        assert_eq!(
            (ends.next_notification(), ends.connection.state),
            (None, UNKNOWN_MESSAGE),
            "nothing comes with {signal:?}"
        );
    }
}

#[test]
fn a_failed_receive_is_the_peers_violation() {
    const TOO_LONG: u32 = 1;
    let wrong = |status| State::Violation(Violation::Receive(WcError { status, vendor_err: 0 }));
    for flushed in [[false, false], [true, false], [false, true], [true, true]] {
        for (iwarp, status) in [(false, TOO_LONG), (true, TOO_LONG), (true, 2), (true, 21)] {
            let mut ends = if iwarp { Ends::iwarp() } else { Ends::new() };
            assert!(ends.write(1));
            ends.ring();
            let [before, after] = flushed;
            // A write of ours, and the other receives.
            if before {
                sent(0, WcStatus::FLUSHED);
                sent(IS_RECEIVE | 1, WcStatus::FLUSHED);
            }
            sent(IS_RECEIVE, WcStatus(status));
            if after {
                sent(IS_RECEIVE | 1, WcStatus::FLUSHED);
                sent(0, WcStatus::FLUSHED);
            }
            ends.connection.poll();
            assert_eq!(ends.connection.state, wrong(status), "{flushed:?}");
            assert!(!ends.connection.is_alive());
            assert!(
                matches!(ends.connection.why_gone(), Some(LossCause::Violation(rule)) if rule.contains("10.3"))
            );
            assert_eq!(ends.done(), [(1, Ok(()))], "core is told of no failure of the device");
        }
    }
}

#[test]
fn flushed_receives_are_no_violation() {
    let mut ends = Ends::new();
    (0..4).for_each(|slot| sent(IS_RECEIVE | slot, WcStatus::FLUSHED));
    ends.connection.poll();
    assert_eq!((ends.connection.state, ends.connection.why_gone()), (State::Gone, None));
}

#[test]
fn a_queue_that_cannot_be_polled_is_the_devices_failure() {
    let mut ends = Ends::new();
    answer("poll_cq", -libc::EIO);
    ends.connection.poll();
    assert!(matches!(ends.connection.state, State::Failed(_)), "{:?}", ends.connection.state);
}

#[test]
fn a_device_that_is_gone_is_not_the_peers_death() {
    let ends = Ends::new();
    script(|script| script.events = vec![(CmKind::RDMA_CM_EVENT_DEVICE_REMOVAL, 0)]);
    ends.connection.cm.borrow_mut().take_events();
    assert!(!ends.connection.is_alive());
    assert!(matches!(ends.connection.why_gone(), Some(LossCause::Device(_))));
}

#[test]
fn a_packet_is_no_notification() {
    let mut ends = Ends::new();
    let hello = Packet::new(Kind::Hello);
    receive(&hello.0);
    assert_eq!((ends.next_notification(), ends.connection.state), (None, State::Open));
    assert_eq!(ends.connection.packet.as_ref().map(|packet| packet.0), Some(hello.0));
}

#[test]
fn a_packet_after_the_handshake_ends_the_connection() {
    let mut ends = established(Ends::new());
    receive(&Packet::new(Kind::Hello).0);
    ends.connection.poll();
    assert_eq!(ends.connection.state, UNKNOWN_MESSAGE, "wire.md 10.3: a packet comes while connecting");
}
