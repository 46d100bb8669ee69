//! The QP of one connection and its CQ, with all objects that belong to them.
//!
//! ```text
//! connecting   until it is ready: the steps of rdma_cm, packets
//! posting      writes behind the doorbell, single SENDs
//! polling      completions, notifications, messages of the peer
//! ending       a peer that is gone, and the drain at the end
//! state        what is known of the peer
//! ```

mod connecting;
mod ending;
mod polling;
mod posting;
mod state;

use super::cm::Cm;
use super::completions::{Completed, Completions, POLLED, ShardSet, WorkIds};
use super::error::ConnectError;
use super::growth::Growth;
use super::lending::Lending;
use super::memory::{FirstLanding, RegisteredMemory};
use super::receive_pool::{FIRST_RECEIVES, RECEIVES, ReceivePool, SENDS_MAX};
use super::send_queue::SendQueue;
use super::sleep_state::SleepState;
use crate::budget::BudgetShare;
use crate::os::jobs::Jobs;
use crate::os::{MemoryNode, MemoryPlacement};
use core::cell::RefCell;
use heapless::{Deque, Vec};
use posting::{BATCH, REMOTE_MESSAGE_MIN, Work};
use std::sync::Arc;
use superpipe_core::driver::setup::Packet;
use superpipe_core::{Layout, Notification, WrId};
use superpipe_verbs::{
    Access, Context, Cq, DeviceLimits, EventChannel, Pd, Qp, QpConfig, QpState, Transport,
};

pub(super) use state::State;

/// Inline sizes in the order in which they are tried. 256 holds the longest enclosed write with its head, 64 a line; siw has no inline
/// data.
const INLINE_BYTES: [u32; 3] = [256, 64, 0];

/// The connection and what it owns. Fields are dropped in this order.
#[derive(Debug)]
pub(super) struct RdmaConnection {
    cm: RefCell<Cm>,
    channel: EventChannel,
    qp: Qp,
    /// After the QP, whose place in a shared CQ is free once it is destroyed.
    completions: Completions,
    work_ids: WorkIds,
    receive_pool: ReceivePool,
    pd: Pd,
    context: Context,
    inline_bytes: u32,
    /// Longest message of the device.
    message_bytes_max: u32,
    is_iwarp: bool,
    placement: MemoryPlacement,
    /// Notify mode, or not known yet.
    is_notified: bool,
    queue: SendQueue,
    waiting: Vec<(Work, Option<WrId>), BATCH>,
    polled: [Completed; POLLED],
    notifications: Deque<ArrivedNotification, { RECEIVES as usize }>,
    /// Last packet, while connecting.
    packet: Option<Packet>,
    pub(super) sleep: SleepState,
    pub(super) state: State,
}

/// A notification that core has not taken yet.
#[derive(Clone, Copy, Debug)]
struct ArrivedNotification {
    notification: Notification,
    /// Receive that it arrived in, which is posted again when core takes it.
    slot: u16,
    /// Bytes in that receive.
    bytes: u32,
}

impl RdmaConnection {
    /// Makes the objects of a connection whose device is known, with the first receives posted, in the state INIT. It shares a CQ of `shards`, if there are any, and the device's are large enough.
    pub(super) fn new(
        cm: Cm,
        memory_node: MemoryNode,
        shards: Option<&ShardSet>,
    ) -> Result<Self, ConnectError> {
        let context = cm.context()?;
        let port = context.port(cm.port_number())?;
        port.check_active(&context.name())?;
        let limits = context.limits()?;
        let depth = limits.queue_depth_max.min(SENDS_MAX);
        let pd = Pd::alloc(&context)?;
        let completions = completions(&cm, &context, &limits, depth, shards)?;
        let work_ids = completions.work_ids();
        let placement = memory_node.place(Some(&context.name()));
        let receive_pool = ReceivePool::new(&pd, placement)?;
        let mut qp = queue_pair(&pd, completions.cq(), depth)?;
        qp.modify(&cm.qp_attr(QpState::Init).map_err(connecting::gone)?)?;
        for slot in 0..FIRST_RECEIVES {
            receive_pool.post(&mut qp, work_ids.receive(slot), slot)?;
        }
        Ok(Self {
            inline_bytes: qp.granted().inline_bytes,
            message_bytes_max: port.message_bytes_max,
            is_notified: true,
            placement,
            is_iwarp: context.transport() == Transport::Iwarp,
            channel: cm.channel().clone(),
            cm: cm.into(),
            qp,
            completions,
            work_ids,
            receive_pool,
            pd,
            context,
            queue: SendQueue::new(depth),
            waiting: Vec::new(),
            polled: [Completed::NONE; POLLED],
            notifications: Deque::new(),
            packet: None,
            sleep: SleepState::default(),
            state: State::Open,
        })
    }

    pub(super) const fn is_iwarp(&self) -> bool {
        self.is_iwarp
    }

    /// Returns the memory node of all that it registers.
    pub(super) const fn placement(&self) -> MemoryPlacement {
        self.placement
    }

    pub(super) fn device(&self) -> String {
        self.context.name()
    }

    /// Returns true if the bytes of a write that arrives here become visible in order.
    pub(super) fn keeps_order(&self) -> bool {
        self.qp.writes_arrive_in_order()
    }

    /// Registers a control page and the first landing buffer.
    pub(super) fn register(
        &self,
        first: FirstLanding,
        access: Access,
    ) -> Result<RegisteredMemory, ConnectError> {
        RegisteredMemory::register(&self.pd, first, access, self.placement)
    }

    /// Registers and posts the receives that both ends have agreed on, beside the first.
    pub(super) fn provision_receives(&mut self, receives: u16) -> Result<(), ConnectError> {
        for slot in self.receive_pool.extend(&self.pd, receives)? {
            self.receive_pool.post(&mut self.qp, self.work_ids.receive(slot), slot)?;
        }
        Ok(())
    }

    /// Reserves address space for landing buffers and images that are provisioned on demand, and for small ones.
    pub(super) fn growth(
        &self,
        largest: Layout,
        small: Option<Layout>,
        jobs: &'static Jobs,
        share: &Arc<BudgetShare>,
    ) -> Result<Growth, ConnectError> {
        Ok(Growth::new(&self.pd, largest, small, jobs, share, self.placement)?)
    }

    /// Returns a table for memory that the application lends.
    pub(super) fn lending(&self, jobs: &'static Jobs) -> Lending {
        Lending::new(&self.pd, self.message_bytes_max >= REMOTE_MESSAGE_MIN, jobs)
    }

    /// Sets whether every write of both ends comes with a notification.
    pub(super) const fn set_notified(&mut self, is_notified: bool) {
        self.is_notified = is_notified;
    }

    /// Returns the bytes that are registered for messages.
    pub(super) fn receive_pool_bytes(&self) -> usize {
        self.receive_pool.bytes()
    }
}

/// Makes a CQ, or takes a seat at one, with room for all that a connection can have posted.
fn completions(
    cm: &Cm,
    context: &Context,
    limits: &DeviceLimits,
    send_depth: u32,
    shards: Option<&ShardSet>,
) -> Result<Completions, ConnectError> {
    let depth = send_depth + u32::from(RECEIVES) + 1;
    if let Some((shards, local)) = shards.zip(cm.local_addr())
        && let Some(share) = shards.share(context, limits, depth, local, cm.channel())
    {
        return Ok(Completions::Shared(share));
    }
    Ok(Completions::own(context, depth)?)
}

/// Makes a queue pair with as many inline bytes as the device has.
fn queue_pair(pd: &Pd, cq: &Cq, send_depth: u32) -> Result<Qp, ConnectError> {
    let mut refused = None;
    for inline_bytes in INLINE_BYTES {
        let config = QpConfig { send_depth, receive_depth: RECEIVES.into(), inline_bytes };
        match Qp::create(pd, cq, cq, config) {
            Ok(qp) => return Ok(qp),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.map_or(ConnectError::Lost("before it began"), ConnectError::Verbs))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod played_tests;

#[cfg(test)]
mod remote_write_tests;
