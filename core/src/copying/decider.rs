//! The class of messages that decides about the window: the one that moves most blocks.

use super::size_class::{SIZE_CLASSES, SizeClass};

/// Another class decides once it has moved more than this many quarters of the blocks of the one before.
const TAKEOVER_Q2: u32 = 5;

/// Sum of the blocks of all classes at which each is halved, 16 MiB by default: what was moved long ago counts less.
const WEIGHT_MAX: u32 = 4096;

/// Another class decides from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takeover {
    /// It has not decided before.
    First,
    /// It has.
    Again,
}

/// Blocks of each class.
#[derive(Clone, Debug)]
pub(super) struct Decider {
    class: Option<SizeClass>,
    has_decided: [bool; SIZE_CLASSES],
    weights: [u32; SIZE_CLASSES],
    /// Count of blocks at the last chunk, and its class.
    before: (u64, Option<SizeClass>),
}

impl Decider {
    /// Begins after `blocks` blocks.
    pub(super) const fn new(blocks: u64) -> Self {
        Self {
            class: None,
            has_decided: [false; SIZE_CLASSES],
            weights: [0; SIZE_CLASSES],
            before: (blocks, None),
        }
    }

    /// Returns the class that decides.
    pub(super) const fn class(&self) -> Option<SizeClass> {
        self.class
    }

    /// Returns true if this class decides.
    pub(super) fn is(&self, class: SizeClass) -> bool {
        self.class == Some(class)
    }

    /// Counts the blocks since the last chunk for its class; a chunk of `class` begins after `blocks` blocks. Returns whether this class takes over, which it
    /// does only if it may.
    pub(super) fn weigh(&mut self, class: SizeClass, blocks: u64, may_decide: bool) -> Option<Takeover> {
        let (count, before) = core::mem::replace(&mut self.before, (blocks, Some(class)));
        let passed = u32::try_from(blocks.wrapping_sub(count)).unwrap_or(0).min(WEIGHT_MAX);
        if let Some(before) = before {
            self.weights[before.index()] += passed;
        }
        if self.weights.iter().sum::<u32>() > WEIGHT_MAX {
            self.weights.iter_mut().for_each(|weight| *weight /= 2);
        }
        let weight = |class: SizeClass| self.weights[class.index()];
        let leads = self.class.is_none_or(|decider| weight(class) * 4 > weight(decider) * TAKEOVER_Q2);
        if self.is(class) || !leads || !may_decide {
            return None;
        }
        self.class = Some(class);
        let has_decided = core::mem::replace(&mut self.has_decided[class.index()], true);
        Some(if has_decided { Takeover::Again } else { Takeover::First })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_takes_over_by_a_quarter_more() {
        let [long, short] = [4 << 20, 64 << 10].map(SizeClass::of);
        let mut decider = Decider::new(u64::MAX - 50);
        let mut blocks = u64::MAX - 50;
        let mut send = |decider: &mut Decider, class, count, may| {
            let found = decider.weigh(class, blocks, may);
            blocks = blocks.wrapping_add(count);
            found
        };
        assert_eq!(send(&mut decider, short, 10, false), None);
        assert_eq!(send(&mut decider, long, 100, true), Some(Takeover::First));
        assert_eq!(send(&mut decider, short, 110, true), None, "10 blocks against 100");
        assert_eq!(send(&mut decider, short, 10, true), None, "120 against 100");
        assert_eq!(send(&mut decider, short, 1, true), Some(Takeover::First), "130 against 100");
        assert_eq!(send(&mut decider, long, 70, true), None);
        assert_eq!(send(&mut decider, long, 1, true), Some(Takeover::Again), "170 against 131");
    }
}
