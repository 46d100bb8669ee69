//! Recording of events, in the ring that the fabric lends while somebody records.
//!
//! A fabric that never lends one, which is the default, costs nothing: every call in here is folded away. One that may, but
//! does not now, costs one branch an event.

use crate::fabric::Fabric;
use crate::nanos::Nanos;
use crate::recorder::{Record, Step};

/// Records what takes no time, or is a wait. What it is, is put together only where somebody records.
#[inline]
pub(crate) fn event<F: Fabric>(fabric: &mut F, link: &F::Link, step: impl FnOnce() -> Step) {
    if fabric.recorder(link).is_some() {
        keep(fabric, link, None, step());
    }
}

/// When something begins that takes time; nothing that can be used where nobody records.
#[inline]
pub(crate) fn begin<F: Fabric>(fabric: &mut F, link: &F::Link) -> Option<Nanos> {
    if fabric.recorder(link).is_some() { Some(fabric.now()) } else { None }
}

/// Records what began then, and is over now.
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

/// The application begins to fill the blocks that it was given.
#[inline]
pub(crate) fn begin_filling<F: Fabric>(fabric: &mut F, link: &F::Link) {
    let begin = begin(fabric, link);
    if let Some(recorder) = fabric.recorder(link) {
        recorder.filling = begin;
    }
}

/// Since when the application has filled the blocks that it was given.
#[inline]
pub(crate) fn filling<F: Fabric>(fabric: &mut F, link: &F::Link) -> Option<Nanos> {
    fabric.recorder(link).and_then(|recorder| recorder.filling.take())
}

/// The application begins to read the blocks that it was shown.
#[inline]
pub(crate) fn begin_reading<F: Fabric>(fabric: &mut F, link: &F::Link) {
    let begin = begin(fabric, link);
    if let Some(recorder) = fabric.recorder(link) {
        recorder.reading = begin;
    }
}

/// Since when the application has read the blocks that it was shown.
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
