//! One end of the measured messages: its buffers, their contents, and the comparison of what arrives.

use super::buffers::{Buffer, Pool, Registration};
use super::contents::Contents;
use super::link::MessageError;
use super::messages::{Memory, Plan, TAG_END, TAG_MESSAGE};
use super::samples::stop_if_asked;
use crate::exit::{Code, Failure};
use crate::protocol::Role;
use crate::signals::Signals;
use crate::timeouts::UNLIMITED;
use core::time::Duration;
use superpipe::{Connection, Error, ErrorKind, Received};

/// Limit on the time in which the peer maps a buffer: hundreds of times as long as it takes.
const REGISTER_TIMEOUT: Duration = Duration::from_millis(500);

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
    /// messages go out of registered buffers
    pub is_registered: bool,
    /// longest wait for the peer in a call that cannot go on without it
    pub patience: Duration,
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
        Self {
            plan,
            ours: ours.with_flip(flip_at),
            theirs,
            from,
            to,
            is_registered: false,
            patience: UNLIMITED,
            mismatch: None,
        }
    }

    /// Sets whether messages go out of registered buffers, and come into them unless each gets new memory. With `is_trusted` the peer may
    /// write the buffers that they come into.
    pub fn use_registered(&mut self, is_registered: bool, is_trusted: bool) {
        self.is_registered = is_registered;
        let [from, to] = match (is_registered, is_trusted) {
            (false, _) => [Registration::None; 2],
            (true, false) => [Registration::Registered; 2],
            (true, true) => [Registration::Registered, Registration::Trusted],
        };
        self.from.set_registration(from);
        self.to.set_registration(if self.plan.memory == Memory::Reused { to } else { Registration::None });
    }

    /// Sets the memory node of buffers that superpipe makes: that of the connection's own memory.
    pub fn use_node(&mut self, node: Option<u32>) {
        self.from.set_node(node);
        self.to.set_node(node);
    }

    /// Gives back the memory of the buffers.
    pub fn release(&mut self) {
        self.from.release();
        self.to.release();
    }

    /// Renews the buffers and fills in the next `messages` messages, once the peer has taken those before out of registered buffers. The
    /// caller does not time this.
    ///
    /// # Errors
    /// Too little memory, a signal, or the error of the library.
    pub fn prepare(
        &mut self,
        connection: &mut Connection,
        signals: &Signals,
        messages: usize,
    ) -> Result<(), MessageError> {
        stop_if_asked(signals)?;
        let check_stop = || signals.failure().map_or(Ok(()), Err);
        self.from
            .renew(&check_stop)
            .and_then(|()| self.to.renew(&check_stop))
            .map_err(MessageError::Local)?;
        for buffer in self.from.buffers().iter_mut().take(messages) {
            await_taken(connection, buffer, self.patience)?;
            self.ours.fill(buffer.memory(), || stop_if_asked(signals))?;
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
        if !is_asked_for {
            self.theirs.skip();
            return Ok(());
        }
        let message = self.to.buffers()[index].message();
        let Some(at) = self.theirs.find_wrong_byte(&message, || stop_if_asked(signals))? else {
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
pub fn send(connection: &mut Connection, message: &Buffer) -> Result<(), MessageError> {
    send_within(connection, message, UNLIMITED)
}

/// Sends like [`send`], within a time.
///
/// # Errors
/// As [`send`].
#[inline]
pub fn send_within(
    connection: &mut Connection,
    message: &Buffer,
    patience: Duration,
) -> Result<(), MessageError> {
    match message {
        Buffer::Registered(buffer) => {
            connection.send_registered(TAG_MESSAGE, buffer, 0..buffer.len(), patience).map_err(failed)
        }
        Buffer::Plain { .. } | Buffer::Superpipe(_) | Buffer::Trusted(_) => {
            connection.send(TAG_MESSAGE, &[&message.message()], patience).map_err(failed)
        }
    }
}

/// Writes a message into a registered buffer, once the peer has taken the one before, as a program does that sends out of two buffers in
/// turn. A buffer of another kind stays as it is.
///
/// # Errors
/// The error of the library.
#[inline]
pub fn write_anew(connection: &mut Connection, message: &mut Buffer) -> Result<(), MessageError> {
    await_taken(connection, message, UNLIMITED)?;
    if let Buffer::Registered(buffer) = message {
        let next = buffer.first().map_or(0, |byte| byte.wrapping_add(1));
        buffer.fill(next);
    }
    Ok(())
}

/// Waits until the peer has taken the last message out of a registered buffer.
///
/// # Errors
/// The error of the library.
#[inline]
fn await_taken(
    connection: &mut Connection,
    message: &Buffer,
    patience: Duration,
) -> Result<(), MessageError> {
    match message {
        Buffer::Registered(buffer) => connection.wait_unshared(buffer, patience).map_err(failed),
        Buffer::Plain { .. } | Buffer::Superpipe(_) | Buffer::Trusted(_) => Ok(()),
    }
}

/// Registers buffers with a connection. A refusal shows in the results. The peer may have registered its own already and wait elsewhere, so that
/// it maps none until its next message: then the messages before go through the ring.
///
/// # Errors
/// The error of the library.
pub fn register(connection: &mut Connection, buffers: &[Buffer]) -> Result<(), MessageError> {
    for buffer in buffers {
        if let Buffer::Registered(buffer) = buffer {
            match connection.register(buffer, REGISTER_TIMEOUT) {
                Err(error) if error.kind() != ErrorKind::Timeout => return Err(failed(error)),
                Ok(_) | Err(_) => {}
            }
        }
    }
    Ok(())
}

/// Offers a buffer that the peer may write for the next message. A buffer of another kind stays as it is.
///
/// # Errors
/// The error of the library.
#[inline]
pub fn offer(connection: &mut Connection, buffer: &mut Buffer) -> Result<(), MessageError> {
    match buffer {
        Buffer::Trusted(buffer) => connection.offer(buffer).map(drop).map_err(failed),
        Buffer::Plain { .. } | Buffer::Superpipe(_) | Buffer::Registered(_) => Ok(()),
    }
}

/// Receives a measured message, which must fill the buffer.
///
/// # Errors
/// The error of the library, or another message than the expected one.
#[inline]
pub fn receive(connection: &mut Connection, buffer: &mut Buffer) -> Result<(), MessageError> {
    receive_within(connection, buffer, UNLIMITED)
}

#[inline]
fn receive_within(
    connection: &mut Connection,
    buffer: &mut Buffer,
    patience: Duration,
) -> Result<(), MessageError> {
    let bytes = buffer.message_bytes();
    let received = match buffer {
        Buffer::Registered(buffer) => connection.recv_registered(buffer, patience),
        Buffer::Trusted(buffer) => connection.recv_trusted(buffer, patience),
        Buffer::Plain { .. } | Buffer::Superpipe(_) => connection.recv_into(&mut [buffer.memory()], patience),
    };
    check(received.map_err(failed)?, bytes)
}

/// Receives like [`receive`], and tells the library if the memory is cold.
///
/// # Errors
/// As [`receive`].
#[inline]
pub fn receive_into(
    memory: Memory,
    connection: &mut Connection,
    buffer: &mut Buffer,
) -> Result<(), MessageError> {
    receive_into_within(memory, connection, buffer, UNLIMITED)
}

/// Receives like [`receive_into`], within a time.
///
/// # Errors
/// As [`receive`].
#[inline]
pub fn receive_into_within(
    memory: Memory,
    connection: &mut Connection,
    buffer: &mut Buffer,
    patience: Duration,
) -> Result<(), MessageError> {
    if memory != Memory::Advised {
        return receive_within(connection, buffer, patience);
    }
    let bytes = buffer.message_bytes();
    check(connection.recv_into_cold(&mut [buffer.memory()], patience).map_err(failed)?, bytes)
}

/// Sends END: no message of this run follows.
///
/// # Errors
/// The error of the library.
pub fn send_end(connection: &mut Connection) -> Result<(), MessageError> {
    connection.send(TAG_END, &[], UNLIMITED).map_err(failed)
}

/// Checks that a message of the run was received, which has as many bytes.
///
/// # Errors
/// It is another one.
#[inline]
pub fn check(received: Received, bytes: usize) -> Result<(), MessageError> {
    match received {
        Received { tag: TAG_MESSAGE, bytes: all } if all == bytes => Ok(()),
        _ => Err(MessageError::Unexpected),
    }
}

#[cold]
fn failed(error: Error) -> MessageError {
    MessageError::Library(error)
}
