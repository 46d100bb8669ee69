//! Begin and end of a connection: what is registered, and released again.

use core::cell::RefCell;
use std::collections::VecDeque;

use superpipe_core::{CONTROL_PAGE_BYTES, KernelSet, Layout};
use superpipe_testkit::{BASE, ExposedMemories, Setup, ownership};

use super::forger::Forger;
use super::growing::Grown;
use super::sleeping::SleepWords;
use super::{ArrivalFlags, Planners, SimFabric};
use crate::nic::{MemoryUse, NotRegistered, Rights, TraceEvent, World};

impl<const DIRECT: bool> SimFabric<DIRECT> {
    /// Registers memory at both hosts, and connects their QPs.
    ///
    /// # Errors
    /// [`NotRegistered`]. Then nothing stays registered.
    pub(crate) fn connect(
        world: &mut World,
        hosts: [usize; 2],
        setup: &Setup,
        flags: ArrivalFlags,
    ) -> Result<Self, NotRegistered> {
        let mut keys = [Vec::new(), Vec::new()];
        let words_bytes = Self::words_bytes(world, setup.notifications_max, flags.notify || flags.lends);
        let base_bytes = setup.growth.and_then(|growth| growth.base).map(Layout::bytes);
        for side in 0..2 {
            let [ours, theirs] = [setup.layouts[side].bytes(), setup.layouts[1 - side].bytes()];
            let all = [
                Some((CONTROL_PAGE_BYTES, MemoryUse::ControlPage)),
                Some((ours, MemoryUse::Landing)),
                Some((CONTROL_PAGE_BYTES, MemoryUse::ControlPageImage)),
                Some((theirs, MemoryUse::LandingImage)),
                words_bytes.map(|bytes| (bytes, MemoryUse::Notifications)),
                base_bytes.map(|bytes| (bytes, MemoryUse::Landing)),
                base_bytes.map(|bytes| (bytes, MemoryUse::LandingImage)),
            ];
            for one in all {
                let Some((bytes, memory_use)) = one else {
                    keys[side].push(None);
                    continue;
                };
                let remote_write = matches!(memory_use, MemoryUse::ControlPage | MemoryUse::Landing);
                match world.register(hosts[side], bytes, Rights { remote_write }, false) {
                    Ok(key) => {
                        world.note_here(hosts[side], TraceEvent::Register { key, bytes, memory_use });
                        keys[side].push(Some(key));
                    }
                    Err(error) => {
                        keys.iter().flatten().flatten().for_each(|key| world.deregister(*key));
                        return Err(error);
                    }
                }
            }
        }
        let key = |side: usize, number: usize| keys[side].get(number).copied().flatten();
        let grown = [0, 1].map(|side| {
            Grown::new([[1, 5], [3, 6]].map(|[first, base]| {
                let mut all = [key(side, first), None, None, None];
                all[usize::from(BASE)] = key(side, base);
                all
            }))
        });
        let words = [0, 1].map(|side| key(side, 4));
        let pages = [0, 1].map(|side| [0, 2].iter().filter_map(|number| key(side, *number)).collect());
        let sim = Self {
            reuse: Default::default(),
            sleep_words: SleepWords::default(),
            kernels: if world.profile.distances.is_some() { KernelSet::ALL } else { KernelSet::PLAIN },
            world: Box::new(World::without_hosts()),
            setup: *setup,
            hosts,
            qps: world.connect(hosts),
            pages,
            grown,
            lent: Default::default(),
            exposed: ExposedMemories::default(),
            writable: Vec::new(),
            ownership: setup.layouts.map(|layout| ownership(layout, setup)),
            owned: [Vec::new(), Vec::new()],
            words,
            next_word: [0; 2],
            untaken: [VecDeque::new(), VecDeque::new()],
            polled: Default::default(),
            forgers: [Forger::default(); 2],
            is_forged: false,
            flags,
            partial_blocks: RefCell::default(),
            recorders: [None, None],
            planners: Planners::default(),
            acting: 0,
        };
        if flags.notify || flags.lends {
            sim.post_receives(world, 0);
            sim.post_receives(world, 1);
        }
        Ok(sim)
    }

    /// Releases the QP and the memory of an end. Nothing reaches it any more.
    pub(crate) fn release(&mut self, side: usize) {
        self.world.destroy_qp(self.qps[side]);
        for key in self.pages[side].drain(..).chain(self.words[side]).chain(self.grown[side].drain()) {
            self.world.deregister(key);
        }
        for key in self.lent[side].drain() {
            self.world.deregister(key);
        }
        self.release_writable(side);
        self.owned[side].clear();
    }
}
