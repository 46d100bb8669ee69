//! Set-up: the handshake that negotiates a connection. wire.md 6, 10.2.
//!
//! A [`Handshake`] is the exchange for either end and either fabric. It sends nothing, provisions nothing and reads no clock:
//! [`poll_action`](Handshake::poll_action) returns the next action, the `handle_*` calls take its result, and `now` comes from
//! outside.

mod active;
mod arrival;
mod config;
mod error;
mod handshake;
mod packet;
mod passive;
mod text;
mod tuning;

pub use arrival::{ArrivalCaps, ArrivalReason};
pub use config::{FabricKind, HandshakeConfig, RemoteRegion, RemoteRegions, Role};
pub use error::{HandshakeFailure, PacketError, REFUSED_LIMIT, REFUSED_PROPOSAL, REFUSED_VERSION, Refusal};
pub use handshake::{Action, Ancillary, Claim, Established, Grants, Handshake, WAKE};
pub use packet::{Kind, PACKET_BYTES, Packet, check_head, write_head};
pub use text::{Bytes, TEXT_BYTES, Text};
pub use tuning::{
    BLOCK_BYTES, Defaults, Disagreement, GROWTH_DELAY, GROWTH_SLAB_BYTES, LANDING_BYTES, LandingMode,
    Negotiated, Proposal, RECEIVES, RECEIVES_MIN, RECEIVES_ON_DEMAND, SHM_BLOCK_BYTES, Tuning, arrival_name,
    default_group_blocks,
};

/// Version of the protocol, all of docs/wire.md.
pub const VERSION: u16 = 6;
