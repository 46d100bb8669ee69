//! What is known of one class of sizes.

use super::absence::Absence;
use super::classes::least_bytes;
use super::correction::Correction;
use super::entry::Entry;
use super::reuse::Reuse;
use super::terms::{KINDS, Kind, Way};

/// Corrections of a class: of the ways through the landing buffer out of memory that is registered, and out of other memory; of the others once, but for registering, which
/// is followed by deregistering or not.
const CORRECTIONS: usize = 10;
/// Ways of a class that can be declined.
const ABSENCES: usize = 4;

/// What is known of one class of sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct State {
    pub(super) corrections: [Correction; CORRECTIONS],
    pub(super) absences: [Absence; ABSENCES],
    pub(super) entries: [Entry; KINDS],
    pub(super) reuse: Reuse,
    /// Correction of messages in one chunk.
    pub(super) short_factor: f32,
    /// Average size of the messages observed.
    pub(super) mean_bytes: f32,
}

impl State {
    pub(super) const fn new(class: usize) -> Self {
        Self {
            corrections: [Correction::NEW; CORRECTIONS],
            absences: [Absence::NONE; ABSENCES],
            entries: [Entry::NEW; KINDS],
            reuse: Reuse::NEW,
            short_factor: 1.0,
            mean_bytes: least_bytes(class) as f32,
        }
    }
}

/// Returns the place of a correction in its class.
pub(super) const fn correction_index(way: Way, kind: Kind) -> usize {
    let is_kept = matches!(kind, Kind::Kept);
    match way {
        Way::Superpipeline | Way::Pipeline | Way::Eager => way as usize + if is_kept { 5 } else { 0 },
        Way::Register if matches!(kind, Kind::Fresh) => 3,
        Way::Register => 4,
        Way::RegisterCached | Way::OneCopy => 8,
        Way::SplitCopy => 9,
    }
}

/// Returns the place of the same way out of other memory, or of itself.
pub(super) const fn sibling(index: usize) -> usize {
    match index {
        0..=2 => index + 5,
        5..=7 => index - 5,
        3 => 4,
        4 => 3,
        _ => index,
    }
}

/// Returns the place of a way that can be declined.
pub(super) const fn absence_index(way: Way, kind: Kind) -> Option<usize> {
    match way {
        Way::Superpipeline | Way::Pipeline | Way::Eager => None,
        Way::Register if matches!(kind, Kind::Fresh) => Some(0),
        Way::Register => Some(1),
        Way::RegisterCached | Way::OneCopy => Some(2),
        Way::SplitCopy => Some(3),
    }
}
