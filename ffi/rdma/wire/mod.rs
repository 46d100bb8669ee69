//! The QP of one connection and its CQ, with everything that is theirs.
//!
//! ```text
//! connecting   until it is ready: rdma_cm's steps, packets
//! posting      what goes out: writes behind the doorbell, SENDs by themselves
//! polling      what comes back: completions, notices, what the peer says
//! ending       what is left of a peer that is gone, and the last word of this end
//! ```

mod connecting;
mod end;
mod ending;
mod polling;
mod posting;

use super::cm::Cm;
use super::error::ConnectError;
use super::mail::{Mailroom, RECEIVES, SENDS_MAX};
use super::memory::Half;
use super::queue::SendQueue;
use super::sleep::Sleep;
use crate::packet::Packet;
use crate::verbs::{
    Access, CompChannel, Context, Cq, EventChannel, Pd, Qp, QpConfig, QpState, Transport, Wc,
};
use core::cell::RefCell;
use heapless::{Deque, Vec};
use posting::{BATCH, Work};
use superpipe_core::{Layout, Notice, WrId};

pub(super) use connecting::ACK_TIMEOUT;
pub(super) use end::End;

/// Bytes sent inline, the most that is tried first; siw has none.
const INLINE_BYTES: [u32; 3] = [256, 64, 0];
/// Completions that are taken at once.
const POLLED: usize = 16;

/// The wire, with everything that it owns. Fields are dropped in this order.
#[derive(Debug)]
pub(super) struct Wire {
    cm: RefCell<Cm>,
    channel: EventChannel,
    qp: Qp,
    cq: Cq,
    events: CompChannel,
    /// the completion channel will tell of what comes next
    is_armed: bool,
    mailroom: Mailroom,
    pd: Pd,
    context: Context,
    inline_bytes: u32,
    is_iwarp: bool,
    queue: SendQueue,
    waiting: Vec<(Work, Option<WrId>), BATCH>,
    polled: [Wc; POLLED],
    notices: Deque<Noticed, { RECEIVES as usize }>,
    /// the last packet, while connecting
    packet: Option<Packet>,
    pub(super) sleep: Sleep,
    pub(super) end: End,
}

/// A notice that nobody has taken yet.
#[derive(Clone, Copy, Debug)]
struct Noticed {
    notice: Notice,
    /// the receive that it came into, which is posted again when it is taken
    slot: u16,
    /// all that came into it
    bytes: u32,
}

impl Wire {
    /// Makes the objects of a connection whose device is known, with every receive posted, in the state INIT.
    pub(super) fn new(cm: Cm) -> Result<Self, ConnectError> {
        let context = cm.context()?;
        context.port(cm.port_number())?.check_active(&context.name())?;
        let limits = context.limits()?;
        let depth = limits.queue_depth_max.min(SENDS_MAX);
        let pd = Pd::alloc(&context)?;
        let events = CompChannel::create(&context)?;
        let cq = Cq::create(&context, depth + u32::from(RECEIVES) + 1, Some(&events))?;
        let mailroom = Mailroom::new(&pd)?;
        let mut qp = queue_pair(&pd, &cq, depth)?;
        qp.modify(&cm.qp_attr(QpState::Init).map_err(connecting::gone)?)?;
        for slot in 0..RECEIVES {
            mailroom.post(&mut qp, slot)?;
        }
        Ok(Self {
            inline_bytes: qp.granted().inline_bytes,
            is_iwarp: context.transport() == Transport::Iwarp,
            channel: cm.channel().clone(),
            cm: cm.into(),
            qp,
            cq,
            events,
            mailroom,
            pd,
            context,
            queue: SendQueue::new(depth),
            waiting: Vec::new(),
            polled: [Wc::default(); POLLED],
            notices: Deque::new(),
            packet: None,
            is_armed: false,
            sleep: Sleep::default(),
            end: End::Not,
        })
    }

    pub(super) const fn is_iwarp(&self) -> bool {
        self.is_iwarp
    }

    pub(super) fn device(&self) -> String {
        self.context.name()
    }

    /// Whether the bytes of a write that arrives here become visible in order.
    pub(super) fn keeps_order(&self) -> bool {
        self.qp.writes_arrive_in_order()
    }

    /// Registers a seat and a landing buffer.
    pub(super) fn register(&self, layout: Layout, access: Access) -> Result<Half, ConnectError> {
        Half::register(&self.pd, layout, access)
    }

    /// Bytes that are registered for mail.
    pub(super) fn mail_bytes(&self) -> usize {
        self.mailroom.bytes()
    }
}

/// With as much inline as the device gives.
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
