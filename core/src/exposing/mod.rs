//! Memory of the application that the peer maps, and copies messages out of. wire.md 4.9, 5.6.

/// Most memories of one direction that the peer maps at a time, each in a place of its own.
pub const EXPOSED_MAX: usize = 8;

/// Memory of this end that [`Endpoint::expose`](crate::Endpoint::expose) has exposed, until it is withdrawn. A stale handle names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exposed {
    pub(crate) place: u8,
    pub(crate) generation: u32,
}

/// State of memory that was exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExposedState {
    /// The peer has not answered. Messages out of the memory go through the ring.
    Pending,
    /// The peer has mapped the memory. Messages out of it that are longer than C0 are copied by the peer.
    Ready,
    /// The fabric or the peer refused. Messages go through the ring. The place is taken until the memory is
    /// [withdrawn](crate::Endpoint::withdraw_exposed).
    Refused,
    /// The memory was withdrawn, or the connection has ended.
    Gone,
}
