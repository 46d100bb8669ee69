//! Set-up: from the first packet to a connection that both ends agreed on. wire.md 6, 10.2.
//!
//! A [`Handshake`] is the whole exchange for either end and either fabric. It sends nothing, provisions nothing and
//! reads no clock: [`poll_action`](Handshake::poll_action) names what is to be done, the `handle_*` calls say what came of
//! it, and `now` comes from outside.

mod active;
mod arrival;
mod config;
mod error;
mod handshake;
mod packet;
mod passive;
mod text;
mod tuning;

pub use arrival::{Means, Why};
pub use config::{FabricKind, HandshakeConfig, RemoteRegion, Role};
pub use error::{HandshakeFailure, PacketError, REFUSED_LIMIT, REFUSED_VERSION, REFUSED_WISHES, Refusal};
pub use handshake::{Action, Agreed, Beside, Claim, Grants, Handshake, WAKE};
pub use packet::{Kind, PACKET_BYTES, Packet, check_head, write_head};
pub use text::{Bytes, TEXT_BYTES, Text};
pub use tuning::{BLOCK_BYTES, Disagreement, LANDING_BYTES, Settled, Terms, Tuning, Wish, arrival_name};

/// Version of the protocol, all of docs/wire.md.
pub const VERSION: u16 = 2;
