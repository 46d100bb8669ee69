//! The wire format: lines, layout, headers, control messages, acknowledgements and notifications, as values and pure
//! arithmetic. wire.md 2 to 5.
//!
//! This module does not depend on a fabric. A [`Fabric`](crate::Fabric) decides how a line gets into memory and is read;
//! [`atomics`](crate::atomics) has the memory orderings for those whose memory both ends share.

pub(crate) mod ack;
pub(crate) mod arrival;
pub(crate) mod control;
pub(crate) mod grant;
pub(crate) mod header;
pub(crate) mod inline;
pub(crate) mod layout;
pub(crate) mod line;
pub(crate) mod marks;
pub(crate) mod notification;
pub(crate) mod part;
pub(crate) mod sequence;
pub(crate) mod timing;

/// CRC32C of private memory, which checked flags need. Each fabric computes it ([`Fabric::crc`](crate::Fabric::crc)).
pub(crate) trait Crc32c {
    /// CRC32C of `bytes`, continued from `seed`.
    fn crc32c(&self, bytes: &[u8], seed: u32) -> u32;
}
