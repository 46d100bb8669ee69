//! Second encoding of the wire format, written from wire.md and not from core's code. For tests that play the peer, honest or
//! hostile.

use superpipe_core::{Line, control_page};

use crate::crc32c;

/// Bits of a chunk header's word 0 (wire.md 3.2).
pub mod kind {
    /// First chunk of a transfer.
    pub const RTS: u64 = 1;
    /// Last chunk of a transfer.
    pub const FIN: u64 = 2;
    /// An inline message.
    pub const INLINE: u64 = 4;
    /// The length is unknown.
    pub const STREAM: u64 = 8;
    /// The sender waits for a CTS.
    pub const WANT_CTS: u64 = 16;
    /// The receiver copies the transfer out as a whole.
    pub const WHOLE: u64 = 32;
    /// The chunk is filled from the left.
    pub const LEFT: u64 = 64;
    /// Ends its transfer before it is complete.
    pub const CANCEL: u64 = 128;
    /// The payload of the transfer comes by remote writes.
    pub const REMOTE: u64 = 1 << 16;
    /// The next chunk starts in block 0.
    pub const LAP: u64 = 1 << 17;
    /// The sender wishes to know what the copy out of the first block takes.
    pub const TIMED: u64 = 1 << 18;
}

/// Returns a slot line of a chunk. The fields are in the order of the words.
#[must_use]
pub const fn chunk(bits: u64, tag: u64, length: u64, bytes: u64, transfer: u64, flag: u64) -> Line {
    Line([bits, tag, length, bytes, transfer, 0, 0, flag])
}

/// Returns a slot line with an inline message of at most 40 bytes.
#[must_use]
pub fn inline(tag: u64, payload: &[u8], flag: u64) -> Line {
    let mut bytes = [0; 40];
    bytes[..payload.len()].copy_from_slice(payload);
    let mut line = Line([0; 8]);
    line.0[0] = kind::RTS | kind::FIN | kind::INLINE | (payload.len() as u64) << 8;
    line.0[1] = tag;
    for (word, eight) in line.0[2..7].iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*eight);
    }
    line.0[7] = flag;
    line
}

/// Returns CTS (wire.md 5.1).
#[must_use]
pub const fn cts(transfer: u64, flag: u64) -> Line {
    Line([1, transfer, 0, 0, 0, 0, 0, flag])
}

/// Returns a slot line that cancels a transfer (wire.md 4.4).
#[must_use]
pub const fn cancel(transfer: u64, reason: u64, flag: u64) -> Line {
    chunk(kind::CANCEL, reason, 0, 0, transfer, flag)
}

/// Returns REJECT (wire.md 5.2).
#[must_use]
pub const fn reject(transfer: u64, reason: u64, flag: u64) -> Line {
    Line([2, transfer, 0, reason, 0, 0, 0, flag])
}

/// Returns CLOSE (wire.md 5.3).
#[must_use]
pub const fn close(last: u64, reason: u64, flag: u64) -> Line {
    Line([3, 0, last, reason, 0, 0, 0, flag])
}

/// Returns the acknowledgement line (wire.md 2.2) with plain flags.
#[must_use]
pub const fn ack(blocks: u64, controls: u64, keepalives: u64) -> Line {
    Line([blocks, !blocks, controls, !controls, keepalives, !keepalives, 0, 0])
}

/// Returns the line with the checked flag of a line without blocks (wire.md 3.1).
#[must_use]
pub fn checked(mut line: Line, sequence: u64) -> Line {
    let crc = crc32c(&sequence.to_le_bytes(), !0);
    let crc = crc32c(&0u32.to_le_bytes(), crc);
    line.0[7] = sequence << 32 | u64::from(crc32c(&line.body_bytes(), crc));
    line
}

/// Returns the offset of control line `slot`, counted from 0, in the control page.
#[must_use]
pub const fn mailbox(slot: u32) -> u32 {
    control_page::MAILBOX + slot % control_page::MAILBOX_SLOTS * 64
}
