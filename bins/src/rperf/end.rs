//! One end of the messages that are measured: its buffers, their contents, and the comparing of these.

use super::buffers::Pool;
use super::contents::Contents;
use super::link::Mishap;
use super::messages::{Memory, Plan, TAG_MESSAGE};
use super::samples::stop_if_asked;
use crate::exit::{Code, Failure};
use crate::patience::PATIENCE;
use crate::protocol::Role;
use crate::signals::Signals;
use superpipe::{Connection, Error, Received};

/// Plan, contents and buffers of one end.
#[derive(Debug)]
pub struct End {
    /// settings of all sizes
    pub plan: Plan,
    /// contents that this end sends
    pub ours: Contents,
    /// contents that it receives
    pub theirs: Contents,
    /// buffers that it sends from
    pub from: Pool,
    /// buffers that it receives into
    pub to: Pool,
    wrong: Option<Failure>,
}

impl End {
    /// An end for this plan, with a byte that is to be wrong.
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
        Self { plan, ours: ours.with_flip(flip_at), theirs, from, to, wrong: None }
    }

    /// Gets buffers for so many messages, and makes what is in them: outside of what is timed.
    ///
    /// # Errors
    /// When there is too little memory, or a signal came.
    pub fn prepare(&mut self, messages: usize, signals: &Signals) -> Result<(), Mishap> {
        stop_if_asked(signals)?;
        let look = || signals.failure().map_or(Ok(()), Err);
        self.from.renew(&look).and_then(|()| self.to.renew(&look)).map_err(Mishap::Here)?;
        for buffer in self.from.buffers().iter_mut().take(messages) {
            self.ours.fill(buffer, || stop_if_asked(signals))?;
        }
        Ok(())
    }

    /// Compares what arrived in a buffer with what should have, if that is asked for; the first difference is kept.
    ///
    /// # Errors
    /// When a signal came.
    pub fn compare(&mut self, index: usize, is_asked_for: bool, signals: &Signals) -> Result<(), Mishap> {
        let message = &self.to.buffers()[index];
        if !is_asked_for {
            self.theirs.skip();
            return Ok(());
        }
        let Some(at) = self.theirs.find_wrong_byte(message, || stop_if_asked(signals))? else {
            return Ok(());
        };
        let number = self.theirs.last_number();
        self.wrong.get_or_insert_with(|| {
            let bytes = message.len();
            let text = format!(
                "what arrived is not what was sent: message {number}, of {bytes} bytes, is wrong from byte {at} on"
            );
            Failure::new(Code::Integrity, text)
        });
        Ok(())
    }

    /// Checks that all that was compared so far was right.
    ///
    /// # Errors
    /// The first difference.
    pub fn verdict(&mut self) -> Result<(), Failure> {
        self.wrong.take().map_or(Ok(()), Err)
    }
}

/// Sends a message that is measured.
///
/// # Errors
/// The library's.
#[inline]
pub fn send(connection: &mut Connection, message: &[u8]) -> Result<(), Mishap> {
    connection.send(TAG_MESSAGE, &[message], PATIENCE).map_err(failed)
}

/// Receives one, which must fill the buffer.
///
/// # Errors
/// The library's, or that another message came.
#[inline]
pub fn receive(connection: &mut Connection, buffer: &mut [u8]) -> Result<(), Mishap> {
    let bytes = buffer.len();
    match connection.recv_into(&mut [buffer], PATIENCE) {
        Ok(Received { tag: TAG_MESSAGE, bytes: all }) if all == bytes => Ok(()),
        Ok(_) => Err(Mishap::Odd),
        Err(error) => Err(failed(error)),
    }
}

/// As [`receive`], into memory of this kind.
///
/// # Errors
/// As [`receive`].
#[inline]
pub fn receive_into(memory: Memory, connection: &mut Connection, buffer: &mut [u8]) -> Result<(), Mishap> {
    if memory != Memory::Advised {
        return receive(connection, buffer);
    }
    let bytes = buffer.len();
    match connection.recv_into_cold(&mut [buffer], PATIENCE) {
        Ok(Received { tag: TAG_MESSAGE, bytes: all }) if all == bytes => Ok(()),
        Ok(_) => Err(Mishap::Odd),
        Err(error) => Err(failed(error)),
    }
}

#[cold]
fn failed(error: Error) -> Mishap {
    Mishap::Library(error)
}
