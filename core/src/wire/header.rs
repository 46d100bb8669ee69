//! The chunk header, in the slot line of the chunk's first block. A message of at most 40 bytes is in the header itself, and one of at most 104 may be in
//! the header and in the line behind it. wire.md 3.2.
//!
//! ```text
//! word   chunk                                      message in the line (INLINE), or its first 40 bytes
//!  0     kind bits, REMOTE, marks                   kind bits | inline_bytes (8) | marks
//!  1     tag (RTS), reason (CANCEL), else 0         tag
//!  2     length (RTS of a message), else 0          payload
//!  3     payload bytes of the chunk; bytes of the   payload
//!        head of a split message (RTS and REMOTE)
//!  4     transfer                                   payload
//!  5, 6  0; place and offset of a message in        payload
//!        memory (RTS and REMOTE, with or without
//!        FIN)
//!  7     flag                                       flag
//! ```

use crate::error::{ProtocolError, Reason};
use crate::wire::line::{BODY_WORDS, LINE_BYTES, Line};
use crate::wire::marks::{ENDS_LAP, MARKS, TIMED};

/// Payload bytes of a message that travels in its slot line.
pub const INLINE_BYTES_MAX: usize = 40;

/// Payload bytes of a message that travels in its slot line and in the line behind it: with direct store, plain flags, and slot lines that lie apart.
pub const TWO_LINES_BYTES_MAX: usize = INLINE_BYTES_MAX + LINE_BYTES as usize;

/// Offset of that payload in the line.
pub(crate) const INLINE_PAYLOAD_AT: u32 = 16;

const RTS: u64 = 1;
const FIN: u64 = 1 << 1;
const INLINE: u64 = 1 << 2;
const STREAM: u64 = 1 << 3;
const WANT_CTS: u64 = 1 << 4;
const WHOLE: u64 = 1 << 5;
const LEFT: u64 = 1 << 6;
const CANCEL: u64 = 1 << 7;
/// The payload of the transfer does not travel in blocks.
const REMOTE: u64 = 1 << 16;
const KINDS: u64 = 0xff;
const INLINE_BYTES_SHIFT: u32 = 8;

/// Length of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// A message of this number of bytes.
    Exact(u64),
    /// A stream, whose length is known when it ends.
    Stream,
}

/// The first words of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rts {
    pub(crate) tag: u64,
    pub(crate) length: Length,
    /// Only the first C0 bytes come before a CTS.
    pub(crate) want_cts: bool,
}

/// A header that passed all checks that need no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// A whole message in the line, or in it and the line behind it.
    #[non_exhaustive]
    Inline {
        /// The sender's tag.
        tag: u64,
        /// Payload bytes, at most [`TWO_LINES_BYTES_MAX`].
        bytes: u8,
        /// The first [`INLINE_BYTES_MAX`] bytes of the payload, in words.
        payload: [u64; 5],
    },
    /// A chunk.
    #[non_exhaustive]
    Chunk {
        /// The transfer that it belongs to.
        transfer: u64,
        /// Payload bytes.
        bytes: u32,
        /// The last of its transfer.
        fin: bool,
        /// Filled from the left, the last block short.
        left: bool,
        /// Copied out only once all of its blocks are there: the copy and pipeline protocols of the papers.
        whole: bool,
        /// The payload of its transfer comes by remote writes.
        remote: bool,
        #[doc(hidden)]
        rts: Option<RtsFields>,
    },
    /// A whole message in memory that the receiver has mapped.
    #[non_exhaustive]
    Exposed {
        /// The transfer that it is.
        transfer: u64,
        /// The sender's tag.
        tag: u64,
        /// Bytes of the message.
        bytes: u64,
        /// Place of the memory.
        place: u64,
        /// First byte in the memory.
        offset: u64,
    },
    /// The first chunk of a message whose head is in memory that the receiver has mapped, and whose tail the sender writes into memory of the
    /// receiver.
    #[non_exhaustive]
    Split {
        /// The transfer that it begins.
        transfer: u64,
        /// The sender's tag.
        tag: u64,
        /// Bytes of the message.
        bytes: u64,
        /// Bytes of the head.
        head: u64,
        /// Place of the memory.
        place: u64,
        /// First byte in the memory.
        offset: u64,
    },
    /// A chunk without payload that ends its transfer incomplete.
    #[non_exhaustive]
    Cancel {
        /// The transfer that it ends.
        transfer: u64,
        /// The sender's reason.
        reason: Reason,
    },
}

/// The RTS fields of a transfer's first chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtsFields(pub(crate) Rts);

impl Header {
    /// Returns true for a chunk with payload, whose copy out of its first block can be timed.
    pub(crate) const fn may_be_timed(&self) -> bool {
        matches!(self, Self::Chunk { bytes: 1.., .. })
    }

    /// A line without its flag.
    #[inline]
    pub(crate) fn line(&self) -> Line {
        let mut words = [0; BODY_WORDS + 1];
        match *self {
            Self::Inline { tag, bytes, payload } => {
                words[0] = RTS | FIN | INLINE | u64::from(bytes) << INLINE_BYTES_SHIFT;
                words[1] = tag;
                words[2..BODY_WORDS].copy_from_slice(&payload);
            }
            Self::Chunk { transfer, bytes, fin, left, whole, remote, rts } => {
                words[0] = bit(fin, FIN) | bit(left, LEFT) | bit(whole, WHOLE) | bit(remote, REMOTE);
                if let Some(RtsFields(rts)) = rts {
                    words[0] |= RTS | bit(rts.want_cts, WANT_CTS);
                    words[1] = rts.tag;
                    match rts.length {
                        Length::Exact(length) => words[2] = length,
                        Length::Stream => words[0] |= STREAM,
                    }
                }
                words[3] = u64::from(bytes);
                words[4] = transfer;
            }
            Self::Exposed { transfer, tag, bytes, place, offset } => {
                words[..BODY_WORDS].copy_from_slice(&[
                    RTS | FIN | REMOTE,
                    tag,
                    bytes,
                    0,
                    transfer,
                    place,
                    offset,
                ]);
            }
            Self::Split { transfer, tag, bytes, head, place, offset } => {
                words[..BODY_WORDS].copy_from_slice(&[
                    RTS | REMOTE,
                    tag,
                    bytes,
                    head,
                    transfer,
                    place,
                    offset,
                ]);
            }
            Self::Cancel { transfer, reason } => {
                words[0] = CANCEL;
                words[1] = u64::from(reason.0);
                words[4] = transfer;
            }
        }
        Line(words)
    }

    /// Returns tag, length and payload of an inline message; `None` for anything else, invalid headers included. It may end a lap with direct
    /// store.
    #[inline]
    pub(crate) fn plain_inline(line: &Line, is_direct: bool) -> Option<(u64, usize, [u64; 5])> {
        let (tag, bytes, payload) = Self::inline_fields(line, if is_direct { ENDS_LAP } else { 0 })?;
        (bytes <= INLINE_BYTES_MAX as u64).then_some((tag, usize::from(bytes.to_le_bytes()[0]), payload))
    }

    /// Returns tag, length and the first words of the payload of a message in two lines, which may end a lap; `None` for anything else, invalid headers
    /// included.
    #[inline]
    pub(crate) fn plain_two_lines(line: &Line) -> Option<(u64, usize, [u64; 5])> {
        let (tag, bytes, payload) = Self::inline_fields(line, ENDS_LAP)?;
        let is_here = bytes > INLINE_BYTES_MAX as u64 && bytes <= TWO_LINES_BYTES_MAX as u64;
        is_here.then_some((tag, usize::from(bytes.to_le_bytes()[0]), payload))
    }

    /// Returns tag, length and payload words of an inline message with no bits but these marks, whatever its length.
    #[inline]
    fn inline_fields(line: &Line, marks: u64) -> Option<(u64, u64, [u64; 5])> {
        let [head, tag, payload @ .., _] = line.0;
        let bytes = (head & !marks) >> INLINE_BYTES_SHIFT;
        (head & KINDS == RTS | FIN | INLINE).then_some((tag, bytes, payload))
    }

    /// Returns tag, length and left alignment of a single chunk: a message in one chunk, which is the transfer of this number and
    /// asks for no CTS. `None` for anything else, invalid headers included. It may have marks with direct store.
    #[inline]
    pub(crate) fn plain_message(line: &Line, transfer: u64, is_direct: bool) -> Option<(u64, u32, bool)> {
        let [head, tag, length, bytes, its, r5, r6, _] = line.0;
        let is_timed = head & TIMED != 0;
        let marks = if is_direct { MARKS } else { 0 };
        let plain = head & !(LEFT | marks) == RTS | FIN
            && (bytes > 0 || !is_timed)
            && length == bytes
            && its == transfer
            && r5 | r6 == 0;
        let bytes = u32::try_from(bytes).ok()?;
        plain.then_some((tag, bytes, head & LEFT != 0))
    }

    /// Reads a line that was copied out of memory which the peer can write. Its marks are no part of the header.
    ///
    /// # Errors
    /// The rule of wire.md 3.2 that it breaks.
    #[inline]
    pub fn parse(line: &Line) -> Result<Self, ProtocolError> {
        let [head, tag, length, bytes, transfer, r5, r6, _] = line.0;
        let head = head & !MARKS;
        let inline_bytes = head >> INLINE_BYTES_SHIFT;
        if head & INLINE != 0 {
            if head & KINDS != RTS | FIN | INLINE {
                return Err(ProtocolError::HeaderKinds);
            }
            if inline_bytes > TWO_LINES_BYTES_MAX as u64 {
                return Err(ProtocolError::InlineTooLong);
            }
            let [_, _, payload @ .., _] = line.0;
            return Ok(Self::Inline { tag, bytes: inline_bytes.to_le_bytes()[0], payload });
        }
        if head & CANCEL != 0 {
            return Self::parse_cancel(line);
        }
        let is_rts = head & RTS != 0;
        let stream = head & STREAM != 0;
        let remote = head & REMOTE != 0;
        if remote && is_rts && (head & FIN != 0 || head & WANT_CTS == 0) {
            return Self::parse_exposed(line);
        }
        let rts_only = STREAM | WANT_CTS;
        if head & !(KINDS | REMOTE) != 0
            || remote && bytes != 0
            || r5 | r6 != 0
            || (!is_rts && (tag | length) != 0)
            || (stream && length != 0)
        {
            return Err(ProtocolError::ReservedNotZero);
        }
        if !is_rts && head & rts_only != 0 || remote && !is_remote(head) {
            return Err(ProtocolError::HeaderKinds);
        }
        let Ok(bytes) = u32::try_from(bytes) else { return Err(ProtocolError::ChunkTooLong) };
        let rts = is_rts.then_some(RtsFields(Rts {
            tag,
            length: if stream { Length::Stream } else { Length::Exact(length) },
            want_cts: head & WANT_CTS != 0,
        }));
        Ok(Self::Chunk {
            transfer,
            bytes,
            fin: head & FIN != 0,
            left: head & LEFT != 0,
            whole: head & WHOLE != 0,
            remote,
            rts,
        })
    }

    #[cold]
    const fn parse_exposed(line: &Line) -> Result<Self, ProtocolError> {
        let [kinds, tag, bytes, head, transfer, place, offset, _] = line.0;
        let kinds = kinds & !MARKS;
        let is_whole = kinds & FIN != 0;
        if kinds & !(KINDS | REMOTE) != 0 || is_whole && head != 0 {
            return Err(ProtocolError::ReservedNotZero);
        }
        if kinds & KINDS & !FIN != RTS {
            return Err(ProtocolError::HeaderKinds);
        }
        Ok(if is_whole {
            Self::Exposed { transfer, tag, bytes, place, offset }
        } else {
            Self::Split { transfer, tag, bytes, head, place, offset }
        })
    }

    #[cold]
    fn parse_cancel(line: &Line) -> Result<Self, ProtocolError> {
        let [head, reason, length, bytes, transfer, r5, r6, _] = line.0;
        let head = head & !MARKS;
        if head & KINDS != CANCEL {
            return Err(ProtocolError::HeaderKinds);
        }
        match u32::try_from(reason) {
            Ok(reason) if head & !KINDS | length | bytes | r5 | r6 == 0 => {
                Ok(Self::Cancel { transfer, reason: Reason(reason) })
            }
            _ => Err(ProtocolError::ReservedNotZero),
        }
    }
}

/// Returns true if kind bits with REMOTE are those of a first or a last chunk.
const fn is_remote(head: u64) -> bool {
    let kinds = head & KINDS & !LEFT;
    kinds == RTS | WANT_CTS || kinds == FIN
}

#[inline]
const fn bit(set: bool, mask: u64) -> u64 {
    if set { mask } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(rts: Option<Rts>) -> Header {
        Header::Chunk {
            transfer: 7,
            bytes: 4000,
            fin: true,
            left: false,
            whole: true,
            remote: false,
            rts: rts.map(RtsFields),
        }
    }

    #[test]
    fn headers_survive_the_line() {
        let rts = |length| Rts { tag: u64::MAX, length, want_cts: true };
        let cancel = Header::Cancel { transfer: 7, reason: Reason(u32::MAX) };
        let inline = Header::Inline { tag: 3, bytes: 40, payload: [1, 2, 3, 4, u64::MAX] };
        let [message, stream] = [Length::Exact(9), Length::Stream].map(|length| chunk(Some(rts(length))));
        for header in [inline, chunk(None), message, stream, cancel] {
            assert_eq!(Header::parse(&header.line()), Ok(header));
        }
    }

    #[test]
    fn each_broken_rule_has_its_name() {
        let broken = |header: Header, word: usize, value: u64| {
            let mut line = header.line();
            line.0[word] ^= value;
            Header::parse(&line)
        };
        let two_lines = Header::Inline { tag: 3, bytes: 104, payload: [0; 5] };
        assert_eq!(broken(two_lines, 0, 1 << 8), Err(ProtocolError::InlineTooLong));
        let inline = Header::Inline { tag: 3, bytes: 40, payload: [0; 5] };
        assert_eq!(broken(inline, 0, 1 << 15), Err(ProtocolError::InlineTooLong));
        assert_eq!(broken(inline, 0, 1 << 63), Err(ProtocolError::InlineTooLong));
        assert_eq!(broken(inline, 0, FIN), Err(ProtocolError::HeaderKinds));
        assert_eq!(broken(inline, 0, STREAM), Err(ProtocolError::HeaderKinds));
        assert_eq!(broken(inline, 0, CANCEL), Err(ProtocolError::HeaderKinds));
        let cancel = Header::Cancel { transfer: 7, reason: Reason(5) };
        for kind in [RTS, FIN, STREAM, WANT_CTS, WHOLE, LEFT, INLINE] {
            assert_eq!(broken(cancel, 0, kind), Err(ProtocolError::HeaderKinds));
        }
        for (word, value) in [(0, 1 << 8), (1, 1 << 32), (2, 1), (3, 1), (5, 1), (6, 1)] {
            assert_eq!(broken(cancel, word, value), Err(ProtocolError::ReservedNotZero));
        }
        for word in [5, 6, 1, 2] {
            assert_eq!(broken(chunk(None), word, 1), Err(ProtocolError::ReservedNotZero));
        }
        assert_eq!(broken(chunk(None), 0, 1 << 8), Err(ProtocolError::ReservedNotZero));
        assert_eq!(broken(chunk(None), 0, WANT_CTS), Err(ProtocolError::HeaderKinds));
        assert_eq!(broken(chunk(None), 3, 1 << 32), Err(ProtocolError::ChunkTooLong));
    }

    fn remote(fin: bool, rts: Option<Rts>) -> Header {
        let rts = rts.map(RtsFields);
        Header::Chunk { transfer: 7, bytes: 0, fin, left: true, whole: false, remote: true, rts }
    }

    #[test]
    fn remote_goes_with_the_first_the_last_or_the_only_chunk() {
        let rts = Rts { tag: 9, length: Length::Exact(1 << 40), want_cts: true };
        let (first, last) = (remote(false, Some(rts)), remote(true, None));
        for header in [first, last] {
            assert_eq!(Header::parse(&header.line()), Ok(header));
            for (kind, error) in [
                (WHOLE, ProtocolError::HeaderKinds),
                (RTS, ProtocolError::HeaderKinds),
                (FIN, ProtocolError::HeaderKinds),
                (WANT_CTS, ProtocolError::HeaderKinds),
                (1 << 8, ProtocolError::ReservedNotZero),
                (1 << 19, ProtocolError::ReservedNotZero),
            ] {
                let mut line = header.line();
                line.0[0] ^= kind;
                let parsed = Header::parse(&line);
                // Without RTS the tag of a first chunk is a reserved word.
                let reserved = Err(ProtocolError::ReservedNotZero);
                assert!(parsed == Err(error) || kind == RTS && parsed == reserved, "{header:?} {kind:#x}");
            }
            let mut line = header.line();
            line.0[3] = 1;
            assert_eq!(Header::parse(&line), Err(ProtocolError::ReservedNotZero), "payload");
        }
        let named = Header::Exposed { transfer: 7, tag: 9, bytes: 1 << 20, place: 7, offset: 3 };
        assert_eq!(Header::parse(&named.line()), Ok(named));
        assert_eq!(Header::plain_message(&named.line(), 7, true), None);
        for kind in [WHOLE, LEFT, WANT_CTS, STREAM] {
            let mut line = named.line();
            line.0[0] |= kind;
            assert_eq!(Header::parse(&line), Err(ProtocolError::HeaderKinds), "{kind:#x}");
        }
        for (word, bit) in [(0, 1 << 19), (3, 1)] {
            let mut line = named.line();
            line.0[word] |= bit;
            assert_eq!(Header::parse(&line), Err(ProtocolError::ReservedNotZero), "{word}");
        }
        let split = Header::Split { transfer: 7, tag: 9, bytes: 1 << 20, head: 1 << 19, place: 7, offset: 3 };
        assert_eq!(Header::parse(&split.line()), Ok(split));
        assert_eq!(Header::plain_message(&split.line(), 7, true), None);
        for kind in [WHOLE, LEFT, STREAM] {
            let mut line = split.line();
            line.0[0] |= kind;
            assert_eq!(Header::parse(&line), Err(ProtocolError::HeaderKinds), "{kind:#x}");
        }
        for (kind, why) in [(WANT_CTS, "a claim is wanted"), (FIN, "the whole message is named")] {
            let mut line = split.line();
            line.0[0] |= kind;
            assert_eq!(Header::parse(&line), Err(ProtocolError::ReservedNotZero), "{why}");
        }
        let stream = remote(false, Some(Rts { length: Length::Stream, ..rts }));
        assert_eq!(Header::parse(&stream.line()), Err(ProtocolError::HeaderKinds));
        let inline = Header::Inline { tag: 3, bytes: 8, payload: [0; 5] };
        let mut line = inline.line();
        line.0[0] |= REMOTE;
        assert_eq!(Header::parse(&line), Err(ProtocolError::InlineTooLong));
        assert_eq!(Header::plain_inline(&line, true), None);
    }
}
