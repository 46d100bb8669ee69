//! Why the two ends cannot agree on the values of a connection.

use core::{error, fmt};

use super::super::text::Bytes;
use super::{LandingMode, RECEIVES, RECEIVES_MIN, arrival_name};
use crate::{Arrival, ConfigError, FirstChunk, Protocol};

/// Reason why the ends cannot agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// The two ends propose different values.
    Proposals {
        /// name of the value
        name: &'static str,
        /// value of the listening end
        listening: Proposal,
        /// value of the connecting end
        connecting: Proposal,
    },
    /// The proposed values make an invalid configuration.
    Config(ConfigError),
    /// The peer makes the landing buffer larger than this end allows.
    Landing {
        /// bytes of the landing buffer
        bytes: u32,
        /// most bytes allowed
        bytes_max: u32,
        /// name of the end that sets the limit
        by: &'static str,
    },
    /// One end proposes the provision protocol, and one a landing buffer that is provisioned while connecting.
    ProvisionAtConnect,
    /// The protocol register over shared memory, which has no device that memory could be registered with.
    RegisterWithoutDevice,
    /// A number of receives that is out of range.
    Receives(u8),
    /// One end proposes plain flags, and a device of either end promises no order.
    FlagAtOneEnd,
    /// The peer chose an arrival mode that it may not choose.
    Mode {
        /// mode of the peer
        said: Arrival,
        /// mode that follows from the proposals
        due: Arrival,
    },
}

/// A proposed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// Number.
    Number(u32),
    /// Protocol.
    Protocol(Protocol),
    /// Arrival mode.
    Arrival(Arrival),
    /// When landing buffers are provisioned.
    Landing(LandingMode),
    /// When the first chunk is sent.
    FirstChunk(FirstChunk),
    /// On or off.
    Switch(bool),
}

/// Returns the proposed value of two ends.
pub(super) fn proposed_by_either<T: PartialEq + Copy>(
    name: &'static str,
    ours: Option<T>,
    theirs: Option<T>,
    shown: impl Fn(T) -> Proposal,
) -> Result<Option<T>, Disagreement> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if ours != theirs => {
            Err(Disagreement::Proposals { name, listening: shown(ours), connecting: shown(theirs) })
        }
        (ours, theirs) => Ok(ours.or(theirs)),
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Protocol(protocol) => protocol.fmt(f),
            Self::Arrival(arrival) => f.write_str(arrival_name(*arrival)),
            Self::Landing(landing) => f.write_str(landing.name()),
            Self::FirstChunk(first_chunk) => first_chunk.fmt(f),
            Self::Switch(is_on) => f.write_str(if *is_on { "on" } else { "off" }),
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proposals { name, listening, connecting } => write!(
                f,
                "the two ends disagree: {name} is {listening} at the listening end and {connecting} at the connecting end; set it at \
                 one end only"
            ),
            Self::Config(error) => error.fmt(f),
            Self::Landing { bytes, bytes_max, by } => {
                let (bytes, bytes_max) = (Bytes(u64::from(*bytes)), Bytes(u64::from(*bytes_max)));
                write!(f, "a landing buffer of {bytes} is more than the {bytes_max} that the {by} allows")
            }
            Self::ProvisionAtConnect => f.write_str(
                "the provision protocol begins with a small landing buffer and provisions larger ones on demand; propose \
                 landing on-demand, or none",
            ),
            Self::RegisterWithoutDevice => f.write_str(
                "the protocol register registers memory of the application with a device, and shared memory has none; propose \
                 register-cached, and send out of registered buffers",
            ),
            Self::Receives(receives) => {
                write!(f, "receives is {receives}, and must be {RECEIVES_MIN} to {RECEIVES}")
            }
            Self::FlagAtOneEnd => f.write_str(
                "plain flags need order inside a write, which a device of one of the two ends does not promise: set \
                 flag at both ends, or at none",
            ),
            Self::Mode { said, due } => write!(
                f,
                "the peer chose arrival mode {}, and the proposals give {}",
                arrival_name(*said),
                arrival_name(*due)
            ),
        }
    }
}

impl error::Error for Disagreement {}
