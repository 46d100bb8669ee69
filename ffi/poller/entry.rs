//! Contents of a poller's slots.

use superpipe_core::polling::{Member, Occupant};

use crate::blocking::PendingConnect;
use crate::connection::Connection;
use crate::error::Error;
use crate::watched::{Listening, Polled};

/// Occupant of a slot.
#[expect(
    clippy::large_enum_variant,
    reason = "most are members, and a box would be one more line to load in each look"
)]
pub(super) enum Entry {
    Listening(Box<Listening>),
    Connecting(Box<PendingConnect>),
    Failed(Error),
    Member(Member, Polled),
}

impl Entry {
    /// Makes the entry of a connection, which is to be established.
    pub(super) fn of_connection(connection: Connection, now_ns: u64) -> Self {
        Self::Member(Member::new(now_ns), Polled(connection))
    }
}

impl Occupant for Entry {
    type Connection = Polled;

    #[inline]
    fn member(&mut self) -> Option<(&mut Member, &mut Polled)> {
        match self {
            Self::Member(member, polled) => Some((member, polled)),
            Self::Listening(_) | Self::Connecting(_) | Self::Failed(_) => None,
        }
    }
}
