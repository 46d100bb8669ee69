//! A connection that both ends agreed on: before it is warmed up, and after.

use superpipe_core::Protocol;
use superpipe_core::driver::setup::LandingMode;

use super::dispatch::AnyConnection;
use super::{Blocking, Exclusive, WarmingUp};
use crate::deadline::Deadline;
use crate::description::{Description, Peer};
use crate::error::Error;
use crate::fabric::HostFabric;
use crate::metrics::{Role, Subject};
use crate::trace;

/// A connection that is ready for use.
pub(crate) struct ReadyConnection {
    pub(crate) inner: AnyConnection,
    pub(crate) description: Description,
    pub(crate) peer: Peer,
}

/// A connection that both ends agreed on, and that is not warm yet.
pub(super) struct NewConnection<F: HostFabric> {
    pub(super) blocking: Blocking<Exclusive<F>>,
    pub(super) warming: WarmingUp,
    pub(super) description: Description,
    pub(super) peer: Peer,
    pub(super) role: Role,
}

impl<F: HostFabric> NewConnection<F>
where
    AnyConnection: From<Blocking<Exclusive<F>>>,
{
    /// Warms it up, and waits for that until the deadline.
    ///
    /// # Errors
    /// As [`Blocking::warm_up`].
    pub(super) fn warm_up(mut self, deadline_ns: u64) -> Result<ReadyConnection, Error> {
        self.blocking.warm_up(&mut self.warming, Deadline::at_time(deadline_ns))?;
        Ok(self.into_ready())
    }

    /// Returns the connection, warm or not. From now on its messages are planned, if that was negotiated: those of the warm-up would teach what
    /// a cold connection takes.
    pub(super) fn into_ready(self) -> ReadyConnection {
        let Self { mut blocking, description, peer, role, .. } = self;
        if description.protocol == Protocol::Auto {
            // Over shared memory few connections have a message that is planned, and an idle one whose landing is on demand has next to no memory.
            blocking.plan_messages(F::DIRECT || description.landing == LandingMode::OnDemand);
        }
        blocking.begin_report(|number, made_at_ns| {
            trace::established(number, role, peer, &description);
            Subject { number, role, peer, description, made_at_ns }
        });
        ReadyConnection { inner: blocking.into(), description, peer }
    }
}
