//! Completions of one connection, out of a CQ of its own, or out of one that it shares with other connections of its poller.
//!
//! ```text
//! own             a CQ and a channel for one connection
//! work_id         whose completion it is: slot and generation, beside the number of the work request
//! inbox           completions that another connection has polled for this one
//! slots           the slots of a shared CQ: whose each is, who sleeps, and who was woken
//! shard           a shared CQ with its channel, and the share of a connection in it
//! shared_wakeup   what wakes a sleeper whose channel is read by others
//! shard_set       the shards of one poller
//! ```

mod inbox;
mod own;
mod shard;
mod shard_set;
mod shared_wakeup;
mod slots;
mod work_id;

use crate::os::poll::PollFd;
use own::OwnQueue;
use shard::CqShare;
use superpipe_core::polling::Owner;
use superpipe_verbs::{Context, Cq, Error, Wc, WcError, WcOpcode};

pub(super) use inbox::BROKEN;
pub use shard_set::ShardSet;
pub(super) use work_id::WorkIds;

/// Completions that one poll takes, so that one poll reports data, notifications and signals. The array is part of the connection, so more would only cost memory.
pub(super) const POLLED: usize = 16;

/// A work request that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completed {
    /// It is a receive.
    pub(super) is_receive: bool,
    /// The lower half of its number.
    pub(super) number: u32,
    pub(super) outcome: Outcome,
}

/// Outcome of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Sent,
    /// A SEND of so many bytes, or the immediate of a write.
    Received {
        bytes: u32,
        immediate: Option<u32>,
    },
    Failed(WcError),
}

impl Completed {
    /// Initial content of an array of them.
    pub(super) const NONE: Self = Self { is_receive: false, number: 0, outcome: Outcome::Sent };

    #[inline]
    fn of(wc: &Wc) -> Self {
        let (is_receive, number) = work_id::parts(wc.id());
        let outcome = match wc.result() {
            Err(error) => Outcome::Failed(error),
            Ok(()) if !is_receive => Outcome::Sent,
            Ok(()) if wc.opcode() == WcOpcode::ReceiveImmediate => {
                Outcome::Received { bytes: 0, immediate: wc.immediate() }
            }
            Ok(()) => Outcome::Received { bytes: wc.bytes(), immediate: None },
        };
        Self { is_receive, number, outcome }
    }
}

/// Completions of one connection.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "either is used for each message, and a box would be one more line to load"
)]
pub(super) enum Completions {
    Own(OwnQueue),
    Shared(CqShare),
}

impl Completions {
    /// Makes a CQ for `depth` completions.
    pub(super) fn own(context: &Context, depth: u32) -> Result<Self, Error> {
        Ok(Self::Own(OwnQueue::new(context, depth)?))
    }

    /// Returns the CQ for both queues of the QP.
    pub(super) fn cq(&self) -> &Cq {
        match self {
            Self::Own(own) => own.cq(),
            Self::Shared(share) => share.cq(),
        }
    }

    /// Returns the ids of the connection's work requests.
    pub(super) fn work_ids(&self) -> WorkIds {
        match self {
            Self::Own(_) => WorkIds::ALONE,
            Self::Shared(share) => share.work_ids(),
        }
    }

    /// Takes completions, and returns their number.
    ///
    /// # Errors
    /// The CQ is broken.
    #[inline]
    pub(super) fn poll(&mut self, into: &mut [Completed; POLLED]) -> Result<usize, Error> {
        match self {
            Self::Own(own) => own.poll(into),
            Self::Shared(share) => share.poll(into),
        }
    }

    /// Requests a wake-up for the next completion. Poll once more before sleeping. `is_by_poller`: the poller of the shard wakes the connection, if it polls it; otherwise the descriptor of
    /// [`interest`](Self::interest) does, unless [`is_woken`](Self::is_woken) says that nothing does.
    ///
    /// # Errors
    /// The device refuses.
    pub(super) fn arm(&mut self, is_by_poller: bool) -> Result<(), Error> {
        match self {
            Self::Own(own) => own.arm(),
            Self::Shared(share) => share.arm(is_by_poller),
        }
    }

    /// Ends the sleep of the last sleeper: `is_woken` if the descriptor was ready.
    ///
    /// # Errors
    /// The device is gone.
    pub(super) fn disarm(&mut self, is_woken: bool) -> Result<(), Error> {
        match self {
            Self::Own(own) if is_woken => own.take_events(),
            Self::Own(_) => Ok(()),
            Self::Shared(share) => share.disarm(),
        }
    }

    /// Notes that the connection is established: from here on its own sleeps may cost descriptors.
    pub(super) const fn note_established(&mut self) {
        if let Self::Shared(share) = self {
            share.note_established();
        }
    }

    /// Notes who polls the connection from now on.
    pub(super) fn set_polled_by(&mut self, by: Option<Owner>) {
        if let Self::Shared(share) = self {
            share.set_polled_by(by);
        }
    }

    /// Returns the descriptor that becomes readable when an armed completion arrives, unless a poller watches it.
    pub(super) fn interest(&self) -> PollFd<'_> {
        match self {
            Self::Own(own) => own.interest(),
            Self::Shared(share) => share.interest(),
        }
    }

    /// Returns true unless nothing wakes this end when a completion comes: it must look again soon.
    pub(super) const fn is_woken(&self) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Shared(share) => share.is_woken(),
        }
    }
}

#[cfg(test)]
mod tests;
