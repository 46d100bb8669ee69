//! Readiness: whether a try would find something, or room. For a program that drives many connections, and asks before it calls.

use super::Endpoint;
use crate::error::RefusedSend;
use crate::fabric::Fabric;
use crate::send::{LastChunk, NextChunk, Permit};

impl<F: Fabric> Endpoint<F> {
    /// Returns true if the application can take something: the begin of a transfer, or the next chunk of one that it has begun to take. It may turn out to be cancelled.
    /// Reads a flag of the landing buffer. In the notify mode rounds of [`progress`](Self::progress) have to take the notification first.
    #[must_use]
    pub fn is_readable(&self, fabric: &F) -> bool {
        !self.receiver.is_discarding()
            && self.receiver.next_arrival(fabric, &self.link, self.config.arrival).is_some()
    }

    /// Returns true if the next part of the open transfer can be sent at once, however much of it the caller has at hand, or, if none is open, a message of C0 bytes.
    /// Where the ring holds no such message in one piece ([`RefusedSend::TooLong`]), the longest that it holds. Also if the peer has rejected the open transfer, which the next call reports, and while a message is reserved, which can be committed. Otherwise the next rounds of [`progress`](Self::progress) poll
    /// acknowledgements, and with a larger landing buffer that was asked for the next rounds move to it.
    pub fn is_writable(&mut self, fabric: &mut F) -> bool {
        self.may_send() && (self.has_room() || self.refill(fabric) && self.has_room() || self.lacks_room())
    }

    fn has_room(&mut self) -> bool {
        if self.sender.is_open() {
            // What is prepared goes by itself, once the CTS is here.
            self.sender.is_open_rejected()
                || self.sender.is_building()
                || self.sender.prepared() == 0
                    && self.may_go_on()
                    && matches!(
                        self.sender.next_chunk(
                            &self.config,
                            self.sender.left_for_blocks(),
                            LastChunk::Possible
                        ),
                        NextChunk::Bytes(_)
                    )
        } else {
            self.sender.can_start()
                && match self.sender.split(self.config.c0_bytes) {
                    Err(RefusedSend::TooLong) => self.sender.holds_longest(),
                    split => split.is_ok(),
                }
        }
    }

    /// Returns false while the open transfer waits for a larger landing buffer.
    fn may_go_on(&mut self) -> bool {
        match self.sender.permit() {
            Permit::Given | Permit::Undecided => true,
            Permit::Asked => !self.awaits_larger(),
            Permit::Wanted(_) => !self.growth.as_ref().is_some_and(|growth| growth.requester.is_awaited()),
        }
    }

    /// Has the next rounds poll acknowledgements. Returns false.
    const fn lacks_room(&mut self) -> bool {
        self.wants_ack = true;
        false
    }
}
