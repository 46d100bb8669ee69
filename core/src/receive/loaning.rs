//! The message at the head becomes a loan, which the application reads in place, and the receiving half goes on behind it.

use super::ahead::{Behind, comes_at_once};
use super::loans::Loaned;
use super::{Chunk, Head, Receiver};
use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::wire::arrival::Arrival;
use crate::wire::header::Length;
use crate::wire::layout::Landing;
use crate::wire::part::{Filled, Part};

/// Result of [`Receiver::take_loan`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum LoanAttempt<M> {
    /// It was taken off the head.
    Taken(Loaned<M>),
    /// A part of it is late.
    Late,
    /// Other calls have to receive it.
    Never,
}

impl<F: Fabric> Receiver<F> {
    /// Takes the message at the head as a loan, if all of it is in blocks that have arrived, and nothing of it was taken.
    pub(crate) fn take_loan(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
    ) -> Result<LoanAttempt<F::Region>, ProtocolError> {
        let (begin, sequence) = (self.consumed, self.sequence);
        let taken = |bytes, parts| Ok(LoanAttempt::Taken(Loaned { bytes, parts, begin, sequence }));
        match self.head {
            Head::Nothing | Head::Cancel(_) | Head::Exposed(_) => Ok(LoanAttempt::Never),
            Head::Inline { offset: 1.., .. } => Ok(LoanAttempt::Never),
            Head::Inline { bytes, .. } => {
                let Landing { memory, layout } = self.landing;
                let part = Part { memory, layout, first: self.at, bytes, filled: Filled::Line };
                self.hide();
                self.finish_inline();
                taken(bytes, [Some(part), None])
            }
            Head::Chunk(mut chunk) => {
                if !self.may_be_loan(&chunk) {
                    return Ok(LoanAttempt::Never);
                }
                let last = chunk.blocks - 1;
                let is_here = self.has_arrived(fabric, link, arrival, &mut chunk, last)?;
                self.head = Head::Chunk(chunk);
                if !is_here {
                    return Ok(LoanAttempt::Late);
                }
                let part = self.part(&chunk);
                if chunk.fin {
                    self.hide();
                    self.pass(chunk);
                    return taken(chunk.bytes, [Some(part), None]);
                }
                // The copy takes the place of this half only if the second chunk is here as well: no part of a message is ever taken.
                match self.behind(fabric, link, arrival, chunk)? {
                    Behind::Late => Ok(LoanAttempt::Late),
                    Behind::Other => Ok(LoanAttempt::Never),
                    Behind::Here { mut ahead, last } => {
                        let tail = ahead.part(&last);
                        ahead.hide();
                        ahead.pass(last);
                        *self = ahead;
                        taken(chunk.bytes + last.bytes, [Some(part), Some(tail)])
                    }
                }
            }
        }
    }

    /// Returns false if the message that this chunk begins will never be in one landing buffer as a whole, or was taken in part.
    fn may_be_loan(&self, chunk: &Chunk) -> bool {
        let Some(open) = &self.open else { return false };
        let layout = self.landing.layout;
        let Length::Exact(length) = open.length else { return false };
        comes_at_once(open, chunk) && length <= u64::from(layout.capacity(layout.block_count))
    }

    /// Returns where the payload of the chunk at the head lies.
    const fn part(&self, chunk: &Chunk) -> Part<F::Region> {
        let Landing { memory, layout } = self.landing;
        let filled = if chunk.left { Filled::Left } else { Filled::Right };
        Part { memory, layout, first: chunk.first, bytes: chunk.bytes, filled }
    }
}
