//! The packets of a handshake, which core's driver judges.

#[cfg(test)]
pub(crate) use superpipe_core::driver::setup::Kind;
pub use superpipe_core::driver::setup::{
    PACKET_BYTES, PacketError, REFUSED_LIMIT, REFUSED_VERSION, REFUSED_WISHES, VERSION,
};
pub(crate) use superpipe_core::driver::setup::{Packet, Refusal, Text};
#[cfg(feature = "verbs")]
pub(crate) use superpipe_core::driver::setup::{check_head, write_head};
