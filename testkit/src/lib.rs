//! In-memory fabrics for superpipe's own tests, in safe code. One u64 seed decides everything.
//!
//! [`Direct`] is direct store: each end writes the other's memory. [`Posted`] behaves like verbs: an image is written first and then
//! posted; bytes become visible late, in pieces, and in any order between writes; completions are late; the send queue is short. Both
//! check what core does, and panic at the first wrong step: memory that core does not own, blocks that were not consumed, and offsets out of
//! range.
//!
//! [`Pair`] drives two endpoints over either of them against an oracle. [`wire`] is a second encoding of the wire format, for tests that
//! play a hostile peer.

mod crc;
mod fabric;
pub mod pair;
mod rng;
pub mod wire;

pub use crc::crc32c;
pub use fabric::{
    BASE, BlockOwnership, Direct, EndLink, ExposedMemories, GrowthSetup, Hints, Image, LogEntry, Logged,
    Memories, Memory, PairFabric, Place, Posted, Recorders, Setup, Span, TestFabric, WriteCounts, ownership,
};
pub use pair::Pair;
pub use rng::Rng;
