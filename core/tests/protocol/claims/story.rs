//! Two ends with small landing buffers, and everything that happens to them in one order: the records of both ends, and the fabric's log
//! of jobs and writes.

use superpipe_core::driver::{Drive, Driver, WaitStrategy};
use superpipe_core::recorder::{ControlKind, Recorder, Step};
use superpipe_core::{
    Config, End, Endpoint, FlagPlace, Job, Layout, Length, Nanos, Origin, Protocol, Reason, small_layout,
};
use superpipe_testkit::{GrowthSetup, Logged, Memory, Place, Setup, TestFabric, wire};

/// Largest landing buffer: 256 KiB.
pub(super) const LARGEST: Layout = Layout { block_bytes: 8 << 10, block_count: 32, flags: FlagPlace::Inside };
/// Base, which a connection has after it has shrunk.
const BASE: Layout = Layout { block_bytes: 256, block_count: 11, flags: FlagPlace::Inside };

/// Rounds after which something that does not come never comes.
const ROUNDS_MAX: u32 = 2_000_000;

/// Something that happened at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It recorded this.
    Step(Step),
    /// It asked the fabric for this.
    Log(Logged),
}

/// An event that has to have happened: the end, a name for messages, and the event.
pub(super) type Expected<'a> = (usize, &'a str, fn(&What) -> bool);

/// All that happened, in order, with the end.
#[derive(Debug)]
pub(super) struct Trace(pub(super) Vec<(usize, What)>);

impl Trace {
    /// Returns the place of the first event of an end for which this is true.
    #[track_caller]
    pub(super) fn first(&self, side: usize, is_it: impl Fn(&What) -> bool) -> usize {
        let found = self.0.iter().position(|(at, what)| *at == side && is_it(what));
        found.unwrap_or_else(|| panic!("it never happened: {self:#?}"))
    }

    /// Returns the events of an end for which this returns something.
    pub(super) fn all<T>(&self, side: usize, find: impl Fn(&What) -> Option<T>) -> Vec<T> {
        self.0.iter().filter(|(at, _)| *at == side).filter_map(|(_, what)| find(what)).collect()
    }

    /// Panics unless the events happened in this order.
    #[track_caller]
    pub(super) fn is_in_order(&self, events: &[Expected<'_>]) {
        let places: Vec<_> =
            events.iter().map(|(side, name, is_it)| (self.first(*side, is_it), *side, *name)).collect();
        assert!(places.is_sorted_by(|one, next| one.0 < next.0), "{places:?}");
    }

    /// Returns the comparisons of an end, as (bytes, threshold, element).
    pub(super) fn compared(&self, side: usize) -> Vec<(u64, u32, Option<u32>)> {
        self.all(side, |what| match *what {
            What::Step(Step::Compared { bytes, threshold_bytes, element }) => {
                Some((bytes, threshold_bytes, element))
            }
            _ => None,
        })
    }

    /// Returns the layouts of the landing buffers that an end has provisioned.
    pub(super) fn provisioned(&self, side: usize) -> Vec<Layout> {
        self.all(side, |what| match *what {
            What::Log(Logged::Done(Job::ProvisionLanding { layout, .. })) => Some(layout),
            _ => None,
        })
    }

    /// Returns the number of control messages of this kind that an end has sent.
    pub(super) fn sent(&self, side: usize, kind: ControlKind) -> usize {
        self.all(side, |what| (*what == What::Step(Step::ControlOut(kind))).then_some(())).len()
    }

    /// Returns true if an end wrote to a landing buffer of this index.
    pub(super) fn wrote(&self, side: usize, index: impl Fn(u8) -> bool) -> bool {
        let written = self.all(side, |what| match *what {
            What::Log(Logged::Written { to, .. }) if to.place == Place::Landing => Some(to.index),
            _ => None,
        });
        written.into_iter().any(index)
    }
}

pub(super) const fn compared(what: &What) -> bool {
    matches!(what, What::Step(Step::Compared { .. }))
}
pub(super) fn grow_out(what: &What) -> bool {
    *what == What::Step(Step::ControlOut(ControlKind::Grow))
}
pub(super) fn grow_in(what: &What) -> bool {
    *what == What::Step(Step::ControlIn(ControlKind::Grow))
}
pub(super) fn grown_out(what: &What) -> bool {
    *what == What::Step(Step::ControlOut(ControlKind::Grown))
}
pub(super) fn grown_in(what: &What) -> bool {
    *what == What::Step(Step::ControlIn(ControlKind::Grown))
}
pub(super) fn retired_out(what: &What) -> bool {
    *what == What::Step(Step::ControlOut(ControlKind::Retired))
}
pub(super) fn retired_in(what: &What) -> bool {
    *what == What::Step(Step::ControlIn(ControlKind::Retired))
}
pub(super) fn close_out(what: &What) -> bool {
    *what == What::Step(Step::ControlOut(ControlKind::Close))
}
pub(super) const fn landing_begun(what: &What) -> bool {
    matches!(what, What::Log(Logged::Begun(Job::ProvisionLanding { .. })))
}
pub(super) const fn landing_done(what: &What) -> bool {
    matches!(what, What::Log(Logged::Done(Job::ProvisionLanding { .. })))
}
pub(super) const fn image_begun(what: &What) -> bool {
    matches!(what, What::Log(Logged::Begun(Job::ProvisionImage { .. })))
}
pub(super) const fn image_done(what: &What) -> bool {
    matches!(what, What::Log(Logged::Done(Job::ProvisionImage { .. })))
}
/// The small buffer of this end is deregistered and freed.
pub(super) const fn small_release_begun(what: &What) -> bool {
    matches!(what, What::Log(Logged::Begun(Job::ReleaseLanding(Memory { index: 0, .. }))))
}
pub(super) const fn small_released(what: &What) -> bool {
    matches!(what, What::Log(Logged::Done(Job::ReleaseLanding(Memory { index: 0, .. }))))
}
/// The image of the peer's small buffer is deregistered and freed.
pub(super) const fn small_image_released(what: &What) -> bool {
    matches!(what, What::Log(Logged::Done(Job::ReleaseImage(Memory { index: 0, .. }))))
}
/// The first bytes go into a larger landing buffer of the peer.
pub(super) const fn larger_written(what: &What) -> bool {
    matches!(what, What::Log(Logged::Written { to: Memory { index: 1 | 2, .. }, .. }))
}
pub(super) const fn small_written(what: &What) -> bool {
    matches!(what, What::Log(Logged::Written { to: Memory { place: Place::Landing, index: 0, .. }, .. }))
}
pub(super) const fn copied_in(what: &What) -> bool {
    matches!(what, What::Step(Step::CopyIn { .. }))
}
pub(super) const fn copied_out(what: &What) -> bool {
    matches!(what, What::Step(Step::CopyOut { .. }))
}
pub(super) const fn received(what: &What) -> bool {
    matches!(what, What::Step(Step::ReceiveEnd { .. }))
}

/// Two connected ends. End 0 sends to end 1, unless a test says otherwise.
pub(super) struct Story<F: TestFabric> {
    pub(super) fabric: F,
    pub(super) ends: [Driver<F>; 2],
}

impl<F: TestFabric> Story<F> {
    /// Connects two ends with the default small buffer and threshold.
    pub(super) fn new() -> Self {
        Self::of(Config::default(), 0)
    }

    /// Connects two ends by the provision protocol. One job in so many fails.
    pub(super) fn of(config: Config, fail_one_in: usize) -> Self {
        let small = small_layout(config.small_buffer_bytes);
        let growth = GrowthSetup { fail_one_in, base: Some(BASE), ..GrowthSetup::new(LARGEST, 64 << 10) };
        let mut fabric = F::new(&Setup { growth: Some(growth), ..Setup::new(small, 7) });
        *fabric.recorders() = [Some(Box::new(Recorder::new())), Some(Box::new(Recorder::new()))];
        fabric.begin_log();
        let config = Config { protocol: Protocol::Provision, c0_bytes: 64 << 10, ..config };
        let ends = [0, 1].map(|side| {
            let end = Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap();
            Driver::new(end, side as u64, WaitStrategy::Yield, 1 << 40, Nanos(0))
        });
        Self { fabric, ends }
    }

    /// Makes a round of both ends and of the fabric.
    pub(super) fn round(&mut self) {
        for end in &mut self.ends {
            end.progress(&mut self.fabric);
        }
        self.fabric.step();
    }

    /// Sends a message from an end to the other, compares what comes out, and waits until growth is over.
    #[track_caller]
    pub(super) fn send_from(&mut self, from: usize, slices: &[&[u8]]) {
        let message = slices.concat();
        let mut sending = self.ends[from].begin_send(&mut self.fabric, 5, slices);
        let (mut got, mut is_over) = (Vec::new(), false);
        self.until("the message has come out", |story| {
            if let Some(operation) = &mut sending
                && let Drive::Done(done) = story.ends[from].drive_send(&mut story.fabric, operation, slices)
            {
                assert_eq!(done, Ok(()), "{}", F::NAME);
                sending = None;
            }
            is_over |= story.receive(1 - from, &mut got);
            is_over && sending.is_none()
        });
        assert!(got == message, "{}: {} bytes of {}", F::NAME, got.len(), message.len());
        self.settle();
    }

    /// Sends a message from end 0.
    #[track_caller]
    pub(super) fn send(&mut self, slices: &[&[u8]]) {
        self.send_from(0, slices);
    }

    /// Sends a stream from end 0 in these pushes.
    #[track_caller]
    pub(super) fn stream(&mut self, pushes: &[&[&[u8]]]) {
        let id = self.ends[0].endpoint_mut().start(5, Length::Stream).unwrap();
        let mut got = Vec::new();
        let mut all = Vec::new();
        for slices in pushes {
            let bytes = slices.concat();
            let mut sent = 0;
            self.until("the part is sent", |story| {
                sent += story.ends[0].endpoint_mut().push_from(&mut story.fabric, id, slices, sent).unwrap();
                story.receive(1, &mut got);
                sent == bytes.len()
            });
            all.extend(bytes);
        }
        let mut is_finished = false;
        self.until("the stream has come out", |story| {
            is_finished = is_finished || story.ends[0].endpoint_mut().finish(&mut story.fabric, id).is_ok();
            story.receive(1, &mut got)
        });
        assert!(got == all, "{}: {} bytes of {}", F::NAME, got.len(), all.len());
        self.settle();
    }

    /// Takes what has come. Returns true at the end of a transfer.
    pub(super) fn receive(&mut self, side: usize, got: &mut Vec<u8>) -> bool {
        let mut place = vec![0; 4096];
        let pulled = self.ends[side].endpoint_mut().pull(&mut self.fabric, &mut [&mut place]);
        got.extend_from_slice(&place[..pulled.bytes]);
        pulled.end == End::Fin
    }

    /// Waits until growth is over at both ends.
    #[track_caller]
    pub(super) fn settle(&mut self) {
        self.until("growth is over", |story| story.ends.iter().all(|end| end.endpoint().is_growth_steady()));
    }

    #[track_caller]
    pub(super) fn until(&mut self, what: &str, mut is_over: impl FnMut(&mut Self) -> bool) {
        for _ in 0..ROUNDS_MAX {
            self.round();
            if is_over(self) {
                return;
            }
        }
        panic!("{}: stuck before {what}: {:?}", F::NAME, self.ends.each_ref().map(|end| end.counters()));
    }

    /// Closes both ends.
    #[track_caller]
    pub(super) fn close(&mut self) {
        for end in &mut self.ends {
            end.close(&mut self.fabric, Reason::DONE);
        }
        self.until("CLOSE has come", |story| {
            story.ends.iter().all(|end| end.endpoint().is_flushed() && end.endpoint().peer_closes())
        });
    }

    /// Returns words 0 to 4 of the control message number `number` of end 0.
    pub(super) fn said(&self, number: u32) -> [u64; 5] {
        let line = self.fabric.memories().line(Memory::control_page(1), wire::mailbox(number));
        [line.0[0], line.0[1], line.0[2], line.0[3], line.0[4]]
    }

    /// Takes the trace of all that has happened since the begin of the log.
    pub(super) fn trace(&mut self) -> Trace {
        let mut events = Vec::new();
        for (side, recorder) in self.fabric.recorders().iter_mut().enumerate() {
            while let Some(record) = recorder.as_mut().and_then(|recorder| recorder.take()) {
                events.push((record.end, 0, side, What::Step(record.step)));
            }
        }
        for entry in self.fabric.log() {
            events.push((entry.at, 1, entry.side, What::Log(entry.what)));
        }
        // An entry of the log has the time of the record before it. The sort is stable.
        events.sort_by_key(|(at, is_log, ..)| (*at, *is_log));
        Trace(events.into_iter().map(|(_, _, side, what)| (side, what)).collect())
    }
}

/// Returns a message of so many bytes, none of which repeat soon.
pub(super) fn message(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251).to_le_bytes()[0]).collect()
}
