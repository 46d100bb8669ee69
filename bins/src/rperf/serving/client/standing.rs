//! Answers about a client's state: others' use of its connections, and its failure if it is late.

use super::{CONNECTIONS_TIMEOUT, Client, State};
use crate::exit::{Code, Failure};
use crate::quantity::format_duration;
use crate::timeouts::HELLO_TIMEOUT;
use core::time::Duration;
use std::time::Instant;
use superpipe::Key;

impl Client {
    /// Returns the connection of the measured messages, unless that is the control connection.
    pub(in crate::rperf::serving) fn measured(&self) -> Option<Key> {
        self.checked.or(self.data)
    }

    /// Returns all its connections.
    pub(in crate::rperf::serving) fn connections(&self) -> impl Iterator<Item = Key> + use<> {
        let lanes: Vec<Key> = self.lanes.iter().copied().flatten().collect();
        lanes.into_iter().chain(self.data).chain([self.control])
    }

    /// Returns true during a run over many connections.
    pub(in crate::rperf::serving) const fn is_spread(&self) -> bool {
        matches!(self.state, State::Spread(_))
    }

    /// Returns true between two runs, when only its next message or its end can come.
    pub(in crate::rperf::serving) const fn is_between(&self) -> bool {
        matches!(self.state, State::Plan | State::Run | State::Answer(_))
    }

    /// Returns true while it performs a run.
    pub(in crate::rperf::serving) const fn is_performing(&self) -> bool {
        matches!(self.state, State::Perform(_))
    }

    /// Returns true if it awaits a new connection of its client.
    pub(in crate::rperf::serving) const fn is_reconnecting(&self) -> bool {
        matches!(self.state, State::Reconnect(_))
    }

    /// Returns true while its HELLO is awaited, which has a deadline of its own.
    pub(in crate::rperf::serving) const fn awaits_hello(&self) -> bool {
        matches!(self.state, State::Hello { .. })
    }

    /// Returns true if it has buffers or further connections that others could have.
    pub(in crate::rperf::serving) const fn has_share(&self) -> bool {
        !self.share.is_empty()
    }

    /// Returns true once its outcome was reported.
    pub(in crate::rperf::serving) const fn is_settled(&self) -> bool {
        matches!(self.state, State::Verdict { .. })
    }

    /// Returns the failure for which a client ended whose report is awaited.
    pub(in crate::rperf::serving) fn asked(&self) -> Option<Failure> {
        match &self.state {
            State::Report(failure) => Some(failure.clone()),
            _ => None,
        }
    }

    /// Returns true if the state must have changed by now.
    pub(in crate::rperf::serving) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline) || !self.is_settled() && self.inbox.is_late(now)
    }

    /// Returns the failure of a client that is late, after this time for its HELLO.
    pub(in crate::rperf::serving) fn late(&self, hello_timeout: Duration) -> Failure {
        match &self.state {
            State::Report(failure) => failure.clone(),
            State::Gather(_) => {
                let missing = self.lanes.iter().filter(|lane| lane.is_none()).count();
                let within = format_duration(CONNECTIONS_TIMEOUT);
                let text = format!("{missing} connections of the client's plan did not come within {within}");
                Failure::new(Code::Connect, text)
            }
            State::Reconnect(_) => {
                let within = format_duration(CONNECTIONS_TIMEOUT);
                Failure::new(Code::Connect, format!("the client made no new connection within {within}"))
            }
            _ if self.inbox.has_part() => {
                let within = format_duration(HELLO_TIMEOUT);
                let text = format!("the peer sent a part of a message, and not the rest within {within}");
                Failure::new(Code::Timeout, text)
            }
            _ => {
                let within = format_duration(hello_timeout);
                Failure::new(Code::Timeout, format!("the peer sent no HELLO within {within}"))
            }
        }
    }
}
