//! Permission of a transfer by the provision protocol to use the current landing buffer. wire.md 4.7.
//!
//! ```text
//!                nothing is above the threshold, or the landing buffer was granted for as much
//! UNDECIDED ---------------------------------------------------------------------------------> GIVEN
//!     |                                             moved, or refused                            ^ |
//!     +---> WANTED ----------------> ASKED ------------------------------------------------------+ |
//!     |  another growth ends first    ^                                                            |
//!     +-------------------------------+                                                            |
//!     ^                                         next part of a stream                              |
//!     +--------------------------------------------------------------------------------------------+
//! ```

use super::Sender;
use crate::fabric::Fabric;
use crate::protocol::Protocol;
use crate::wire::grant::GrowReason;
use crate::wire::header::Length;

/// Permission of the open transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Permit {
    /// The sizes are not compared with the threshold yet.
    Undecided,
    /// A larger landing buffer is wanted, once another growth has ended.
    Wanted(Above),
    /// This end has asked for one, and waits for the end of that.
    Asked,
    /// The transfer, or this part of a stream, goes through the current landing buffer. Other protocols always do.
    Given,
}

/// Size above the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Above {
    /// Bytes that the landing buffer has to hold.
    pub(crate) payload_bytes: u64,
    pub(crate) reason: GrowReason,
}

impl Permit {
    pub(super) const fn new(protocol: Protocol) -> Self {
        if matches!(protocol, Protocol::Provision) { Self::Undecided } else { Self::Given }
    }
}

impl<F: Fabric> Sender<F> {
    /// Returns the permission of the open transfer. Without one there is nothing to send. Each part of a stream is compared for itself.
    pub(crate) const fn permit(&self) -> Permit {
        match &self.open {
            Some(open) if matches!((open.permit, open.length), (Permit::Given, Length::Stream)) => {
                Permit::new(open.protocol)
            }
            Some(open) => open.permit,
            None => Permit::Given,
        }
    }

    /// Sets the permission of the open transfer. One that has to wait has no reservation, which would keep this end from moving.
    pub(crate) const fn set_permit(&mut self, permit: Permit) {
        if let Some(open) = &mut self.open {
            open.permit = permit;
            if !matches!(permit, Permit::Given) {
                open.reserved = 0;
            }
        }
    }

    /// Returns the length of the open transfer, if that is a message.
    pub(crate) const fn message_bytes(&self) -> Option<u64> {
        match &self.open {
            Some(open) if let Length::Exact(bytes) = open.length => Some(bytes),
            _ => None,
        }
    }
}
