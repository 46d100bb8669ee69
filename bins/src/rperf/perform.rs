//! The client's part of a run, and the buffers of both ends.

use super::clock::CpuUsage;
use super::end::{End, register};
use super::link::{Link, MessageError};
use super::runs::{Pattern, Run};
use super::samples::Samples;
use super::{latency, stream};
use crate::connection::session::Session;
use crate::protocol::Role;
use superpipe::{Connection, Protocol};

impl End {
    /// Performs the client's part of a run over one connection. Returns CPU time and elapsed time of its thread in nanoseconds, from the
    /// allocation of the buffers to the last message.
    ///
    /// # Errors
    /// A message that cannot be sent or received, too little memory, or a signal.
    pub fn perform(
        &mut self,
        link: &mut Link<'_>,
        run: &Run,
        samples: &mut Samples,
    ) -> Result<(u64, u64), MessageError> {
        let is_prepared = run.pattern == Pattern::Check || self.plan.is_prepared();
        let session = link.session;
        self.set_up(link.data(), session, run)?;
        let usage = CpuUsage::begin();
        match (run.pattern, is_prepared) {
            (Pattern::Check | Pattern::Pingpong | Pattern::Both, false) => {
                latency::ping(self, link, run, samples)
            }
            (Pattern::Check | Pattern::Pingpong | Pattern::Both, true) => {
                latency::ping_prepared(self, link, run, samples)
            }
            (Pattern::Stream, false) => stream::source(self, link, run),
            (Pattern::Stream, true) => stream::source_prepared(self, link, run),
        }?;
        Ok(usage.since())
    }

    /// Provides and registers the buffers of a run.
    ///
    /// # Errors
    /// Too little memory, a signal, or the error of the library.
    pub fn set_up(
        &mut self,
        connection: &mut Connection,
        session: &Session<'_>,
        run: &Run,
    ) -> Result<(), MessageError> {
        let is_client = session.role == Role::Client;
        let is_prepared = run.pattern == Pattern::Check || self.plan.is_prepared();
        let description = connection.description();
        // Over RDMA trust is about registered buffers.
        let is_trusted = session.common.route.trust_peer && description.fabric == "shm";
        self.use_node(description.memory.node());
        let is_registered = self.plan.is_registered || description.protocol == Protocol::RegisterCached;
        self.use_registered(is_registered, is_trusted);
        let count = match (run.pattern, is_prepared) {
            (Pattern::Stream, true) => stream::window(run.bytes, self.is_registered),
            // One is written while the peer reads the other.
            (Pattern::Stream, false) if self.is_registered && is_client => 2,
            _ => 1,
        };
        let bytes = usize::try_from(run.bytes).unwrap_or(usize::MAX);
        let (from, to) = match (run.pattern, is_client) {
            (Pattern::Check | Pattern::Pingpong | Pattern::Both, _) => (1, 1),
            (Pattern::Stream, true) => (count, 0),
            (Pattern::Stream, false) => (0, count),
        };
        let check_stop = || session.signals.failure().map_or(Ok(()), Err);
        let provided = self
            .from
            .provide(bytes, from, &check_stop)
            .and_then(|()| self.to.provide(bytes, to, &check_stop));
        provided.map_err(MessageError::Local)?;
        register(connection, self.from.buffers())?;
        Ok(())
    }
}
