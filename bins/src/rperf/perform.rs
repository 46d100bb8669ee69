//! One end's part of a run.

use super::clock::Usage;
use super::end::End;
use super::link::{Link, Mishap};
use super::runs::{Pattern, Run};
use super::samples::Samples;
use super::{latency, stream};
use crate::protocol::Role;

impl End {
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
}
