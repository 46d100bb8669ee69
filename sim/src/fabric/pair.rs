//! What programs and tests need of the fabric besides core's part.

use std::collections::VecDeque;

use superpipe_core::{CopyKernel, Fabric};
use superpipe_testkit::{EndLink, Memory, PairFabric, Place, Setup};

use super::SimFabric;

impl<const DIRECT: bool> PairFabric for SimFabric<DIRECT> {
    fn remote(&self, memory: Memory) -> Memory {
        memory
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn start(&mut self, blocks: u64) {
        self.ownership.iter_mut().for_each(|owned| owned.start(blocks));
    }

    fn is_quiescent(&self) -> bool {
        let polled = self.polled.iter().flatten().all(VecDeque::is_empty);
        let has_jobs = self.grown.iter().any(|grown| !grown.is_idle());
        polled && !has_jobs && self.qps.iter().all(|qp| self.world.is_idle(*qp))
    }

    fn visible(&self, memory: Memory, at: u32, bytes: u32) -> &[u8] {
        if memory.place == Place::Exposed {
            return self.exposed.read(memory, at, bytes);
        }
        self.own_bytes(memory.owner, memory, at, bytes)
    }

    fn fill(&mut self, remote: Memory, at: u32, bytes: &[u8]) {
        self.copy_in(&mut EndLink(1 - remote.owner), remote, at, bytes, CopyKernel::Plain);
    }
}
