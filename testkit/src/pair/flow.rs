//! Oracle of one direction: what was sent, and what has arrived.

use superpipe_core::{Origin, Reason, TransferId};

use super::script::{Content, Transfer};
use crate::{Rng, wire};

/// Open transfer of an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) index: usize,
    pub(super) id: TransferId,
}

/// Progress of one transfer.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) tag: u64,
    pub(super) payload: Vec<u8>,
    pub(super) number: Option<u64>,
    pub(super) bytes: usize,
    pub(super) ended: bool,
    pub(super) cancelled: Option<Reason>,
    pub(super) rejected: Option<Reason>,
    pub(super) rejection_reported: bool,
    pub(super) received: Option<usize>,
    pub(super) complete: bool,
}

/// Oracle of the direction from end `from` to the other.
pub(super) struct Flow {
    pub(super) sent: Vec<Sent>,
    pub(super) next: usize,
    pub(super) open: Option<Open>,
    /// Transfer at the head, as the receiver knows it.
    pub(super) head: Option<(usize, u64)>,
    /// Transfers with a smaller index have arrived or were skipped.
    pub(super) seen: usize,
    pub(super) at: usize,
    /// The sender may hold the first chunk of a transfer back until its CTS is here, and drops it with a transfer that is cancelled before.
    pub(super) holds_back: bool,
}

/// Returns the reason with which transfer `index` of an end is cancelled (kind 1) or rejected (kind 2).
#[expect(clippy::cast_possible_truncation, reason = "few transfers")]
#[must_use]
pub const fn reason(side: usize, index: usize, kind: u32) -> Reason {
    Reason(kind << 16 | (side as u32) << 15 | (index as u32 + 1))
}

/// Bytes of [`Content::Repeated`] up to the first repetition: no power of two divides it but 8, so blocks that are taken for each other differ.
const REPEATED_BYTES: usize = 4104;

fn payload(rng: &mut Rng, transfer: &Transfer, origin: &Origin) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(transfer.bytes + 64);
    let drawn_bytes = match transfer.content {
        Content::Repeated => transfer.bytes.min(REPEATED_BYTES),
        Content::Random | Content::Flags | Content::Headers => transfer.bytes,
    };
    while bytes.len() < drawn_bytes {
        let flag = origin.sequence.wrapping_add(rng.below(40) as u64);
        let flag = if rng.one_in(2) { flag } else { flag << 32 | rng.next() >> 32 };
        match transfer.content {
            Content::Random => bytes.extend_from_slice(&rng.next().to_le_bytes()),
            Content::Flags | Content::Repeated => bytes.extend_from_slice(&flag.to_le_bytes()),
            Content::Headers => {
                let number = origin.transfers.wrapping_add(1 + rng.below(20) as u64);
                let line = wire::chunk(1 + (rng.next() & 2), rng.next(), 8, 8, number, flag);
                for word in line.0 {
                    bytes.extend_from_slice(&word.to_le_bytes());
                }
            }
        }
    }
    while bytes.len() < transfer.bytes {
        bytes.extend_from_within(..drawn_bytes.min(transfer.bytes - bytes.len()));
    }
    bytes.truncate(transfer.bytes);
    bytes
}

impl Flow {
    pub(super) fn new(transfers: &[Transfer], origin: &Origin, holds_back: bool, rng: &mut Rng) -> Self {
        let sent = transfers.iter().enumerate().map(|(index, transfer)| Sent {
            tag: (rng.next() << 16) | index as u64,
            payload: payload(rng, transfer, origin),
            number: None,
            bytes: 0,
            ended: false,
            cancelled: None,
            rejected: None,
            rejection_reported: false,
            received: None,
            complete: false,
        });
        Self { sent: sent.collect(), next: 0, open: None, head: None, seen: 0, at: 0, holds_back }
    }

    pub(super) const fn is_done(&self) -> bool {
        self.next == self.sent.len() && self.open.is_none()
    }
}
