//! The interface of a slot's content to a poller.

use super::member::Member;
use super::pollable::Pollable;

/// Content of a slot: a connection with its [`Member`], or something else, which the caller drives.
pub trait Occupant {
    /// Its connection.
    type Connection: Pollable;

    /// Returns the connection with its state, if it is one.
    fn member(&mut self) -> Option<(&mut Member, &mut Self::Connection)>;
}

/// Set of the connections in such slots.
pub type SetOf<T> = <<T as Occupant>::Connection as Pollable>::Set;
