//! Memory of an application that its peer writes while it is offered: by direct store, and visible late, as all that is stored.

use superpipe_testkit::Memory;

use super::write::{WrState, Write};
use super::{StepFabric, length};

impl<const DIRECT: bool> StepFabric<DIRECT> {
    /// Writes into memory of the peer's application, which must be mapped and offered, now and when that becomes visible.
    pub(super) fn write_offered(&mut self, side: usize, to: Memory, at: u32, data: &[u8]) {
        assert_ne!(to.owner, side, "an end writes its peer's memory, not its own");
        assert!(DIRECT, "memory is offered where stores go direct");
        let buffer = self.exposed.written(to, at);
        assert!(at as usize + data.len() <= self.exposed.bytes(buffer).len(), "written behind {to:?}");
        self.offered_bytes[side] += data.len() as u64;
        if data.is_empty() {
            return;
        }
        let pieces = vec![Write::words(at, length(data))];
        let mut store = Write::new((to, at, length(data)), None, WrState::Done, pieces, self.case.arrival);
        store.data = Some(data.into());
        self.writes[side].change().push(store);
        if self.case.at_once {
            let last = self.writes[side].len() - 1;
            self.show(side, last, 0);
            self.writes[side].change().pop();
        }
    }

    /// Makes a write into memory of an application visible.
    pub(super) fn show_offered(&mut self, side: usize, index: usize) {
        let Write { to, at, data, .. } = &self.writes[side][index];
        let buffer = self.exposed.written(*to, *at);
        let data = data.as_deref().unwrap_or_default();
        self.exposed.change().write(buffer, *at as usize, data);
    }

    /// Returns the bytes that an end has written into memory that its peer offered.
    pub(in crate::explore) const fn offered_bytes(&self, side: usize) -> u64 {
        self.offered_bytes[side]
    }
}
