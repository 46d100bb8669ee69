//! The shards of one poller: for each device as many as its connections need.

use super::shard::{CqShare, Shard};
use crate::os::OsError;
use crate::os::epoll::Epoll;
use crate::os::wakeup::Wakeup;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use superpipe_verbs::{CmId, Context, DeviceLimits, Error, EventChannel};

/// Slots of the first shard of a device. The next ones have as many as those before them together, so that a few connections pin little, and many need few channels.
const FIRST_SLOTS: u16 = 8;
/// Most slots of a shard: 51,328 completions at 401 for each connection, 3.3 MB of mlx5's 64 bytes.
const SLOTS_MAX: u16 = 128;

/// CQs that the connections of one poller share. A shard lives as long as a connection uses it.
#[derive(Debug)]
pub struct ShardSet {
    /// Number of the poller, and what wakes it.
    number: u32,
    wakeup: Wakeup,
    shards: Mutex<Vec<Weak<Shard>>>,
    /// Length of that list.
    count: AtomicUsize,
}

impl ShardSet {
    /// Makes an empty set for the poller of this number, which `wakeup` wakes.
    #[must_use]
    pub const fn new(number: u32, wakeup: Wakeup) -> Self {
        Self { number, wakeup, shards: Mutex::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    /// Takes a share for a connection of this device, whose address `local` is. None if a CQ of the device has no room for two connections, or a shared one cannot be
    /// made, which takes more memory and descriptors: then the connection has one of its own.
    pub(in crate::fabric::rdma) fn share(
        &self,
        context: &Context,
        limits: &DeviceLimits,
        depth: u32,
        local: SocketAddr,
        channel: &EventChannel,
    ) -> Option<CqShare> {
        let most = u16::try_from(limits.cq_depth_max / depth).unwrap_or(u16::MAX).min(SLOTS_MAX);
        if most < 2 {
            return None;
        }
        let mut shards = self.lock();
        let mut slots = 0;
        for shard in shards.iter().filter_map(Weak::upgrade).filter(|shard| shard.is_of(context)) {
            if let Some(share) = shard.share() {
                return Some(share);
            }
            slots += shard.slots();
        }
        let (device_holder, its) = hold_device(context, local, channel).ok()??;
        let slots = slots.clamp(FIRST_SLOTS.into(), SLOTS_MAX.into());
        let slots = u16::try_from(slots).unwrap_or(SLOTS_MAX).min(most);
        let (wakeup, number) = (self.wakeup.clone(), self.number);
        let shard = Arc::new(Shard::new(device_holder, its, slots, depth, wakeup, number).ok()?);
        let share = shard.share();
        shards.retain(|shard| shard.strong_count() > 0);
        shards.push(Arc::downgrade(&shard));
        self.count.store(shards.len(), Ordering::Relaxed);
        share
    }

    /// Watches the channels of shards that were made since the last call.
    ///
    /// # Errors
    /// The system cannot watch more.
    pub fn watch(&self, epoll: &Epoll, number: u64) -> Result<(), OsError> {
        if self.is_empty() {
            return Ok(());
        }
        for shard in self.lock().iter().filter_map(Weak::upgrade) {
            if !shard.is_watched.load(Ordering::Relaxed) {
                epoll.watch(shard.channel(), number)?;
                shard.is_watched.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Takes the numbers of connections that have completions, as many as there is room for. `has_event`: a channel is readable.
    pub fn look<const N: usize>(&self, has_event: bool, woken: &mut heapless::Vec<u64, N>) {
        if self.is_empty() {
            return;
        }
        for shard in self.lock().iter().filter_map(Weak::upgrade) {
            shard.look(has_event, woken);
        }
    }

    /// Has events wake the poller from here on. Returns true if a connection is to be woken already.
    pub fn arm(&self) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut has_woken = false;
        for shard in self.lock().iter().filter_map(Weak::upgrade) {
            has_woken |= shard.arm_for_poller();
        }
        has_woken
    }

    /// Returns true if the poller never had a connection that shares a CQ.
    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Shard>>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds the device of this context open by an id of its own, bound to the same address: the id and the event channel of a connection end with it. None if rdma_cm opens it another time.
fn hold_device(
    context: &Context,
    local: SocketAddr,
    channel: &EventChannel,
) -> Result<Option<(CmId, Context)>, Error> {
    let mut id = CmId::create(&channel.another()?)?;
    // With its scope, without which a link-local address names no interface.
    let mut address = local;
    address.set_port(0);
    id.bind(address)?;
    let its = id.context().filter(|its| its.is_same(context));
    Ok(its.map(|its| (id, its)))
}
