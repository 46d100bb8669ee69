//! How often a checked flag lets a block pass that is not all there: for runs whose CRC has too few bits.

use core::ops::AddAssign;
use std::collections::BTreeMap;

use superpipe_testkit::crc32c;

/// Blocks that had their flag and not all of their payload when they were looked at, each of their contents counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Torn {
    /// How many they were.
    pub looked_at: u64,
    /// How many of them have the CRC that their flag tells.
    pub passed: u64,
}

impl AddAssign for Torn {
    fn add_assign(&mut self, other: Self) {
        self.looked_at += other.looked_at;
        self.passed += other.passed;
    }
}

/// Watches an end as it looks.
#[derive(Default)]
pub(crate) struct Looks {
    /// What was there at the last look, by end and offset.
    last: BTreeMap<(usize, u32), u32>,
    pub(crate) torn: Torn,
}

impl Looks {
    /// A look at a block: what is there, what was sent, and whether it passes.
    pub(crate) fn note(&mut self, at: (usize, u32), here: &[u8], sent: &[u8], passes: bool) {
        if here == sent {
            self.last.remove(&at);
        } else if self.last.insert(at, crc32c(here, 0)) != Some(crc32c(here, 0)) {
            self.torn.looked_at += 1;
            self.torn.passed += u64::from(passes);
        }
    }
}
