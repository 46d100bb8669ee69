//! Recording of events, in the ring that the fabric lends while somebody records. The data path records with one line,
//! `record!(fabric, link, Step { .. })`.
//!
//! A fabric that never lends a ring, which is the default, costs nothing: the compiler removes every call. One that lends none at
//! the moment costs one branch per event.

use crate::fabric::Fabric;
use crate::nanos::Nanos;
use crate::recorder::{Record, Step};

/// Records a [`Step`], which is put together only while somebody records; `since` a time if it took time.
macro_rules! record {
    ($fabric:expr, $link:expr, since $begin:expr, $step:ident $fields:tt) => {
        $crate::recording::span($fabric, $link, $begin, || $crate::recorder::Step::$step $fields)
    };
    ($fabric:expr, $link:expr, $step:ident $fields:tt) => {
        $crate::recording::event($fabric, $link, || $crate::recorder::Step::$step $fields)
    };
}

/// Records an event that takes no time, or a wait. Calls `step` only while somebody records.
#[inline]
pub(crate) fn event<F: Fabric>(fabric: &mut F, link: &F::Link, step: impl FnOnce() -> Step) {
    if fabric.recorder(link).is_some() {
        keep(fabric, link, None, step());
    }
}

/// Returns the time at which an event begins. `None` while nobody records.
#[inline]
pub(crate) fn begin<F: Fabric>(fabric: &mut F, link: &F::Link) -> Option<Nanos> {
    if fabric.recorder(link).is_some() { Some(fabric.now()) } else { None }
}

/// Records an event that began at `begin` and ends now.
#[inline]
pub(crate) fn span<F: Fabric>(
    fabric: &mut F,
    link: &F::Link,
    begin: Option<Nanos>,
    step: impl FnOnce() -> Step,
) {
    if fabric.recorder(link).is_some() {
        keep(fabric, link, begin, step());
    }
}

/// Notes that the application begins to fill reserved blocks in place.
#[inline]
pub(crate) fn begin_filling<F: Fabric>(fabric: &mut F, link: &F::Link) {
    let begin = begin(fabric, link);
    if let Some(recorder) = fabric.recorder(link) {
        recorder.filling = begin;
    }
}

/// Takes the time since which the application has filled reserved blocks.
#[inline]
pub(crate) fn filling<F: Fabric>(fabric: &mut F, link: &F::Link) -> Option<Nanos> {
    fabric.recorder(link).and_then(|recorder| recorder.filling.take())
}

/// Notes that the application begins to read blocks in place.
#[inline]
pub(crate) fn begin_reading<F: Fabric>(fabric: &mut F, link: &F::Link) {
    let begin = begin(fabric, link);
    if let Some(recorder) = fabric.recorder(link) {
        recorder.reading = begin;
    }
}

/// Takes the time since which the application has read blocks in place.
#[inline]
pub(crate) fn reading<F: Fabric>(fabric: &mut F, link: &F::Link) -> Option<Nanos> {
    fabric.recorder(link).and_then(|recorder| recorder.reading.take())
}

#[cold]
#[inline(never)]
fn keep<F: Fabric>(fabric: &mut F, link: &F::Link, begin: Option<Nanos>, step: Step) {
    let end = fabric.now();
    if let Some(recorder) = fabric.recorder(link) {
        recorder.push(Record { begin: begin.unwrap_or(end), end, step });
    }
}
