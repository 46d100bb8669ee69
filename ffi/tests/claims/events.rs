//! What happened at both ends, in order.

use superpipe_core::Layout;
use superpipe_core::recorder::{ControlKind, Step};

/// Landing buffers of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The pre-registered one.
    Small,
    /// One that was provisioned.
    Larger,
    /// The part of the control page that takes the place of the small one.
    Base,
}

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A landing buffer is allocated and registered.
    MakeLanding(Layout),
    /// The image of the peer's, or its mapping.
    MakeImage(Layout),
    /// A landing buffer is deregistered and freed.
    FreeLanding(Memory),
    FreeImage(Memory),
}

/// Something that happened at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The end recorded this.
    Step(Step),
    /// A job began, and the bytes that the kernel counted before.
    Begun(Work, u64),
    /// A job is done, and the bytes that the kernel counts now.
    Done(Work, u64),
    /// The first or another write to this memory of the peer.
    Written(Memory),
}

/// An event that has to have happened: the end, a name for messages, and the event.
pub(crate) type Expected<'a> = (usize, &'a str, fn(&What) -> bool);

/// All that happened, with the end.
#[derive(Debug)]
pub(crate) struct Trace(pub(crate) Vec<(usize, What)>);

impl Trace {
    /// Returns the place of the first event of an end for which this is true.
    #[track_caller]
    pub(crate) fn first(&self, side: usize, is_it: impl Fn(&What) -> bool) -> usize {
        let found = self.0.iter().position(|(at, what)| *at == side && is_it(what));
        found.unwrap_or_else(|| panic!("it never happened: {self:#?}"))
    }

    /// Returns the events of an end for which this returns something.
    pub(crate) fn all<T>(&self, side: usize, find: impl Fn(&What) -> Option<T>) -> Vec<T> {
        self.0.iter().filter(|(at, _)| *at == side).filter_map(|(_, what)| find(what)).collect()
    }

    /// Panics unless the events happened in this order.
    #[track_caller]
    pub(crate) fn is_in_order(&self, events: &[Expected<'_>]) {
        let places: Vec<_> =
            events.iter().map(|(side, name, is_it)| (self.first(*side, is_it), *side, *name)).collect();
        assert!(places.is_sorted_by(|one, next| one.0 < next.0), "{places:?}");
    }

    /// Returns the comparisons of an end, as (bytes, threshold, element).
    pub(crate) fn compared(&self, side: usize) -> Vec<(u64, u32, Option<u32>)> {
        self.all(side, |what| match *what {
            What::Step(Step::Compared { bytes, threshold_bytes, element }) => {
                Some((bytes, threshold_bytes, element))
            }
            _ => None,
        })
    }

    /// Returns the layouts of the landing buffers that an end has provisioned.
    pub(crate) fn provisioned(&self, side: usize) -> Vec<Layout> {
        self.all(side, |what| match *what {
            What::Done(Work::MakeLanding(layout), _) => Some(layout),
            _ => None,
        })
    }

    /// Returns the number of control messages of this kind that an end has sent.
    pub(crate) fn sent(&self, side: usize, kind: ControlKind) -> usize {
        self.all(side, |what| (*what == What::Step(Step::ControlOut(kind))).then_some(())).len()
    }

    /// Returns true if an end wrote to this memory of the peer.
    pub(crate) fn wrote(&self, side: usize, memory: Memory) -> bool {
        self.0.contains(&(side, What::Written(memory)))
    }

    /// Returns the payload bytes that an end copied in, and those that it copied out.
    pub(crate) fn copied(&self, side: usize) -> (u32, u32) {
        let bytes = self.all(side, |what| match what {
            What::Step(Step::CopyIn { bytes, .. }) => Some((*bytes, 0)),
            What::Step(Step::CopyOut { bytes, .. }) => Some((0, *bytes)),
            _ => None,
        });
        bytes.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Returns the bytes that the kernel counted before a job, and after it.
    #[track_caller]
    pub(crate) fn kernel_bytes(&self, side: usize, work: Work) -> [u64; 2] {
        let of = |find: &dyn Fn(&What) -> Option<u64>| self.all(side, find)[0];
        [
            of(&|what| match *what {
                What::Begun(begun, bytes) if begun == work => Some(bytes),
                _ => None,
            }),
            of(&|what| match *what {
                What::Done(done, bytes) if done == work => Some(bytes),
                _ => None,
            }),
        ]
    }
}

pub(crate) const fn compared(what: &What) -> bool {
    matches!(what, What::Step(Step::Compared { .. }))
}
pub(crate) fn grow_out(what: &What) -> bool {
    *what == What::Step(Step::ControlOut(ControlKind::Grow))
}
pub(crate) fn grow_in(what: &What) -> bool {
    *what == What::Step(Step::ControlIn(ControlKind::Grow))
}
pub(crate) fn grown_out(what: &What) -> bool {
    *what == What::Step(Step::ControlOut(ControlKind::Grown))
}
pub(crate) fn grown_in(what: &What) -> bool {
    *what == What::Step(Step::ControlIn(ControlKind::Grown))
}
pub(crate) fn retired_out(what: &What) -> bool {
    *what == What::Step(Step::ControlOut(ControlKind::Retired))
}
pub(crate) fn retired_in(what: &What) -> bool {
    *what == What::Step(Step::ControlIn(ControlKind::Retired))
}
pub(crate) fn close_out(what: &What) -> bool {
    *what == What::Step(Step::ControlOut(ControlKind::Close))
}
pub(crate) const fn landing_begun(what: &What) -> bool {
    matches!(what, What::Begun(Work::MakeLanding(_), _))
}
pub(crate) const fn landing_done(what: &What) -> bool {
    matches!(what, What::Done(Work::MakeLanding(_), _))
}
pub(crate) const fn image_begun(what: &What) -> bool {
    matches!(what, What::Begun(Work::MakeImage(_), _))
}
pub(crate) const fn image_done(what: &What) -> bool {
    matches!(what, What::Done(Work::MakeImage(_), _))
}
/// The small buffer of this end is deregistered and freed.
pub(crate) const fn small_release_begun(what: &What) -> bool {
    matches!(what, What::Begun(Work::FreeLanding(Memory::Small), _))
}
pub(crate) const fn small_released(what: &What) -> bool {
    matches!(what, What::Done(Work::FreeLanding(Memory::Small), _))
}
/// The image of the peer's small buffer is deregistered and freed.
pub(crate) const fn small_image_released(what: &What) -> bool {
    matches!(what, What::Done(Work::FreeImage(Memory::Small), _))
}
pub(crate) const fn larger_written(what: &What) -> bool {
    matches!(what, What::Written(Memory::Larger))
}
pub(crate) const fn small_written(what: &What) -> bool {
    matches!(what, What::Written(Memory::Small))
}
pub(crate) const fn copied_in(what: &What) -> bool {
    matches!(what, What::Step(Step::CopyIn { .. }))
}
pub(crate) const fn copied_out(what: &What) -> bool {
    matches!(what, What::Step(Step::CopyOut { .. }))
}
pub(crate) const fn received(what: &What) -> bool {
    matches!(what, What::Step(Step::ReceiveEnd { .. }))
}
