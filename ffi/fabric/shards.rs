//! Resources that the connections of one poller share: the completion queues of RDMA, in shards. Nothing in a build without RDMA.

use crate::os::OsError;
use crate::os::epoll::Epoll;
use crate::os::wakeup::Wakeup;
#[cfg(feature = "verbs")]
use {super::rdma::ShardSet, std::sync::Arc};

/// Connections that are woken by one look.
const WOKEN_MAX: usize = 64;

/// Resources that the connections of one poller share. A clone is the same one.
#[derive(Clone, Debug)]
pub struct Shards {
    #[cfg(feature = "verbs")]
    set: Arc<ShardSet>,
}

#[cfg_attr(not(feature = "verbs"), expect(clippy::missing_const_for_fn, reason = "as with the feature"))]
impl Shards {
    /// Makes what connections share of the set of this number, whose owner `wakeup` wakes.
    #[must_use]
    pub fn new(number: u32, wakeup: &Wakeup) -> Self {
        #[cfg(feature = "verbs")]
        return Self { set: Arc::new(ShardSet::new(number, wakeup.clone())) };
        #[cfg(not(feature = "verbs"))]
        {
            let _ = (number, wakeup);
            Self {}
        }
    }

    /// Returns what RDMA connections share.
    #[cfg(feature = "verbs")]
    #[must_use]
    pub fn rdma(&self) -> &ShardSet {
        &self.set
    }

    /// Reports `number` when anything comes that this wakes connections for. To be called before a new connection sleeps.
    ///
    /// # Errors
    /// The system can watch no more.
    pub fn watch(&self, epoll: &Epoll, number: u64) -> Result<(), OsError> {
        #[cfg(feature = "verbs")]
        return self.set.watch(epoll, number);
        #[cfg(not(feature = "verbs"))]
        {
            let _ = (epoll, number);
            Ok(())
        }
    }

    /// Returns numbers of connections that are to be woken; the next call returns others. `is_ready`: the number of [`watch`](Self::watch) was reported.
    #[must_use]
    pub fn woken(&self, is_ready: bool) -> heapless::Vec<u64, WOKEN_MAX> {
        #[cfg_attr(not(feature = "verbs"), expect(unused_mut, reason = "as with the feature"))]
        let mut woken = heapless::Vec::new();
        #[cfg(feature = "verbs")]
        self.set.look(is_ready, &mut woken);
        #[cfg(not(feature = "verbs"))]
        let _ = is_ready;
        woken
    }

    /// Has what comes from here on make the number of [`watch`](Self::watch) be reported. Returns true if connections are to be woken already.
    #[must_use]
    pub fn arm(&self) -> bool {
        #[cfg(feature = "verbs")]
        return self.set.arm();
        #[cfg(not(feature = "verbs"))]
        false
    }
}
