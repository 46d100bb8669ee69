//! Posting of everything that this end writes by posted writes: chunks, control messages and acknowledgements. In notify
//! mode each write carries a notification, which costs a credit. wire.md 3.2, 3.4.

use super::{Sender, Unposted};
use crate::fabric::{Fabric, SqFull, WrId};
use crate::wire::line::LINE_BYTES;
use crate::wire::notification::Subject;

impl<F: Fabric> Sender<F> {
    /// Posts the line at `at` of an image, which holds `subject`. The write is signaled if there is a `wr`.
    ///
    /// # Errors
    /// [`SqFull`]: the send queue is full, or no credit is left for the notification.
    #[inline]
    pub(crate) fn post_line(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        to: F::Remote,
        at: u32,
        subject: Subject,
        wr: Option<WrId>,
    ) -> Result<(), SqFull> {
        let notification = self.credits.next(subject)?;
        fabric.post_write(link, to, at, LINE_BYTES, wr, notification)?;
        self.credits.count_posted(subject);
        Ok(())
    }

    /// Posts the line of acknowledgements at `at`, whose notification gives credits back.
    ///
    /// # Errors
    /// As [`post_line`](Self::post_line).
    pub(crate) fn post_ack(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        to: F::Remote,
        at: u32,
    ) -> Result<(), SqFull> {
        self.post_line(fabric, link, to, at, Subject::Ack(self.credits.taken()), None)
    }

    /// Posts the chunk that is ready in its image, if there is one. Returns true if it was posted.
    pub(crate) fn post_chunk(&mut self, fabric: &mut F, link: &mut F::Link) -> bool {
        let Some(Unposted { at, bytes, sequence, is_remote_end }) = self.unposted else { return false };
        let subject = Subject::Chunk(sequence);
        let Ok(mut notification) = self.credits.next(subject) else { return false };
        if is_remote_end {
            notification = self.end_notification(sequence, notification);
        }
        let (to, wr) = (self.landing.memory, Some(WrId(sequence)));
        if fabric.post_write(link, to, at, bytes, wr, notification).is_err() {
            return false;
        }
        self.credits.count_posted(subject);
        record!(fabric, link, Post { sequence, bytes });
        self.unposted = self.unposted_behind.take();
        true
    }

    /// Returns true if a chunk waits for room in the send queue, or for a credit.
    pub(crate) const fn has_unposted(&self) -> bool {
        self.unposted.is_some()
    }

    /// Takes the completion of a chunk's write. It completes all chunks that were posted before, too: completions of one queue come in
    /// order, and the next one makes up for one that was lost.
    pub(crate) fn handle_completion(&mut self, wr: WrId) {
        if self.in_flight.iter().any(|chunk| chunk.sequence == wr.0) {
            while self.in_flight.pop_front().is_some_and(|oldest| oldest.sequence != wr.0) {}
        }
    }
}
