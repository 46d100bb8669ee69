//! Acknowledgements: counts of consumed blocks and control messages, in one line of the peer's control page that is overwritten
//! each time. wire.md 2.2.
//!
//! ```text
//! word 0  blocks consumed    1  its complement
//!      2  controls consumed  3  its complement
//!      4  keepalives         5  its complement
//!      6  timing of a copy   7  0, or with checked flags the CRC32C of words 0 to 6
//! ```
//!
//! The line has no flag, so a reader may find it torn, and reads it again, or find an older write that became visible late, which
//! it ignores and the next keepalive repairs. In notify mode it is read once per notification. A torn line is then being
//! overwritten, and the next notification follows.

use crate::wire::Crc32c;
use crate::wire::arrival::Arrival;
use crate::wire::line::Line;
use crate::wire::timing::Timing;

/// The three counts, and a timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) blocks: u64,
    pub(crate) controls: u64,
    pub(crate) keepalives: u64,
    /// Newest copy that was timed.
    pub(crate) timing: Timing,
}

impl Ack {
    pub(crate) fn line<C: Crc32c>(self, checksum: &C, arrival: Arrival) -> Line {
        let Self { blocks, controls, keepalives, timing } = self;
        let mut line =
            Line([blocks, !blocks, controls, !controls, keepalives, !keepalives, timing.word(), 0]);
        line.0[7] = Self::check(checksum, arrival, &line);
        line
    }

    /// Returns the counts. `None` if the line was never written, or is torn.
    pub(crate) fn parse<C: Crc32c>(checksum: &C, arrival: Arrival, line: &Line) -> Option<Self> {
        let [blocks, not_blocks, controls, not_controls, keepalives, not_keepalives, timing, check] = line.0;
        let is_complete = proves(not_blocks, blocks)
            && proves(not_controls, controls)
            && proves(not_keepalives, keepalives)
            && check == Self::check(checksum, arrival, line);
        is_complete.then_some(Self { blocks, controls, keepalives, timing: Timing::of(timing) })
    }

    fn check<C: Crc32c>(checksum: &C, arrival: Arrival, line: &Line) -> u64 {
        match arrival {
            Arrival::Flag | Arrival::Notify => 0,
            Arrival::CheckedFlag => u64::from(Arrival::body_crc(checksum, line, !0)),
        }
    }
}

/// Returns true if `complement` was written together with `count`.
#[inline]
fn proves(complement: u64, count: u64) -> bool {
    planted!(AckNotProven => return true);
    complement == !count
}
