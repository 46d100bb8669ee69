//! Sending: complete messages at once. wire.md 3 and 4.

use super::Endpoint;
use crate::error::RefusedSend;
use crate::fabric::Fabric;
use crate::send::{Payload, TransferId};
use crate::slices::{Gather, bytes_of};
use crate::wire::arrival::Arrival;
use crate::wire::header::{INLINE_BYTES_MAX, Length, TWO_LINES_BYTES_MAX};

impl<F: Fabric> Endpoint<F> {
    /// Sends a complete message if there is room: in a line up to 40 bytes, in two up to 104 where slot lines lie apart, else eagerly up to C0.
    ///
    /// # Errors
    /// `NoCredit`: call again after [`progress`](Self::progress). `TooLong`: [`start`](Self::start) it. `Busy`,
    /// `Closed`.
    #[inline]
    pub fn try_send(
        &mut self,
        fabric: &mut F,
        tag: u64,
        slices: &[&[u8]],
    ) -> Result<TransferId, RefusedSend> {
        self.try_send_counted(fabric, tag, slices, bytes_of(slices))
    }

    /// [`try_send`](Self::try_send) of slices whose bytes were counted before, so that a refused attempt does not walk them. Returns
    /// `WrongLength` if they have another number of bytes.
    #[inline]
    pub(crate) fn try_send_counted(
        &mut self,
        fabric: &mut F,
        tag: u64,
        slices: &[&[u8]],
        bytes: usize,
    ) -> Result<TransferId, RefusedSend> {
        if !self.sender.can_start() || !self.may_send() {
            return Err(self.busy_or_closed());
        }
        if bytes > INLINE_BYTES_MAX {
            return self.try_send_eager(fabric, tag, slices, bytes);
        }
        if self.sender.is_full() && (!self.refill(fabric) || !F::DIRECT && self.sender.is_full()) {
            return Err(self.no_credit(fabric));
        }
        if !has_bytes(slices, bytes) {
            return Err(RefusedSend::WrongLength);
        }
        match self.sender.emit_inline(fabric, &mut self.link, tag, slices, bytes) {
            Ok(id) => {
                self.counters.inline_sent += 1;
                record!(fabric, &self.link, LineOut { sequence: self.sender.last(), bytes });
                fabric.ring_doorbell(&mut self.link);
                Ok(id)
            }
            Err(_) => {
                self.counters.sq_full += 1;
                Err(RefusedSend::NoCredit)
            }
        }
    }

    #[inline(never)]
    pub(super) fn try_send_eager(
        &mut self,
        fabric: &mut F,
        tag: u64,
        slices: &[&[u8]],
        bytes: usize,
    ) -> Result<TransferId, RefusedSend> {
        let bytes = u32::try_from(bytes).map_err(|_| RefusedSend::TooLong)?;
        if bytes > self.config.c0_bytes || self.provisions() && self.needs_larger(fabric, slices, bytes) {
            return Err(RefusedSend::TooLong);
        }
        if bytes as usize <= TWO_LINES_BYTES_MAX && self.sender.has_second_lines() {
            return self.try_send_two_lines(fabric, tag, slices, bytes as usize);
        }
        if F::DIRECT
            && self.config.arrival == Arrival::Flag
            && !self.config.triple_buffer
            && let [message] = slices
            && message.len() == bytes as usize
        {
            let mut is_refilled = false;
            loop {
                if let Some(id) = self.try_send_single_chunk(fabric, tag, message) {
                    return Ok(id);
                }
                if is_refilled || !self.refill(fabric) {
                    break;
                }
                is_refilled = true;
            }
            if !self.may_send() {
                return Err(RefusedSend::Closed);
            }
        }
        self.try_send_gathered(fabric, tag, slices, bytes)
    }

    /// Sends a message of 41 to 104 bytes in two lines.
    #[inline]
    fn try_send_two_lines(
        &mut self,
        fabric: &mut F,
        tag: u64,
        slices: &[&[u8]],
        bytes: usize,
    ) -> Result<TransferId, RefusedSend> {
        if self.sender.is_full() && !self.refill(fabric) {
            return Err(self.no_credit(fabric));
        }
        if !has_bytes(slices, bytes) {
            return Err(RefusedSend::WrongLength);
        }
        let mut flat = [0; TWO_LINES_BYTES_MAX];
        let message = match slices {
            [one] => one,
            several => gathered(several, &mut flat),
        };
        let sent = self.sender.emit_two_lines(fabric, &mut self.link, tag, message);
        let id = sent.ok_or(RefusedSend::WrongLength)?;
        self.counters.inline_sent += 1;
        record!(fabric, &self.link, LineOut { sequence: self.sender.last(), bytes });
        fabric.ring_doorbell(&mut self.link);
        Ok(id)
    }

    /// Sends a message of up to C0 that the fast path does not send.
    #[inline(never)]
    fn try_send_gathered(
        &mut self,
        fabric: &mut F,
        tag: u64,
        slices: &[&[u8]],
        bytes: u32,
    ) -> Result<TransferId, RefusedSend> {
        let split = match self.sender.split(bytes) {
            Err(RefusedSend::NoCredit) if self.refill(fabric) => self.sender.split(bytes),
            split => split,
        };
        if split == Err(RefusedSend::NoCredit) {
            return Err(self.no_credit(fabric));
        }
        let (first, rest) = split?;
        let mut gather = Gather::new(slices);
        if gather.remaining() != bytes as usize {
            return Err(RefusedSend::WrongLength);
        }
        let id = self.sender.start(&self.config, tag, Length::Exact(u64::from(bytes)))?;
        self.emit(fabric, Payload::Gathered(&mut gather), first, false);
        if rest > 0 {
            self.emit(fabric, Payload::Gathered(&mut gather), rest, false);
        }
        self.wants_ack |= self.sender.reads_for_timings();
        fabric.ring_doorbell(&mut self.link);
        Ok(id)
    }

    #[inline]
    fn try_send_single_chunk(&mut self, fabric: &mut F, tag: u64, message: &[u8]) -> Option<TransferId> {
        let whole = self.config.copies_whole_chunks();
        let id = self.sender.emit_single_chunk(fabric, &mut self.link, whole, tag, message)?;
        self.counters.chunks_sent += 1;
        self.counters.bytes_sent += message.len() as u64;
        self.wants_ack |= self.sender.reads_for_timings();
        fabric.ring_doorbell(&mut self.link);
        let follows_answer = self.receiver.take_answered();
        self.sender.expect_write(fabric, &mut self.link, message.len(), follows_answer);
        Some(id)
    }

    /// Returns the refusal for lack of credit. The acknowledgement that was just read may have ended the connection.
    fn no_credit(&self, fabric: &mut F) -> RefusedSend {
        record!(fabric, &self.link, NoCredit { sequence: self.sender.last() });
        if self.may_send() { RefusedSend::NoCredit } else { RefusedSend::Closed }
    }

    #[cold]
    const fn busy_or_closed(&self) -> RefusedSend {
        if self.may_send() { RefusedSend::Busy } else { RefusedSend::Closed }
    }
}

/// Returns the bytes of these slices in one piece, as many as there is room for.
fn gathered<'a>(slices: &[&[u8]], flat: &'a mut [u8; TWO_LINES_BYTES_MAX]) -> &'a [u8] {
    let mut bytes = 0;
    for slice in slices {
        let Some(place) = flat.get_mut(bytes..bytes + slice.len()) else { break };
        place.copy_from_slice(slice);
        bytes += slice.len();
    }
    flat.get(..bytes).unwrap_or_default()
}

/// Returns true if the slices have `bytes` bytes together.
#[inline]
fn has_bytes(slices: &[&[u8]], bytes: usize) -> bool {
    planted!(LongSlicesCut => if slices.len() != 1 { return bytes_of(slices) >= bytes; });
    match slices {
        [one] => one.len() == bytes,
        several => bytes_of(several) == bytes,
    }
}
