//! Jobs of posted writes: landing buffers and images, which nothing may use once they are released.

use superpipe_core::{Buffer, JobResult, Layout, Registration};

use super::{Image, Posted, Target};
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
        // A block may have been seen complete, consumed and acknowledged before its last piece arrived, if the memory held the same bytes. The
        // rest is in place before RETIRED, which is posted afterwards (wire.md 4.6).
        while let Some(index) = self
            .writes
            .iter()
            .position(|write| write.target == Target::Image(memory) && write.pieces_left > 0)
        {
            let is_held = self.holds_rest(index, memory);
            assert!(is_held, "{memory:?} is released, and writes to it are under way");
            self.place_rest(index);
            self.retire(index);
        }
        self.ownership[memory.owner].release(memory.index);
        self.memories.provision(memory, 0);
    }

    fn release_image(&mut self, image: Image) {
        let is_read = self.owned.iter().flatten().any(|owned| owned.span.memory == image.0);
        assert!(!is_read, "{image:?} is released, and the device may read it");
        self.images.provision(image.0, 0);
    }

    fn register(
        &mut self,
        side: usize,
        buffer: Buffer,
        bytes: u64,
        is_remote: bool,
    ) -> JobResult<Memory, Image> {
        self.register_by_job(side, buffer, bytes, is_remote)
    }

    fn deregister(&mut self, registration: Registration) {
        Self::deregister(self, registration);
    }

    fn end_link(&mut self) {
        Self::end_link(self);
    }
}
