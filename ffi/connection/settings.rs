//! Settings of a connection that can change while it lives.

use super::Connection;
use crate::blocking::dispatch::{AnyConnection, dispatch};
use crate::os::WaitStrategy;
use superpipe_core::CopyKernel;

impl Connection {
    /// Sets whether a poller or an event loop looks at it now and then while it waits for a wake-up, for tests: without that only the wake-up brings what has arrived. Default: true.
    #[cfg(feature = "internals")]
    pub fn set_looks_while_armed(&mut self, looks: bool) {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.set_looks_while_armed(looks));
    }

    /// Sets the protocol of transfers that start from now on, for tests; programs propose one by [`Tuning::protocol`](crate::Tuning::protocol).
    #[cfg(feature = "internals")]
    pub fn set_protocol(&mut self, protocol: superpipe_core::Protocol) {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.set_protocol(protocol));
    }

    /// Sets how this end copies over shared memory, into the peer's landing buffer and out of its own, in messages of 4 KiB and more. By default, and
    /// with `None`, it chooses while data flow: [`counters`](Self::counters) say what. Without effect over RDMA.
    pub fn pin_copies(&mut self, copy_in: Option<CopyKernel>, copy_out: Option<CopyKernel>) {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.pin_copies(copy_in, copy_out));
    }

    /// Sets how many bytes of the peer's landing buffer this end cycles through, over shared memory: whole blocks, at least what holds a message of
    /// 64 KiB wherever it begins (68 KiB with blocks of 4 KiB), at most all, which is the default. Fewer stay in smaller caches. With `None` it chooses while
    /// data flow, among the whole, a quarter and so on down to 128 KiB: [`counters`](Self::counters) say what. Without effect over RDMA.
    pub fn set_window(&mut self, bytes: Option<u32>) {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.set_window(bytes));
    }

    /// Sets the wait strategy from now on.
    pub fn set_wait(&mut self, wait: WaitStrategy) {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.set_wait(wait));
    }
}
