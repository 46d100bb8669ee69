//! Jobs of posted writes: landing buffers and images, which nothing may use once they are released.

use superpipe_core::Layout;

use super::{Image, Posted};
use crate::fabric::jobs::JobEffects;
use crate::fabric::memory::Memory;

impl JobEffects<Image> for Posted {
    fn provision_landing(&mut self, memory: Memory, layout: Layout) {
        self.ownership[memory.owner].provision(memory.index, layout);
        self.memories.provision(memory, layout.bytes());
    }

    fn provision_image(&mut self, memory: Memory, layout: Layout) -> Image {
        self.images.provision(memory, layout.bytes());
        Image(memory)
    }

    fn release_landing(&mut self, memory: Memory) {
        let is_under_way = self.writes.iter().any(|write| write.to == memory && write.pieces_left > 0);
        assert!(!is_under_way, "{memory:?} is released, and writes to it are under way");
        self.ownership[memory.owner].release(memory.index);
        self.memories.provision(memory, 0);
    }

    fn release_image(&mut self, image: Image) {
        let is_read = self.owned.iter().flatten().any(|owned| owned.span.memory == image.0);
        assert!(!is_read, "{image:?} is released, and the device may read it");
        self.images.provision(image.0, 0);
    }
}
