//! The choice of a fabric at run time: enums with one variant per fabric, and macros that call what a variant holds.
//!
//! A call costs one branch, which always goes the same way, and no indirection: behind it the fabric is known to the compiler.

use super::{Blocking, Exclusive, Half};
#[cfg(feature = "verbs")]
use crate::fabric::rdma::Rdma;
use crate::fabric::shm::fabric::Shm;

/// A connection. One variant per fabric.
pub(crate) enum AnyConnection {
    Shm(Blocking<Exclusive<Shm>>),
    #[cfg(feature = "verbs")]
    Rdma(Blocking<Exclusive<Rdma>>),
}

/// A half of a connection that was split. One variant per fabric.
pub(crate) enum AnyHalf {
    Shm(Blocking<Half<Shm>>),
    #[cfg(feature = "verbs")]
    Rdma(Blocking<Half<Rdma>>),
}

/// Evaluates an expression with what the variant holds, for enums with one variant per fabric.
macro_rules! dispatch {
    ($kind:ident, $value:expr, $inner:ident => $call:expr) => {
        match $value {
            $kind::Shm($inner) => $call,
            #[cfg(feature = "verbs")]
            $kind::Rdma($inner) => $call,
        }
    };
}

/// Evaluates an expression with what the variant holds, for enums with one variant per fabric for connections, and one for halves.
macro_rules! dispatch_any {
    ($kind:ident, $value:expr, $inner:ident => $call:expr) => {
        match $value {
            $kind::Shm($inner) => $call,
            $kind::ShmHalf($inner) => $call,
            #[cfg(feature = "verbs")]
            $kind::Rdma($inner) => $call,
            #[cfg(feature = "verbs")]
            $kind::RdmaHalf($inner) => $call,
        }
    };
}

pub(crate) use {dispatch, dispatch_any};

impl From<Blocking<Exclusive<Shm>>> for AnyConnection {
    fn from(connection: Blocking<Exclusive<Shm>>) -> Self {
        Self::Shm(connection)
    }
}

#[cfg(feature = "verbs")]
impl From<Blocking<Exclusive<Rdma>>> for AnyConnection {
    fn from(connection: Blocking<Exclusive<Rdma>>) -> Self {
        Self::Rdma(connection)
    }
}

impl AnyConnection {
    /// Splits the connection into two halves.
    pub(crate) fn split(self) -> [AnyHalf; 2] {
        match self {
            Self::Shm(connection) => connection.split().map(AnyHalf::Shm),
            #[cfg(feature = "verbs")]
            Self::Rdma(connection) => connection.split().map(AnyHalf::Rdma),
        }
    }
}

impl AnyHalf {
    /// Joins the two halves.
    ///
    /// # Errors
    /// The halves are not of one connection.
    pub(crate) fn reunite(self, other: Self) -> Result<AnyConnection, [Self; 2]> {
        match (self, other) {
            (Self::Shm(one), Self::Shm(other)) => {
                one.reunite(other).map(AnyConnection::Shm).map_err(|halves| halves.map(Self::Shm))
            }
            #[cfg(feature = "verbs")]
            (Self::Rdma(one), Self::Rdma(other)) => {
                one.reunite(other).map(AnyConnection::Rdma).map_err(|halves| halves.map(Self::Rdma))
            }
            #[cfg(feature = "verbs")]
            (one, other) => Err([one, other]),
        }
    }
}
