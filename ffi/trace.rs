//! Events of set-up and close, for the crate `tracing` with the feature of that name. Nothing of it is on the way of a message.
//!
//! | event | level | fields |
//! |---|---|---|
//! | listening | info | address |
//! | connecting | debug | address |
//! | client | debug | address: a client has connected to a listener, and the handshake begins |
//! | established | info | connection, role, fabric, peer, and what both ends agreed on |
//! | refused | warn | address, kind, reason: a connect or a client's attempt failed |
//! | closed | info, warn | connection, why, and what was transferred; a warning if the connection was lost or has failed |
//!
//! All have the target `superpipe`. Without the feature, these functions are empty.
#![cfg_attr(
    not(feature = "tracing"),
    allow(unused_variables, clippy::missing_const_for_fn, reason = "they do nothing without the feature")
)]

use superpipe_core::Counters;

use crate::address::Address;
use crate::description::{Description, Peer};
use crate::error::Error;
use crate::metrics::{Role, State};

/// Target of all events.
#[cfg(feature = "tracing")]
const TARGET: &str = "superpipe";

/// A listener has begun to listen.
pub(crate) fn listening(address: &Address) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: TARGET, %address, "listening");
}

/// A connect begins.
pub(crate) fn connecting(address: &Address) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: TARGET, %address, "connecting");
}

/// A listener has a client, with which the handshake begins.
pub(crate) fn client(address: &Address) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: TARGET, %address, "client");
}

/// A connection is ready for use.
pub(crate) fn established(connection: u64, role: Role, peer: Peer, description: &Description) {
    #[cfg(feature = "tracing")]
    tracing::info!(
        target: TARGET,
        connection,
        role = role.name(),
        fabric = description.fabric,
        ?peer,
        protocol = description.protocol.name(),
        arrival = ?description.arrival,
        c0_bytes = description.c0_bytes,
        folds = description.folds,
        block_bytes = description.block_bytes,
        landing_bytes = description.landing_bytes,
        landing = ?description.landing,
        provisioned_bytes = description.provisioned_bytes,
        "established"
    );
}

/// A connect, or the attempt of a client, has failed.
pub(crate) fn refused(address: &Address, error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: TARGET, %address, kind = ?error.kind(), reason = %error, "refused");
}

/// A connection was given up by its program. `state`: before that.
pub(crate) fn closed(connection: u64, state: State, counters: &Counters) {
    #[cfg(feature = "tracing")]
    {
        let why = state.name();
        let Counters { transfers_sent, transfers_received, bytes_sent, bytes_received, .. } = *counters;
        // The level of an event is a constant.
        macro_rules! event {
            ($level:ident) => {
                tracing::$level!(
                    target: TARGET,
                    connection,
                    why,
                    transfers_sent,
                    transfers_received,
                    bytes_sent,
                    bytes_received,
                    "closed"
                )
            };
        }
        match state {
            State::Failed | State::PeerLost => event!(warn),
            State::Open | State::PeerCloses | State::ClosedHere | State::ClosedByPeer => event!(info),
        }
    }
}
