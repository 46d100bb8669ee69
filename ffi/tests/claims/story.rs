//! Two connected ends, in one thread.

use core::any::Any;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use superpipe::{Protocol, Tuning};
use superpipe_core::driver::setup::Negotiated;
use superpipe_core::driver::{Drive, Driver, WaitStrategy};
use superpipe_core::{Attachment, End, Endpoint, Fabric, Layout, Length, Nanos, Origin, Reason};
use superpipe_testkit::wire;

use crate::events::{Trace, What};
use crate::observed::{Log, Observed, Real, page_bytes_of};

/// Far more than anything here takes, also in an emulated guest: a hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// Rounds after which acknowledgements are polled.
const ROUNDS: u32 = 64;

/// Both ends of a connection, what they agreed on, and what has to live as long.
pub(crate) type Connected<F> = ([Attachment<F>; 2], Negotiated, Box<dyn Any>);

/// What a test plays on: the ends that it makes have what it needs of memory and of addresses.
pub(crate) struct Ground<'a, F: Real> {
    /// Makes both ends of a connection.
    pub(crate) connect: &'a dyn Fn(&Tuning) -> Connected<F>,
    /// Settings that hold for all tests.
    pub(crate) tuning: Tuning,
}

/// Two connected ends. End 0 sends to end 1, unless a test says otherwise.
pub(crate) struct Story<F: Real> {
    pub(crate) fabrics: [Observed<F>; 2],
    pub(crate) ends: [Driver<Observed<F>>; 2],
    /// Layout of the small buffers.
    pub(crate) small: Layout,
    /// Bytes that kernel and budget counted when both ends had connected.
    pub(crate) first_bytes: u64,
    control_page: F::Region,
    log: Log,
    trace: Vec<(u64, usize, What)>,
    rounds: u32,
    _kept: Box<dyn Any>,
}

impl<F: Real> Story<F> {
    /// Connects two ends with the default small buffer and threshold.
    pub(crate) fn new(ground: &Ground<'_, F>) -> Self {
        Self::of(ground, Tuning::default())
    }

    /// Connects two ends with this small buffer and threshold.
    pub(crate) fn of(ground: &Ground<'_, F>, tuning: Tuning) -> Self {
        let Tuning { small_buffer_bytes, threshold_bytes, .. } = tuning;
        let protocol = Some(Protocol::Provision);
        let tuning = Tuning { protocol, small_buffer_bytes, threshold_bytes, ..ground.tuning };
        let (attachments, negotiated, kept) = (ground.connect)(&tuning);
        let (log, mut side) = (Log::default(), 0);
        let control_page = attachments[1].control_page;
        let small = attachments[1].landing.layout;
        let made = attachments.map(|attachment| {
            let (fabric, attachment) = Observed::new(attachment, side, &log);
            let end = Endpoint::new(&fabric, attachment, negotiated.config, Origin::default()).unwrap();
            side += 1;
            (fabric, Driver::new(end, side as u64, WaitStrategy::Yield, 1 << 40, Nanos(0)))
        });
        let [(fabric_0, end_0), (fabric_1, end_1)] = made;
        let first_bytes = F::budget_bytes();
        let story = Self {
            fabrics: [fabric_0, fabric_1],
            ends: [end_0, end_1],
            small,
            first_bytes,
            control_page,
            log,
            trace: Vec::new(),
            rounds: 0,
            _kept: kept,
        };
        story.agrees("connected");
        story
    }

    /// Panics unless kernel and budget agree. Returns the bytes.
    #[track_caller]
    pub(crate) fn agrees(&self, when: &str) -> u64 {
        let (kernel, budget) = (F::kernel_bytes(), F::budget_bytes());
        assert_eq!(kernel, budget, "{}, {when}: of the kernel, and of the budget", F::NAME);
        let listed = F::listed_bytes();
        assert!(listed.is_none_or(|bytes| bytes == kernel), "{}, {when}: {listed:?} of {kernel}", F::NAME);
        kernel
    }

    /// Makes a round of both ends.
    pub(crate) fn round(&mut self) {
        let mut has_worked = false;
        for (end, fabric) in self.ends.iter_mut().zip(&mut self.fabrics) {
            has_worked |= end.progress(fabric);
            if self.rounds.is_multiple_of(ROUNDS) {
                end.endpoint_mut().poll_acknowledgements(fabric);
            }
            assert_eq!(end.endpoint().closed(), None, "{}", F::NAME);
        }
        self.rounds = self.rounds.wrapping_add(1);
        if !has_worked {
            thread::yield_now();
        }
    }

    /// Begins to send, unless the message is sent at once.
    pub(crate) fn sending(&mut self, from: usize, slices: &[&[u8]]) -> Sending {
        Sending(self.ends[from].begin_send(&mut self.fabrics[from], 5, slices))
    }

    /// Drives a message. Returns true once it is sent.
    pub(crate) fn drive(&mut self, from: usize, sending: &mut Sending, slices: &[&[u8]]) -> bool {
        if let Some(operation) = &mut sending.0
            && let Drive::Done(done) = self.ends[from].drive_send(&mut self.fabrics[from], operation, slices)
        {
            assert_eq!(done, Ok(()), "{}", F::NAME);
            sending.0 = None;
        }
        sending.0.is_none()
    }

    /// Sends a message from end 0 to the other, compares what comes out, and waits until growth is over.
    #[track_caller]
    pub(crate) fn send(&mut self, slices: &[&[u8]]) {
        let message = slices.concat();
        let mut sending = self.sending(0, slices);
        let (mut got, mut is_over) = (Vec::new(), false);
        self.until("the message has come out", |story| {
            let is_sent = story.drive(0, &mut sending, slices);
            is_over |= story.receive(1, &mut got);
            is_over && is_sent
        });
        assert!(got == message, "{}: {} bytes of {}", F::NAME, got.len(), message.len());
        self.settle();
    }

    /// Sends a stream from end 0 in these pushes.
    #[track_caller]
    pub(crate) fn stream(&mut self, pushes: &[&[&[u8]]]) {
        let id = self.ends[0].endpoint_mut().start(5, Length::Stream).unwrap();
        let mut got = Vec::new();
        let mut all = Vec::new();
        for slices in pushes {
            let bytes = slices.concat();
            let mut sent = 0;
            self.until("the part is sent", |story| {
                let (end, fabric) = (&mut story.ends[0], &mut story.fabrics[0]);
                sent += end.endpoint_mut().push_from(fabric, id, slices, sent).unwrap();
                story.receive(1, &mut got);
                sent == bytes.len()
            });
            all.extend(bytes);
        }
        let mut is_finished = false;
        self.until("the stream has come out", |story| {
            let (end, fabric) = (&mut story.ends[0], &mut story.fabrics[0]);
            is_finished = is_finished || end.endpoint_mut().finish(fabric, id).is_ok();
            story.receive(1, &mut got)
        });
        assert!(got == all, "{}: {} bytes of {}", F::NAME, got.len(), all.len());
        self.settle();
    }

    /// Takes what has come. Returns true at the end of a transfer.
    pub(crate) fn receive(&mut self, side: usize, got: &mut Vec<u8>) -> bool {
        let mut place = vec![0; 4096];
        let pulled = self.ends[side].endpoint_mut().pull(&mut self.fabrics[side], &mut [&mut place]);
        got.extend_from_slice(&place[..pulled.bytes]);
        pulled.end == End::Fin
    }

    /// Waits until growth is over at both ends, and kernel and budget agree.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        self.until("growth is over", |story| {
            story.ends.iter().all(|end| end.endpoint().is_growth_steady())
                && F::kernel_bytes() == F::budget_bytes()
        });
    }

    /// Makes rounds until this is so.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut is_over: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            self.round();
            if is_over(self) {
                return;
            }
            let counted = (F::kernel_bytes(), F::budget_bytes());
            let counters = || self.ends.each_ref().map(|end| end.counters());
            assert!(Instant::now() < end, "{}: stuck before {what}: {counted:?} {:?}", F::NAME, counters());
        }
    }

    /// Closes both ends.
    #[track_caller]
    pub(crate) fn close(&mut self) {
        for (end, fabric) in self.ends.iter_mut().zip(&mut self.fabrics) {
            end.close(fabric, Reason::DONE);
        }
        let deadline = Instant::now() + PATIENCE;
        while !self.ends.iter().all(|end| end.endpoint().is_flushed() && end.endpoint().peer_closes()) {
            assert!(Instant::now() < deadline, "{}: CLOSE has not come", F::NAME);
            for (end, fabric) in self.ends.iter_mut().zip(&mut self.fabrics) {
                end.progress(fabric);
                end.endpoint_mut().poll_acknowledgements(fabric);
            }
        }
    }

    /// Returns words 0 to 4 of the control message number `number` of end 0.
    pub(crate) fn said(&self, number: u32) -> [u64; 5] {
        let (fabric, link) = (&self.fabrics[1], self.ends[1].endpoint().link());
        let line = fabric.take_line(link, self.control_page, wire::mailbox(number));
        [line.0[0], line.0[1], line.0[2], line.0[3], line.0[4]]
    }

    /// Returns all that has happened.
    pub(crate) fn trace(&mut self) -> Trace {
        for (side, fabric) in self.fabrics.iter_mut().enumerate() {
            while let Some(record) = fabric.recorder.take() {
                self.trace.push((record.end.0, side, What::Step(record.step)));
            }
        }
        let mut all = [self.trace.clone(), self.log.entries()].concat();
        all.sort_by_key(|(at, ..)| *at);
        Trace(all.into_iter().map(|(_, side, what)| (side, what)).collect())
    }

    /// Returns the bytes of both ends together once so many small buffers are gone, and there are larger ones of these layouts.
    pub(crate) fn bytes_with(&self, small_gone: u64, larger: &[Layout]) -> u64 {
        // Over RDMA each has an image besides.
        let memories = if F::DIRECT { 1 } else { 2 };
        let larger: u64 = larger.iter().map(|layout| page_bytes_of(*layout)).sum();
        self.first_bytes + memories * larger - memories * small_gone * page_bytes_of(self.small)
    }
}

impl<F: Real> Drop for Story<F> {
    /// Has no end wait for the other's disconnect, which this thread makes later.
    fn drop(&mut self) {
        for end in &mut self.ends {
            F::make().end_by(end.endpoint_mut().link_mut(), 0);
        }
    }
}

/// A message that is being sent.
pub(crate) struct Sending(Option<superpipe_core::driver::SendOperation>);

/// Returns a message of so many bytes, none of which repeat soon.
pub(crate) fn message(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251).to_le_bytes()[0]).collect()
}
