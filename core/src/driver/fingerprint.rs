//! Fingerprint of a driver, which tells two states of one driver apart.

use core::hash::{Hash, Hasher};

use super::Driver;
use crate::fabric::Fabric;

impl<F: Fabric> Driver<F> {
    /// Feeds all that decides what this end does next to `hasher`, as [`Endpoint::fingerprint`](crate::Endpoint::fingerprint)
    /// does. Left out are the timers and the counts of rounds, which decide when it checks the time, and never what it does then.
    pub fn fingerprint(&self, hasher: &mut impl Hasher) {
        let Self {
            endpoint,
            keepalive: _,
            releasing: _,
            pace: _,
            empty: _,
            peer_is_gone,
            is_closing,
            claimed,
            id: _,
        } = self;
        endpoint.fingerprint(hasher);
        (peer_is_gone, is_closing, claimed).hash(hasher);
    }
}
