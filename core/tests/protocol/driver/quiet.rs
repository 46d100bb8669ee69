//! Calls of a driver on its fabric: a keepalive wakes no sleeping peer, an acknowledgement that is due does, and messages are polled at
//! the right rate.

use core::cell::Cell;

use superpipe_core::driver::{Drive, KEEPALIVE_NS, RecvOperation, WaitStrategy};
use superpipe_core::{
    Arrival, Attachment, Caps, Completion, CopyKernel, Driver, Endpoint, Fabric, Landing, Line, Nanos,
    Notification, Origin, SqFull, WrId,
};
use superpipe_testkit::{Direct, EndLink, Memory, PairFabric, Setup, TestFabric, wire};

use crate::driver::{BEGIN, IDLE_NS, LAYOUT, after, config};

/// Direct store that keeps what is written to a control_page, and whether it was to be quiet.
struct Listening {
    inner: Direct,
    is_quiet: bool,
    heard: Vec<(bool, u64)>,
    /// Flags that were looked at.
    looks: Cell<u32>,
}

/// A driver of end 0.
fn listen(arrival: Arrival) -> (Listening, Driver<Listening>) {
    let inner = Direct::new(&Setup::new(LAYOUT, 1));
    let Attachment { link, control_page, peer_control_page, landing, peer_landing, growth: _ } =
        inner.attachment(0);
    let landing = Landing { memory: landing.memory, layout: landing.layout };
    let attachment =
        Attachment { link, control_page, peer_control_page, landing, peer_landing, growth: None };
    let fabric = Listening { inner, is_quiet: false, heard: vec![], looks: Cell::new(0) };
    let endpoint = Endpoint::new(&fabric, attachment, config(arrival), Origin::default()).unwrap();
    let driver = Driver::new(endpoint, 1, WaitStrategy::Sleep, IDLE_NS, BEGIN);
    (fabric, driver)
}

impl Fabric for Listening {
    const DIRECT: bool = true;
    const TIMES_COPIES: bool = true;
    type Link = EndLink;
    type Region = Memory;
    type Remote = Memory;

    fn caps(&self, link: &EndLink) -> Caps {
        self.inner.caps(link)
    }
    fn now(&mut self) -> Nanos {
        panic!("the time comes from outside")
    }
    fn flag(&self, link: &EndLink, from: Memory, at: u32) -> u64 {
        self.looks.set(self.looks.get() + 1);
        self.inner.flag(link, from, at)
    }
    fn take_line(&self, link: &EndLink, from: Memory, at: u32) -> Line {
        self.inner.take_line(link, from, at)
    }
    fn copy_out(&mut self, link: &mut EndLink, from: Memory, at: u32, to: &mut [u8], kernel: CopyKernel) {
        self.inner.copy_out(link, from, at, to, kernel);
    }
    fn crc_out(&self, link: &EndLink, from: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        self.inner.crc_out(link, from, at, bytes, seed)
    }
    fn write_line(&mut self, link: &mut EndLink, to: Memory, at: u32, line: &Line) {
        self.heard.push((self.is_quiet, line.0[4]));
        self.inner.write_line(link, to, at, line);
    }
    fn publish(&mut self, link: &mut EndLink, to: Memory, at: u32, flag: u64) {
        self.inner.publish(link, to, at, flag);
    }
    fn copy_in(&mut self, link: &mut EndLink, to: Memory, at: u32, from: &[u8], kernel: CopyKernel) {
        self.inner.copy_in(link, to, at, from, kernel);
    }
    fn crc_in(&self, link: &EndLink, to: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        self.inner.crc_in(link, to, at, bytes, seed)
    }
    fn crc(&self, bytes: &[u8], seed: u32) -> u32 {
        self.inner.crc(bytes, seed)
    }
    fn post_write(
        &mut self,
        _: &mut EndLink,
        _: Memory,
        _: u32,
        _: u32,
        _: Option<WrId>,
        _: Option<Notification>,
    ) -> Result<(), SqFull> {
        panic!("nothing is posted where stores go direct")
    }
    fn ring_doorbell(&mut self, link: &mut EndLink) {
        self.inner.ring_doorbell(link);
    }
    fn poll_cq(&mut self, _: &mut EndLink) -> Option<Completion> {
        None
    }
    fn set_quiet(&mut self, _: &mut EndLink, is_quiet: bool) {
        self.is_quiet = is_quiet;
    }
}

#[test]
fn a_sign_of_life_is_quiet_and_what_is_due_is_not() {
    let (mut fabric, mut driver) = listen(Arrival::CheckedFlag);
    driver.tick(&mut fabric, after(KEEPALIVE_NS));
    assert_eq!(fabric.heard, [(true, 1)]);
    // A control message was read: its acknowledgement is due.
    fabric.heard.clear();
    let line = wire::checked(wire::close(1, 0, 0), 1);
    fabric.inner.forge(Memory::control_page(0), wire::mailbox(0), &line);
    assert!(driver.progress(&mut fabric));
    driver.tick(&mut fabric, after(2 * KEEPALIVE_NS));
    assert_eq!(fabric.heard, [(false, 1), (true, 2)]);
    assert!(!fabric.is_quiet, "what comes after wakes again");
}

/// A receive begins with looks for what a near peer answers; in a wait it is one, and another by the general way.
#[test]
fn a_message_is_polled_as_often_as_it_is_likely_to_arrive() {
    let (mut fabric, mut driver) = listen(Arrival::Flag);
    let mut looks = |looked: &mut dyn FnMut(&mut Driver<Listening>, &mut Listening)| {
        fabric.looks.set(0);
        looked(&mut driver, &mut fabric);
        fabric.looks.get()
    };
    let mut receive = RecvOperation::new();
    let begin = looks(&mut |driver, fabric| {
        assert_eq!(driver.begin_recv(fabric, &mut receive, &mut [&mut [0; 9]]), Drive::Idle);
    });
    assert_eq!(begin, 64);
    let drive = looks(&mut |driver, fabric| {
        assert_eq!(driver.drive_recv(fabric, &mut receive, &mut [&mut [0; 9]]), Drive::Idle);
    });
    assert_eq!(drive, 2);
    let try_once = looks(&mut |driver, fabric| {
        assert_eq!(driver.try_recv(fabric, &mut [&mut [0; 9]]), Ok(None));
    });
    assert_eq!(try_once, 1);
}
