//! One end of the messages that are measured: its buffers, their contents, and the comparing of these.

use super::buffers::Pool;
use super::clock::Usage;
use super::contents::Contents;
use super::link::{Link, Mishap};
use super::messages::{Memory, Plan, TAG_MESSAGE};
use super::runs::{Pattern, Run};
use super::samples::{Samples, stop_if_asked};
use super::{latency, stream};
use crate::exit::{Code, Failure};
use crate::protocol::Role;
use crate::session::PATIENCE;
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

    /// Does this end's part of a run. Returns the nanoseconds that its thread ran, and that went by, from when its buffers are there
    /// to its last message.
    ///
    /// # Errors
    /// When the messages do not come or go, there is no memory for them, or a signal came.
    pub fn perform(
        &mut self,
        link: &mut Link<'_>,
        run: &Run,
        samples: &mut Samples,
    ) -> Result<(u64, u64), Mishap> {
        let is_client = link.session.role == Role::Client;
        let with_care = run.pattern == Pattern::Check || self.plan.is_with_care();
        let count = if with_care && run.pattern == Pattern::Stream { stream::window(run.bytes) } else { 1 };
        let bytes = usize::try_from(run.bytes).unwrap_or(usize::MAX);
        let (from, to) = match (run.pattern, is_client) {
            (Pattern::Check | Pattern::Pingpong, _) => (1, 1),
            (Pattern::Stream, true) => (count, 0),
            (Pattern::Stream, false) => (0, count),
        };
        let look = || link.session.signals.failure().map_or(Ok(()), Err);
        let provided = self.from.provide(bytes, from, &look).and_then(|()| self.to.provide(bytes, to, &look));
        provided.map_err(Mishap::Here)?;
        let usage = Usage::begin();
        match (run.pattern, is_client, with_care) {
            (Pattern::Check | Pattern::Pingpong, true, false) => latency::ping(self, link, run, samples),
            (Pattern::Check | Pattern::Pingpong, true, true) => {
                latency::ping_with_care(self, link, run, samples)
            }
            (Pattern::Check | Pattern::Pingpong, false, false) => latency::pong(self, link, run),
            (Pattern::Check | Pattern::Pingpong, false, true) => latency::pong_with_care(self, link, run),
            (Pattern::Stream, true, false) => stream::source(self, link, run),
            (Pattern::Stream, true, true) => stream::source_with_care(self, link, run),
            (Pattern::Stream, false, false) => stream::sink(self, link, run, samples),
            (Pattern::Stream, false, true) => stream::sink_with_care(self, link, run, samples),
        }?;
        Ok(usage.since())
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
