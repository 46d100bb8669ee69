//! Hash of the fields that decide what the receiving half does next.

use core::hash::{Hash, Hasher};

use super::Receiver;
use crate::fabric::Fabric;

impl<F: Fabric> Hash for Receiver<F> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self {
            landing,
            next,
            has_moved,
            moved_at,
            sequence,
            at,
            ends_lap,
            cadence,
            kernels: _,
            consumed,
            awaited: _,
            notified,
            transfers,
            open,
            head,
            shown,
            reject,
            close,
            ends,
            shut,
            check_misses: _,
            chunks: _,
            inlines: _,
            cancels: _,
            exposed_bytes: _,
            split_bytes: _,
            sources,
            offered,
        } = self;
        let offered = offered.map(|it| (it.exposed, it.transfer, it.offset, it.bytes, it.is_written));
        (sequence, at, consumed, notified, transfers, open, head, shown).hash(hasher);
        (sources, offered, ends_lap, cadence).hash(hasher);
        (reject, close, ends, shut, landing.layout, next.map(|next| next.layout), has_moved, moved_at)
            .hash(hasher);
    }
}
