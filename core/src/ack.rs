//! Acknowledgements: counts of what was consumed, in one line of the peer's seat that is written over and over.
//! wire.md 2.2.
//!
//! ```text
//! word 0  blocks consumed    1  its complement
//!      2  controls consumed  3  its complement
//!      4  signs of life      5  its complement
//!      6  0                  7  0, or with checked flags the CRC32C of words 0 to 6
//! ```
//!
//! Nothing but a notification says when the line was written, so a reader may find it torn (read again), or find an older
//! write that became visible late (ignored, and healed by the next sign of life). With notifications it is read once for
//! each of them; one that is torn then is being overwritten, and the next notification tells of that.

use crate::arrival::Arrival;
use crate::fabric::Fabric;
use crate::line::Line;
use crate::planted::{Bug, is_planted};

/// The three counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) blocks: u64,
    pub(crate) controls: u64,
    pub(crate) life: u64,
}

impl Ack {
    pub(crate) fn line<F: Fabric>(self, fabric: &F, arrival: Arrival) -> Line {
        let Self { blocks, controls, life } = self;
        let mut line = Line([blocks, !blocks, controls, !controls, life, !life, 0, 0]);
        line.0[7] = Self::check(fabric, arrival, &line);
        line
    }

    /// The counts, or `None` where the line was never written, or is torn.
    pub(crate) fn parse<F: Fabric>(fabric: &F, arrival: Arrival, line: &Line) -> Option<Self> {
        let [blocks, not_blocks, controls, not_controls, life, not_life, _, check] = line.0;
        let whole = (blocks == !not_blocks && controls == !not_controls && life == !not_life
            || is_planted(Bug::AckNotProven))
            && check == Self::check(fabric, arrival, line);
        whole.then_some(Self { blocks, controls, life })
    }

    fn check<F: Fabric>(fabric: &F, arrival: Arrival, line: &Line) -> u64 {
        match arrival {
            Arrival::Flag | Arrival::Notify => 0,
            Arrival::CheckedFlag => u64::from(Arrival::body_crc(fabric, line, !0)),
        }
    }
}
