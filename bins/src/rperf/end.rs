//! One end of the measured messages: its buffers, their contents, and the comparison of what arrives.

use super::buffers::Pool;
use super::contents::Contents;
use super::link::MessageError;
use super::messages::{Memory, Plan, TAG_MESSAGE};
use super::samples::stop_if_asked;
use crate::exit::{Code, Failure};
use crate::protocol::Role;
use crate::signals::Signals;
use crate::timeouts::UNLIMITED;
use superpipe::{Connection, Error, Received};

/// Plan, contents and buffers of one end.
#[derive(Debug)]
pub struct End {
    /// settings of all sizes
    pub plan: Plan,
    /// contents of the messages that this end sends
    pub ours: Contents,
    /// contents of the messages that this end receives
    pub theirs: Contents,
    /// buffers to send from
    pub from: Pool,
    /// buffers to receive into
    pub to: Pool,
    mismatch: Option<Failure>,
}

impl End {
    /// Creates an end for this plan. It corrupts the byte at `flip_at` of what it sends.
    #[must_use]
    pub fn new(role: Role, plan: Plan, flip_at: Option<u64>) -> Self {
        let (client, server) = (Contents::of_client(plan.seed), Contents::of_server(plan.seed));
        let (ours, theirs) = match role {
            Role::Server => (server, client),
            _ => (client, server),
        };
        let source = match plan.memory {
            Memory::Reused => Memory::Reused,
            _ => Memory::Plain,
        };
        let (from, to) = (Pool::empty(source), Pool::empty(plan.memory));
        Self { plan, ours: ours.with_flip(flip_at), theirs, from, to, mismatch: None }
    }

    /// Renews the buffers and fills in the next `messages` messages. The caller does not time this.
    ///
    /// # Errors
    /// Too little memory, or a signal.
    pub fn prepare(&mut self, messages: usize, signals: &Signals) -> Result<(), MessageError> {
        stop_if_asked(signals)?;
        let check_stop = || signals.failure().map_or(Ok(()), Err);
        self.from
            .renew(&check_stop)
            .and_then(|()| self.to.renew(&check_stop))
            .map_err(MessageError::Local)?;
        for buffer in self.from.buffers().iter_mut().take(messages) {
            self.ours.fill(buffer, || stop_if_asked(signals))?;
        }
        Ok(())
    }

    /// Compares the message in a buffer with its expected contents if `is_asked_for`, and keeps the first difference.
    ///
    /// # Errors
    /// A signal.
    pub fn compare(
        &mut self,
        index: usize,
        is_asked_for: bool,
        signals: &Signals,
    ) -> Result<(), MessageError> {
        let message = &self.to.buffers()[index];
        if !is_asked_for {
            self.theirs.skip();
            return Ok(());
        }
        let Some(at) = self.theirs.find_wrong_byte(message, || stop_if_asked(signals))? else {
            return Ok(());
        };
        let number = self.theirs.last_number();
        self.mismatch.get_or_insert_with(|| {
            let bytes = message.len();
            let text = format!(
                "the received data differ from the sent data: message {number} of {bytes} bytes differs from byte {at} on"
            );
            Failure::new(Code::Integrity, text)
        });
        Ok(())
    }

    /// Checks that no comparison so far found a difference.
    ///
    /// # Errors
    /// The first difference, once.
    pub fn check_contents(&mut self) -> Result<(), Failure> {
        self.mismatch.take().map_or(Ok(()), Err)
    }
}

/// Sends a measured message.
///
/// # Errors
/// The error of the library.
#[inline]
pub fn send(connection: &mut Connection, message: &[u8]) -> Result<(), MessageError> {
    connection.send(TAG_MESSAGE, &[message], UNLIMITED).map_err(failed)
}

/// Receives a measured message, which must fill the buffer.
///
/// # Errors
/// The error of the library, or another message than the expected one.
#[inline]
pub fn receive(connection: &mut Connection, buffer: &mut [u8]) -> Result<(), MessageError> {
    let bytes = buffer.len();
    match connection.recv_into(&mut [buffer], UNLIMITED) {
        Ok(Received { tag: TAG_MESSAGE, bytes: all }) if all == bytes => Ok(()),
        Ok(_) => Err(MessageError::Unexpected),
        Err(error) => Err(failed(error)),
    }
}

/// Receives like [`receive`], and tells the library if the memory is cold.
///
/// # Errors
/// As [`receive`].
#[inline]
pub fn receive_into(
    memory: Memory,
    connection: &mut Connection,
    buffer: &mut [u8],
) -> Result<(), MessageError> {
    if memory != Memory::Advised {
        return receive(connection, buffer);
    }
    let bytes = buffer.len();
    match connection.recv_into_cold(&mut [buffer], UNLIMITED) {
        Ok(Received { tag: TAG_MESSAGE, bytes: all }) if all == bytes => Ok(()),
        Ok(_) => Err(MessageError::Unexpected),
        Err(error) => Err(failed(error)),
    }
}

#[cold]
fn failed(error: Error) -> MessageError {
    MessageError::Library(error)
}
