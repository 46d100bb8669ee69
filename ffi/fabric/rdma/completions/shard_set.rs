//! The shards of one poller: for each device as many as its connections need.

use super::shard::{Seat, Shard};
use crate::os::OsError;
use crate::os::epoll::Epoll;
use crate::os::wakeup::Wakeup;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use superpipe_verbs::{CmId, Context, DeviceLimits, Error, EventChannel};

/// Places of the first shard of a device. The next ones have as many as those before them together, so that a few connections pin little, and many need few channels.
const FIRST_PLACES: u16 = 8;
/// Most places of a shard: 51,328 completions at 401 for each connection, 3.3 MB of mlx5's 64 bytes.
const PLACES_MAX: u16 = 128;

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

    /// Takes a seat for a connection of this device, whose address `local` is. None if a CQ of the device has no room for two connections: then each has its own.
    ///
    /// # Errors
    /// The device has no more CQs, or there are too many open files.
    pub(in crate::fabric::rdma) fn seat(
        &self,
        context: &Context,
        limits: &DeviceLimits,
        depth: u32,
        local: SocketAddr,
        channel: &EventChannel,
    ) -> Result<Option<Seat>, Error> {
        let most = u16::try_from(limits.cq_depth_max / depth).unwrap_or(u16::MAX).min(PLACES_MAX);
        if most < 2 {
            return Ok(None);
        }
        let mut shards = self.lock();
        let mut places = 0;
        for shard in shards.iter().filter_map(Weak::upgrade).filter(|shard| shard.is_of(context)) {
            if let Some(seat) = shard.seat() {
                return Ok(Some(seat));
            }
            places += shard.places();
        }
        // The event channel of a connection ends with it.
        let mut keeper = CmId::create(&channel.another()?)?;
        keeper.bind(SocketAddr::new(local.ip(), 0))?;
        let Some(its) = keeper.context().filter(|its| its.is_same(context)) else { return Ok(None) };
        let places = places.clamp(FIRST_PLACES.into(), PLACES_MAX.into());
        let places = u16::try_from(places).unwrap_or(PLACES_MAX).min(most);
        let shard = Arc::new(Shard::new(keeper, its, places, depth, self.wakeup.clone(), self.number)?);
        let seat = shard.seat();
        shards.retain(|shard| shard.strong_count() > 0);
        shards.push(Arc::downgrade(&shard));
        self.count.store(shards.len(), Ordering::Relaxed);
        Ok(seat)
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
