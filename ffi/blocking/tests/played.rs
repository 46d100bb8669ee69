//! A fabric of one thread: the peer takes a step whenever this end makes a round of progress, and sleeps are counted.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::sync::Arc;
use std::thread;

use superpipe_core::{
    Attachment, Caps, Completion, Config, CopyKernel, Endpoint, Fabric, FlagPlace, Layout, Line, Nanos,
    Notification, Origin, SqFull, WrId,
};
use superpipe_testkit::{Direct, EndLink, Memory, PairFabric, Place, Setup, TestFabric};

use crate::blocking::host_driver::HostDriver;
use crate::blocking::{Blocking, Exclusive};
use crate::budget::{BudgetShare, MemoryKind};
use crate::fabric::{HostFabric, SleepEnd};
use crate::options::Options;
use crate::os::OsError;
use crate::os::poll::{PollFd, Polled};

/// Eight blocks of three pages.
pub(super) const LAYOUT: Layout =
    Layout { block_bytes: 12 << 10, block_count: 8, flags: FlagPlace::Apart { group_blocks: 1 } };

thread_local! {
    static SLEEPS: Cell<u32> = const { Cell::new(0) };
    static LOOKS: Cell<u32> = const { Cell::new(0) };
    static BEGINS: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
    static ENDS: RefCell<Vec<Result<Polled, OsError>>> = const { RefCell::new(Vec::new()) };
}

/// Lets sleeps of this thread last, and does this once one has begun.
pub(super) fn when_a_sleep_begins(begins: impl FnMut() + 'static) {
    BEGINS.set(Some(Box::new(begins)));
}

/// Results of the sleeps that were not refused.
pub(super) fn ends_of_sleeps() -> Vec<Result<Polled, OsError>> {
    ENDS.take()
}

/// Sleeps of the ends of this thread.
pub(super) fn sleeps() -> u32 {
    SLEEPS.get()
}

/// Looks of the ends of this thread at whether their peer lives, each a system call elsewhere.
pub(super) fn liveness_looks() -> u32 {
    LOOKS.get()
}

/// The peer's next step.
type Step = Box<dyn FnMut(&mut Direct, &mut Endpoint<Direct>) + Send>;

struct Peer {
    end: Endpoint<Direct>,
    step: Step,
}

/// The memory of both ends, with the peer in it.
pub(super) struct Played {
    direct: RefCell<Direct>,
    peer: RefCell<Peer>,
}

/// An end whose peer does `step`.
pub(super) fn over(
    options: Options,
    step: impl FnMut(&mut Direct, &mut Endpoint<Direct>) + Send + 'static,
) -> Blocking<Exclusive<Played>> {
    let direct = Direct::new(&Setup::new(LAYOUT, 1));
    let config = Config { c0_bytes: 4096, ..Config::default() };
    let end = Endpoint::new(&direct, direct.attachment(1), config, Origin::default()).unwrap();
    let Attachment { link, control_page, peer_control_page, landing, peer_landing, growth: _ } =
        direct.attachment(0);
    let port =
        Played { direct: RefCell::new(direct), peer: RefCell::new(Peer { end, step: Box::new(step) }) };
    let attachment =
        Attachment { link, control_page, peer_control_page, landing, peer_landing, growth: None };
    let endpoint = Endpoint::new(&port, attachment, config, Origin::default()).unwrap();
    Exclusive::new(
        HostDriver::new(endpoint, port, options),
        Arc::new(BudgetShare::take(MemoryKind::Shared, 0).unwrap()),
    )
    .into()
}

impl Played {
    /// Counts everything that the peer has heard of this end.
    pub(super) fn heard(&self) -> u64 {
        let mut peer = self.peer.borrow_mut();
        peer.end.poll_acknowledgements(&mut self.direct.borrow_mut());
        peer.end.activity()
    }
}

impl Fabric for Played {
    const DIRECT: bool = true;
    const TIMES_COPIES: bool = true;
    type Link = EndLink;
    type Region = Memory;
    type Remote = Memory;

    fn caps(&self, link: &EndLink) -> Caps {
        self.direct.borrow().caps(link)
    }

    fn now(&mut self) -> Nanos {
        self.direct.get_mut().now()
    }

    fn flag(&self, link: &EndLink, from: Memory, at: u32) -> u64 {
        let direct = &mut *self.direct.borrow_mut();
        // The mailbox, which every round of progress looks into.
        if from.place == Place::ControlPage {
            let Peer { end, step } = &mut *self.peer.borrow_mut();
            step(direct, end);
            end.progress(direct);
        }
        direct.flag(link, from, at)
    }

    fn take_line(&self, link: &EndLink, from: Memory, at: u32) -> Line {
        self.direct.borrow().take_line(link, from, at)
    }

    fn copy_out(&mut self, link: &mut EndLink, from: Memory, at: u32, to: &mut [u8], kernel: CopyKernel) {
        self.direct.get_mut().copy_out(link, from, at, to, kernel);
    }

    fn crc_out(&self, link: &EndLink, from: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        self.direct.borrow().crc_out(link, from, at, bytes, seed)
    }

    fn write_line(&mut self, link: &mut EndLink, to: Memory, at: u32, line: &Line) {
        self.direct.get_mut().write_line(link, to, at, line);
    }

    fn publish(&mut self, link: &mut EndLink, to: Memory, at: u32, flag: u64) {
        self.direct.get_mut().publish(link, to, at, flag);
    }

    fn copy_in(&mut self, link: &mut EndLink, to: Memory, at: u32, from: &[u8], kernel: CopyKernel) {
        self.direct.get_mut().copy_in(link, to, at, from, kernel);
    }

    fn crc_in(&self, link: &EndLink, to: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        self.direct.borrow().crc_in(link, to, at, bytes, seed)
    }

    fn crc(&self, bytes: &[u8], seed: u32) -> u32 {
        self.direct.borrow().crc(bytes, seed)
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
        unreachable!("nothing is posted where stores go direct")
    }

    fn ring_doorbell(&mut self, _: &mut EndLink) {}

    fn poll_cq(&mut self, _: &mut EndLink) -> Option<Completion> {
        None
    }
}

// SAFETY: no address is given out.
unsafe impl HostFabric for Played {
    const NAME: &'static str = "played";
    const DROPS_IN_CHILD: bool = true;

    fn source_of(&self, _: &EndLink, _: Memory, _: u32, _: u32) -> *const u8 {
        unreachable!("nothing is read in place")
    }

    fn place_in(&self, _: &EndLink, _: Memory, _: u32, _: u32) -> *mut u8 {
        unreachable!("nothing is written in place")
    }

    #[cfg(feature = "recorder")]
    fn record(&mut self, _: bool) {}

    fn is_alive(&self, _: &EndLink) -> bool {
        LOOKS.set(LOOKS.get() + 1);
        true
    }

    fn interests<'a>(&self, _: &'a EndLink) -> [PollFd<'a>; 1] {
        [PollFd::none()]
    }

    fn begin_sleep(&self, _: &mut Endpoint<Self>, timeout_ns: u64) -> Result<u64, SleepEnd> {
        SLEEPS.set(SLEEPS.get() + 1);
        let lasts = BEGINS.with_borrow_mut(|begins| begins.as_mut().map(|begins| begins()).is_some());
        if lasts {
            return Ok(timeout_ns);
        }
        thread::sleep(Duration::from_micros(100));
        Err(SleepEnd::Poll)
    }

    fn sleep_interests<'a>(&self, _: &'a EndLink) -> [PollFd<'a>; 2] {
        [PollFd::none(), PollFd::none()]
    }

    fn end_sleep(
        &self,
        _: &mut Endpoint<Self>,
        polled: Result<Polled, OsError>,
        _: [PollFd<'_>; 2],
    ) -> SleepEnd {
        ENDS.with_borrow_mut(|ends| ends.push(polled));
        SleepEnd::Poll
    }
}
