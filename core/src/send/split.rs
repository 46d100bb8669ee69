//! Split messages: the receiver copies the head out of memory that it has mapped, while the sender writes the tail into memory of the receiver. For direct
//! store only. wire.md 4.10.

use super::{NextChunk, Open, Permit, Schedule, Sender, TransferId};
use crate::config::Config;
use crate::fabric::Fabric;
use crate::wire::header::{Header, Length};
use crate::wire::line::LINE_BYTES;

/// Memory of the receiver that a message is written into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SplitOut {
    pub(crate) place: u8,
    /// Offset of the message's first byte.
    pub(crate) offset: u32,
}

/// The rest of a split message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitRest {
    pub(crate) place: u8,
    /// Offset of the next byte in the memory of the receiver.
    pub(crate) at: u64,
    /// Bytes that were not written.
    pub(crate) left: u64,
}

/// Returns the bytes of the head of a message: half of it, in whole lines. Neither end has less than a line to copy: `None`.
pub(crate) const fn head_of(bytes: u64) -> Option<u64> {
    let head = bytes / 2 / LINE_BYTES as u64 * LINE_BYTES as u64;
    if head == 0 { None } else { Some(head) }
}

impl<F: Fabric> Sender<F> {
    /// Returns true if a first chunk, or a last one, may be sent now: both take one block.
    pub(crate) fn may_emit_split(&self, config: &Config, is_last: bool) -> bool {
        self.limit_to_free_blocks(config, 0, is_last) == NextChunk::Bytes(0)
    }

    /// Begins a split message in `source`, a place and an offset. [`may_emit_split`](Self::may_emit_split) has allowed it, and no transfer is open.
    pub(crate) fn emit_split(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        config: &Config,
        (tag, bytes, head): (u64, u64, u64),
        (place, offset): (u8, u32),
        to: SplitOut,
    ) -> TransferId {
        let transfer = self.next_transfer();
        let id = TransferId { number: transfer, generation: self.generation };
        self.generation = self.generation.wrapping_add(1);
        let (place, offset) = (u64::from(place), u64::from(offset));
        let mut line = Header::Split { transfer, tag, bytes, head, place, offset }.line();
        self.marks(1).put_into(&mut line);
        line.0[7] = self.arrival.line_flag(fabric, &line, self.sequence);
        let length = Length::Exact(bytes);
        record!(fabric, link, SendBegin { transfer, length });
        fabric.write_line(link, self.landing.memory, self.landing.layout.line_at(self.at), &line);
        self.transfers = transfer;
        self.open = Some(Open {
            id,
            tag,
            length,
            sent: head,
            schedule: Schedule::new(config, self.window_layout(), length),
            protocol: config.protocol,
            first_chunk: config.first_chunk,
            copies_whole_chunks: config.copies_whole_chunks(),
            rts_sent: true,
            want_cts: false,
            cts_received: false,
            rejected: None,
            remote: None,
            was_remote: false,
            split: Some(to),
            reserved: 0,
            prepared: 0,
            is_prepared_left: false,
            permit: Permit::new(config.protocol),
            in_place: None,
        });
        self.produce(1);
        id
    }

    /// Returns the rest of the open message, if it is split.
    pub(crate) fn split_rest(&self, id: TransferId) -> Option<SplitRest> {
        let open = self.open.as_ref().filter(|open| open.id == id)?;
        let (SplitOut { place, offset }, Length::Exact(length)) = (open.split?, open.length) else {
            return None;
        };
        Some(SplitRest { place, at: u64::from(offset) + open.sent, left: length - open.sent })
    }

    /// Returns the place that the open message is written into, if it is split and was not rejected.
    pub(crate) fn split_place(&self) -> Option<u8> {
        let open = self.open.as_ref().filter(|open| open.rejected.is_none())?;
        open.split.map(|split| split.place)
    }

    /// Returns sequence and block of the next chunk.
    pub(crate) const fn next_block(&self) -> (u64, u64) {
        (self.sequence, self.produced)
    }
}

#[cfg(test)]
mod tests {
    use super::head_of;

    #[test]
    fn a_head_is_half_of_the_message_in_whole_lines() {
        for (bytes, head) in [(0, None), (127, None), (128, Some(64)), (1000, Some(448)), (1024, Some(512))] {
            assert_eq!(head_of(bytes), head, "{bytes}");
        }
        assert_eq!(head_of(u64::from(u32::MAX)), Some((1 << 31) - 64));
    }
}
