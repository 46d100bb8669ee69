//! Counts how often a checked flag accepts a block that has not arrived completely, for a CRC with too few bits.

use core::ops::AddAssign;
use std::collections::BTreeMap;

use superpipe_testkit::crc32c;

/// Blocks whose flag had arrived without all of the payload at a poll. Each content counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialBlocks {
    /// Number of such blocks.
    pub polled: u64,
    /// Number of them that have the CRC of their flag.
    pub passed: u64,
}

impl AddAssign for PartialBlocks {
    fn add_assign(&mut self, other: Self) {
        self.polled += other.polled;
        self.passed += other.passed;
    }
}

/// Counts the incomplete blocks that an end polls.
#[derive(Default)]
pub(crate) struct PartialBlockCounter {
    /// CRC of the content at the last poll, by end and offset.
    last: BTreeMap<(usize, u32), u32>,
    pub(crate) blocks: PartialBlocks,
}

impl PartialBlockCounter {
    /// Notes a poll: the content, what was sent, and whether the flag accepts it.
    pub(crate) fn note(&mut self, at: (usize, u32), here: &[u8], sent: &[u8], passes: bool) {
        if here == sent {
            self.last.remove(&at);
        } else if self.last.insert(at, crc32c(here, 0)) != Some(crc32c(here, 0)) {
            self.blocks.polled += 1;
            self.blocks.passed += u64::from(passes);
        }
    }
}
