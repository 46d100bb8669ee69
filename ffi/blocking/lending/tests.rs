//! Calls whose time is up while the memory of their message is deregistered, which core's fabric of posted writes holds back.

use core::fmt;
use core::time::Duration;

use superpipe_core::driver::{Drive, Driver, Received, RecvOperation, SendOperation};
use superpipe_core::{
    Buffer, Config, Endpoint, FlagPlace, Layout, Nanos, Origin, Protocol, RecvMemory, SendMemory,
};
use superpipe_testkit::{EndLink, Image, Memory, PairFabric, Posted, Setup, TestFabric};

use super::Lending;
use crate::blocking::Blocking;
use crate::blocking::access::{Attempt, DriverAccess};
use crate::blocking::host_driver::HostDriver;
use crate::fabric::{HostFabric, SleepEnd, Way};
use crate::options::Options;
use crate::os::poll::{PollFd, Polled};
use crate::os::{OsError, WaitStrategy};

const BYTES: usize = 3000;
const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };
const DEADLINE: Duration = Duration::from_secs(10);

// SAFETY: no address is given out.
unsafe impl HostFabric for Posted {
    const NAME: &'static str = "posted";
    const DROPS_IN_CHILD: bool = true;

    fn source_of(&self, _: &EndLink, _: Memory, _: u32, _: u32) -> *const u8 {
        unreachable!("nothing is read in place")
    }

    fn place_in(&self, _: &EndLink, _: Image, _: u32, _: u32) -> *mut u8 {
        unreachable!("nothing is written in place")
    }

    #[cfg(feature = "recorder")]
    fn record(&mut self, _: bool) {}

    fn is_alive(&self, _: &EndLink) -> bool {
        true
    }

    fn interests<'a>(&self, _: &'a EndLink) -> [PollFd<'a>; 1] {
        [PollFd::none()]
    }

    fn begin_sleep(&self, _: &mut Endpoint<Self>, _: u64) -> Result<u64, SleepEnd> {
        Err(SleepEnd::Poll)
    }

    fn sleep_interests<'a>(&self, _: &'a EndLink) -> [PollFd<'a>; 2] {
        [PollFd::none(), PollFd::none()]
    }

    fn end_sleep(&self, _: &mut Endpoint<Self>, _: Result<Polled, OsError>, _: [PollFd<'_>; 2]) -> SleepEnd {
        SleepEnd::Poll
    }
}

/// Access to an end whose waits are interrupted. Jobs end once the wait is over.
struct Late {
    host: HostDriver<Posted>,
    holds: u32,
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Late")
    }
}

impl DriverAccess for Late {
    type Fabric = Posted;
    type Held<'a> = &'a mut HostDriver<Posted>;
    const IS_SHARED: bool = false;

    fn hold(&mut self) -> &mut HostDriver<Posted> {
        // A wait that spins holds it once, and tries afterwards.
        self.holds += 1;
        self.host.fabric.hold_jobs(self.holds < 2);
        &mut self.host
    }

    fn inspect<R>(&self, work: impl FnOnce(&HostDriver<Posted>) -> R) -> R {
        work(&self.host)
    }

    fn try_hold(&mut self) -> Option<&mut HostDriver<Posted>> {
        Some(&mut self.host)
    }

    fn give_way(&self) -> bool {
        false
    }

    fn shares_core(&self) -> bool {
        false
    }

    fn count_moved(&mut self, _: usize) -> bool {
        false
    }

    fn step_other(_: &mut Self::Held<'_>) -> Option<Drive<()>> {
        None
    }

    fn yield_lending(&mut self, _: &mut (dyn Attempt<Posted> + Send)) {}

    fn is_interrupted(&self) -> bool {
        true
    }

    fn is_ours(&self) -> bool {
        true
    }
}

/// A message from end 0 to end 1, of which one is `late`.
struct Message {
    peer: Driver<Posted>,
    late: Late,
    send: SendOperation,
    receive: RecvOperation,
    buffers: [Buffer; 2],
    payload: Vec<u8>,
    place: Vec<u8>,
}

impl Message {
    fn new(late: usize, seed: u64) -> Self {
        let setup = Setup { send_queue: 4, order_inside_write: true, ..Setup::new(LAYOUT, seed) };
        let mut fabric = Posted::new(&setup);
        fabric.start(Origin::default().blocks);
        let config = Config { protocol: Protocol::Register, c0_bytes: 600, folds: 1, ..Config::default() };
        let [one, other] = [1 - late, late]
            .map(|side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap());
        let peer = Driver::new(one, 1, WaitStrategy::Spin, 2_000_000_000, Nanos(0));
        let (payload, place) = (vec![7; BYTES], vec![0; BYTES]);
        let buffers = [fabric.lend(0, payload.clone()), fabric.lend(1, place.clone())];
        let options = Options { wait: WaitStrategy::Spin, ..Options::default() };
        let late = Late { host: HostDriver::new(other, fabric, options), holds: 0 };
        Self {
            peer,
            late,
            send: SendOperation::new(5, BYTES).with_memory(SendMemory::Lent(buffers[0])),
            receive: RecvOperation::new().with_memory(RecvMemory::Lent(buffers[1])),
            buffers,
            payload,
            place,
        }
    }

    /// Drives both operations until `is_over`.
    fn drive(&mut self, late: usize, is_over: impl Fn(&Self) -> bool) {
        for _ in 0..20_000 {
            let HostDriver { driver, fabric, .. } = &mut self.late.host;
            let [sender, receiver] =
                if late == 0 { [&mut *driver, &mut self.peer] } else { [&mut self.peer, &mut *driver] };
            let _ = sender.drive_send(fabric, &mut self.send, &[&self.payload]);
            let _ = receiver.drive_recv(fabric, &mut self.receive, &mut [&mut self.place]);
            if is_over(self) {
                return;
            }
            self.round();
        }
        panic!("stuck");
    }

    fn round(&mut self) {
        let HostDriver { driver, fabric, .. } = &mut self.late.host;
        driver.progress(fabric);
        self.peer.progress(fabric);
        fabric.step();
    }

    fn is_taken_back(&mut self, side: usize) -> bool {
        self.late.host.fabric.take_back(self.buffers[side]).len() == BYTES
    }
}

#[test]
fn a_message_that_came_in_time_is_received() {
    for seed in 0..20 {
        let mut message = Message::new(1, seed);
        message.drive(1, |message| message.receive.awaits_release());
        let call = Lending { access: &mut message.late, way: Way::In, is_lent: true, is_released: false };
        let received =
            call.drive_receive(message.receive.clone(), &mut [&mut message.place], DEADLINE.into());
        assert_eq!(received.unwrap(), Received { tag: 5, bytes: BYTES }, "{seed}");
        assert!(message.is_taken_back(1));
    }
}

#[test]
fn a_message_that_was_sent_in_time_is_sent() {
    for seed in 0..20 {
        let mut message = Message::new(0, seed);
        message.drive(0, |message| message.send.awaits_release());
        message.late.host.fabric.hold_jobs(true);
        // Its last chunk completes.
        for _ in 0..600 {
            message.round();
        }
        let call = Lending { access: &mut message.late, way: Way::Out, is_lent: true, is_released: false };
        call.drive_send(&mut message.send.clone(), &[&message.payload], DEADLINE.into()).unwrap();
        assert!(message.is_taken_back(0), "{seed}");
    }
}

#[test]
fn registrations_that_core_counts_are_counted() {
    for late in [0, 1] {
        let mut message = Message::new(late, 1);
        message.drive(late, |message| {
            if late == 0 { message.send.awaits_release() } else { message.receive.awaits_release() }
        });
        let counters = Blocking::from(message.late).counters();
        assert_eq!((counters.registrations_hit, counters.registrations_missed), (0, 1));
    }
}
