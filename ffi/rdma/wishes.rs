//! Wishes of an end for its connections.

use super::route::Route;
use crate::tuning::Tuning;

/// Wishes of an end for its connections.
#[derive(Clone, Copy, Debug)]
pub struct Wishes<'a> {
    /// What is settled with the peer.
    pub tuning: &'a Tuning,
    /// The most that a peer may make the landing buffer.
    pub landing_bytes_max: u32,
    /// Which device.
    pub route: Route,
}
