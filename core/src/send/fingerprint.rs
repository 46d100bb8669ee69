//! Hash of the fields that decide what the sending half does next.

use core::hash::{Hash, Hasher};

use super::Sender;
use crate::fabric::Fabric;

impl<F: Fabric> Hash for Sender<F> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self {
            landing,
            arrival: _,
            credits,
            sequence,
            at,
            produced,
            acked,
            entered,
            free_from,
            laps,
            kernels,
            in_flight,
            unposted,
            unposted_behind,
            chunk_ends,
            transfers,
            before_first: _,
            generation,
            open,
            cancelled,
            remote_ends,
        } = self;
        (sequence, at, produced, acked, unposted, unposted_behind, chunk_ends).hash(hasher);
        (landing.layout, entered, free_from, laps, kernels.pinned_window()).hash(hasher);
        in_flight.len().hash(hasher);
        in_flight.iter().for_each(|chunk| chunk.hash(hasher));
        (transfers, generation, open, cancelled, credits, remote_ends).hash(hasher);
    }
}
