//! Notify mode: what the peer's notifications tell of, taken whether or not the application receives. wire.md 3.4.

use super::Endpoint;
use crate::arrival::Arrival;
use crate::config::Config;
use crate::error::{Failure, ProtocolError};
use crate::fabric::{Fabric, Notice};
use crate::notice::Told;

impl<F: Fabric> Endpoint<F> {
    /// Whether writes are notified; decided where stores go direct when this is compiled.
    #[inline]
    pub(super) fn notifies(config: &Config) -> bool {
        !F::DIRECT && config.arrival == Arrival::Notify
    }

    /// Takes the peer's notifications, and gives the credits back that it may need soon. How many there were.
    pub(super) fn take_notices(&mut self, fabric: &mut F) -> usize {
        let mut count = 0;
        while count < self.notices.limit()
            && let Some(notice) = fabric.poll_notice(&mut self.link)
        {
            count += 1;
            if let Err(error) = self.handle_notice(fabric, notice) {
                self.fail(fabric, Failure::Protocol(error));
            }
        }
        if self.notices.owes_half() {
            self.write_ack(fabric);
        }
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// Takes the peer's notifications if what comes next was not notified yet.
    #[inline]
    pub(super) fn await_notice(&mut self, fabric: &mut F) {
        if Self::notifies(&self.config) && !self.receiver.is_notified() {
            self.take_notices(fabric);
        }
    }

    fn handle_notice(&mut self, fabric: &mut F, notice: Notice) -> Result<(), ProtocolError> {
        self.heard = self.heard.wrapping_add(1);
        match self.notices.take(notice)? {
            Told::Chunk(low) => self.receiver.handle_notice(low),
            Told::Control(low) => self.inbox.handle_notice(low),
            Told::Ack(low) => {
                self.notices.handle_return(low)?;
                self.read_ack(fabric);
                Ok(())
            }
        }
    }
}
