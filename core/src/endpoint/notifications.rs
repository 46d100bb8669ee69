//! Notifications of the peer in notify mode. They are taken even if the application does not receive. wire.md 3.4.

use super::Endpoint;
use crate::error::{Failure, ProtocolError};
use crate::fabric::Fabric;
use crate::receive::notifies;
use crate::wire::notification::{Notification, Notified};

impl<F: Fabric> Endpoint<F> {
    /// Takes the peer's notifications, and gives credits back that it may need soon. Returns their number.
    pub(super) fn take_notifications(&mut self, fabric: &mut F) -> usize {
        let mut count = 0;
        while count < self.sender.credits.limit()
            && let Some(notification) = fabric.poll_notification(&mut self.link)
        {
            count += 1;
            if let Err(error) = self.handle_notification(fabric, notification) {
                self.fail(fabric, Failure::Protocol(error));
            }
        }
        if self.sender.credits.owes_half() {
            self.write_ack(fabric);
        }
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// Takes the peer's notifications if the next chunk was not notified yet.
    #[inline]
    pub(super) fn take_awaited_notifications(&mut self, fabric: &mut F) {
        if notifies::<F>(self.config.arrival) && !self.receiver.is_notified() {
            self.take_notifications(fabric);
        }
        if self.receiver.awaits_end() {
            self.take_end_notifications(fabric);
        }
    }

    fn handle_notification(
        &mut self,
        fabric: &mut F,
        notification: Notification,
    ) -> Result<(), ProtocolError> {
        self.activity = self.activity.wrapping_add(1);
        match self.sender.credits.take(notification)? {
            Notified::Chunk(low) => self.receiver.handle_notification(low),
            Notified::Control(low) => self.inbox.handle_notification(low),
            Notified::Ack(low) => {
                self.sender.credits.handle_return(low)?;
                self.read_ack(fabric);
                Ok(())
            }
        }
    }
}
