//! Planned messages of a connection.

use superpipe_core::Planned;
use superpipe_core::plan::{Explanation, Memory};

use super::Connection;
use crate::blocking::dispatch::{AnyConnection, dispatch};

impl Connection {
    /// Begins to choose the way of each message that this end sends, by a cost model and by what messages take (docs/model.md). Over RDMA messages of more than C0 (64 KiB) go
    /// through the landing buffer as superpipeline, as pipeline or eagerly; and with [`Register`](superpipe_core::Protocol::Register),
    /// [`RegisterCached`](superpipe_core::Protocol::RegisterCached) and [`Auto`](superpipe_core::Protocol::Auto) also by remote writes. Over shared memory messages out of mapped buffers are copied once, and
    /// only their times are predicted and observed. All others go as always, and so do streams, split messages, and all messages of a connection with another protocol. By auto a connection plans
    /// by itself. Allocates some 8 KiB here, and nothing later. Halves of a connection go on planning. Of a connection that is planned already, what was learnt is forgotten.
    pub fn plan_messages(&mut self) {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.plan_messages(false));
    }

    /// Explains how the next message of `bytes` bytes in such memory would go, unless it is a trial, with the time that each way is expected to take. `None` unless messages
    /// [are planned](Self::plan_messages); by auto over shared memory, or if landing is on demand, from the first message on that can be.
    #[must_use]
    pub fn explain(&mut self, bytes: u64, memory: Memory) -> Option<Explanation> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.explain(bytes, memory))
    }

    /// Returns the planned message of which the end was last seen in time to count: its way, the time that was predicted, and what it took.
    #[must_use]
    pub fn last_planned(&mut self) -> Option<Planned> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.last_planned())
    }
}
