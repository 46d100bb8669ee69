//! Messages that warm up a new connection, so that the first message of the application is as fast as later ones. wire.md 6.7.
//!
//! The memory of a new connection is resident, but not yet in TLB and caches, and no branch of the data path was taken before. The
//! warm-up changes that (docs/architecture.md, decision 11), with the default sizes by 140 messages each way over shared memory and 17 over
//! RDMA. They take less time than the handshake.

use super::setup::{LandingMode, Negotiated};
use super::{Drive, Driver, Received, RecvFailed, RecvOperation, SendFailed, SendOperation};
use crate::config::Config;
use crate::error::Reason;
use crate::fabric::Fabric;
use crate::wire::layout::Layout;

/// Tag of the warm-up messages.
const TAG: u64 = 0;
/// Most messages of one length, which bounds the time of the warm-up: the default ring over shared memory would take 130. The short and the shortest messages
/// go through it once together.
const COUNT_MAX: u32 = 64;
/// Bytes of a short message, which takes one block.
const SHORT_BYTES: u32 = 1024;
/// Bytes of the shortest message, which is in a slot line.
const TINY_BYTES: u32 = 8;
/// Most messages of both directions that one call exchanges, which bounds the call. An answer that has arrived is taken before anything
/// else is polled, since a peer that is done may have closed already.
const HALVES_MAX: u32 = 8;
/// Messages of each length with posted writes, the longest first: few, since each takes a round trip of the network.
const COUNTS_POSTED: [u32; 4] = [1, 8, 4, 4];

/// Lengths and counts of the warm-up messages, the longest first: a few with a CTS, then enough to go through the ring at least
/// once. With posted writes only a few, since packets take time and can be lost, and caches matter less there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarmUpPlan([(u32, u32); 4]);

impl WarmUpPlan {
    /// Makes the plan, which is the same at both ends.
    #[must_use]
    pub fn new(layout: Layout, config: &Config, is_direct: bool) -> Self {
        let Layout { block_bytes, block_count, .. } = layout;
        let ring_bytes = block_bytes * block_count;
        let c0_bytes = config.c0_bytes;
        let long_bytes = c0_bytes.min(ring_bytes / 4);
        let short_bytes = SHORT_BYTES.min(long_bytes);
        let once = |count: u32| (count + 2).min(COUNT_MAX);
        let [rendezvous, long, short, tiny] = if is_direct {
            [2, once(ring_bytes / long_bytes.max(1)), once(block_count), once(block_count)]
        } else {
            COUNTS_POSTED
        };
        Self([(2 * c0_bytes, rendezvous), (long_bytes, long), (short_bytes, short), (TINY_BYTES, tiny)])
    }

    /// Makes the plan of a connection. If its landing is on demand, the messages fit in the landing buffer with which it begins, and none is
    /// above the threshold of the provision protocol, so that the warm-up provisions nothing.
    #[must_use]
    pub fn of(negotiated: &Negotiated, is_direct: bool) -> Self {
        let (config, small) = (&negotiated.config, negotiated.small_buffer());
        let first = small.unwrap_or(negotiated.first_layout());
        let Self([rendezvous, long, short, tiny]) = Self::new(first, config, is_direct);
        let most = small.map_or(u32::MAX, |_| config.threshold_bytes);
        let limited = |(bytes, count): (u32, u32)| (bytes.min(most), count);
        match negotiated.landing {
            LandingMode::AtConnect => Self([rendezvous, long, short, tiny]),
            LandingMode::OnDemand => Self([limited(long), limited(short), tiny, (TINY_BYTES, 0)]),
        }
    }

    /// Returns bytes and count of each kind of message, in order.
    #[must_use]
    pub const fn messages(&self) -> [(u32, u32); 4] {
        self.0
    }

    /// Returns the bytes of the buffer that [`Driver::drive_warm_up`] needs.
    #[must_use]
    pub const fn room_bytes(&self) -> usize {
        let [(rendezvous, _), .., (tiny, _)] = self.0;
        if rendezvous > tiny { rendezvous as usize } else { tiny as usize }
    }
}

/// Operation that warms up a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct WarmUp {
    plan: WarmUpPlan,
    /// Kind of message, and the number exchanged of it.
    kind: usize,
    exchanged: u32,
    /// Messages exchanged so far, of both directions and all kinds.
    steps: u32,
    /// This end sends first.
    is_first: bool,
    stage: Stage,
}

/// Half of an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Sending(SendOperation),
    Receiving(RecvOperation),
    Done,
}

/// Failure of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUpFailed {
    /// The peer does not follow the warm-up.
    OutOfTurn,
    /// The peer cancelled a message, with this reason.
    Cancelled(Reason),
    /// The peer rejected a message, with this reason.
    Rejected(Reason),
    /// The connection is closed.
    Closed,
}

impl WarmUp {
    /// Begins a warm-up, in which one of the ends `is_first` to send.
    pub const fn new(plan: WarmUpPlan, is_first: bool) -> Self {
        let mut warm_up = Self { plan, kind: 0, exchanged: 0, steps: 0, is_first, stage: Stage::Done };
        warm_up.stage = warm_up.first_half();
        warm_up
    }

    /// Returns the count of messages that were sent or received completely. Nothing else that the peer does counts.
    #[must_use]
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    const fn first_half(&self) -> Stage {
        if self.is_first { self.send() } else { Stage::Receiving(RecvOperation::new()) }
    }

    const fn send(&self) -> Stage {
        let (bytes, _) = self.message();
        Stage::Sending(SendOperation::new(TAG, bytes as usize))
    }

    const fn message(&self) -> (u32, u32) {
        let [rendezvous, long, short, tiny] = self.plan.0;
        match self.kind {
            0 => rendezvous,
            1 => long,
            2 => short,
            _ => tiny,
        }
    }

    /// Counts a message that was sent or received.
    fn advance(&mut self) {
        self.steps += 1;
        let was_sent = matches!(self.stage, Stage::Sending(_));
        if was_sent == self.is_first {
            self.stage = if was_sent { Stage::Receiving(RecvOperation::new()) } else { self.send() };
            return;
        }
        self.exchanged += 1;
        if self.exchanged >= self.message().1 {
            (self.kind, self.exchanged) = (self.kind + 1, 0);
        }
        // A kind of which there is no message ends the plan.
        let is_over = self.kind >= self.plan.0.len() || self.message().1 == 0;
        self.stage = if is_over { Stage::Done } else { self.first_half() };
    }
}

impl<F: Fabric> Driver<F> {
    /// Exchanges the next messages with the peer, which does the same, in a buffer `room` of [`WarmUpPlan::room_bytes`]. Sets the
    /// counters to zero when done.
    pub fn drive_warm_up(
        &mut self,
        fabric: &mut F,
        warm_up: &mut WarmUp,
        room: &mut [u8],
    ) -> Drive<Result<(), WarmUpFailed>> {
        if warm_up.stage == Stage::Done {
            return Drive::Done(Ok(()));
        }
        for half in 0..HALVES_MAX {
            match self.drive_half(fabric, warm_up, room) {
                Drive::Done(Ok(())) => warm_up.advance(),
                Drive::Idle if half > 0 => return Drive::Moved,
                driven => return driven,
            }
            if warm_up.stage == Stage::Done {
                self.endpoint.reset_counters();
                return Drive::Done(Ok(()));
            }
        }
        Drive::Moved
    }

    /// Sends or receives one message.
    fn drive_half(
        &mut self,
        fabric: &mut F,
        warm_up: &mut WarmUp,
        room: &mut [u8],
    ) -> Drive<Result<(), WarmUpFailed>> {
        let (bytes, _) = warm_up.message();
        let message = room.get_mut(..bytes as usize).unwrap_or_default();
        match &mut warm_up.stage {
            Stage::Done => Drive::Idle,
            Stage::Sending(send) => self.drive_send(fabric, send, &[message]).map(judge_sent),
            Stage::Receiving(receive) => self
                .drive_recv(fabric, receive, &mut [message])
                .map(|received| judge_received(received, bytes)),
        }
    }
}

fn judge_sent(sent: Result<(), SendFailed>) -> Result<(), WarmUpFailed> {
    sent.map_err(|failed| match failed {
        SendFailed::Closed => WarmUpFailed::Closed,
        SendFailed::Rejected(reason) => WarmUpFailed::Rejected(reason),
        SendFailed::WrongLength | SendFailed::NotOpen => WarmUpFailed::OutOfTurn,
    })
}

fn judge_received(received: Result<Received, RecvFailed>, bytes: u32) -> Result<(), WarmUpFailed> {
    match received {
        Ok(Received { tag: TAG, bytes: its }) if its == bytes as usize => Ok(()),
        Err(RecvFailed::Cancelled(reason)) => Err(WarmUpFailed::Cancelled(reason)),
        Ok(_)
        | Err(RecvFailed::TooSmall(_) | RecvFailed::Busy | RecvFailed::WrongLength | RecvFailed::NotOpen) => {
            Err(WarmUpFailed::OutOfTurn)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::layout::FlagPlace;

    fn layout(block_bytes: u32, block_count: u32) -> Layout {
        Layout { block_bytes, block_count, flags: FlagPlace::Inside }
    }

    fn plan(layout: Layout, c0_bytes: u32, is_direct: bool) -> WarmUpPlan {
        WarmUpPlan::new(layout, &Config { c0_bytes, ..Config::default() }, is_direct)
    }

    /// Default layout of shared memory: bytes of a block, blocks, `c0_bytes`.
    const DEFAULT: (u32, u32, u32) = (4 << 10, 128, 64 << 10);

    #[test]
    fn the_default_ring_is_gone_through_once_and_a_bit() {
        let (block_bytes, block_count, c0_bytes) = DEFAULT;
        let plan = plan(layout(block_bytes, block_count), c0_bytes, true);
        assert_eq!(plan.messages(), [(128 << 10, 2), (64 << 10, 10), (1024, 64), (8, 64)]);
        assert_eq!(plan.room_bytes(), 128 << 10);
    }

    #[test]
    fn over_a_wire_a_few_are_enough() {
        let (block_bytes, block_count, c0_bytes) = DEFAULT;
        let plan = plan(layout(block_bytes, block_count), c0_bytes, false);
        assert_eq!(plan.messages(), [(128 << 10, 1), (64 << 10, 8), (1024, 4), (8, 4)]);
    }

    #[test]
    fn absurd_rings_take_few_messages_that_fit() {
        for (block_bytes, block_count, c0_bytes, expected) in [
            (128, 2, 1, [(2, 2), (1, 64), (1, 4), (8, 4)]),
            (128, 2, 1 << 20, [(2 << 20, 2), (64, 6), (64, 4), (8, 4)]),
            (128, 3, 80, [(160, 2), (80, 6), (80, 5), (8, 5)]),
            (128, 1 << 16, 12 << 10, [(24 << 10, 2), (12 << 10, 64), (1024, 64), (8, 64)]),
            (1 << 20, 64, 12 << 10, [(24 << 10, 2), (12 << 10, 64), (1024, 64), (8, 64)]),
            (64 << 10, 61, 1 << 30, [(2 << 30, 2), (976 << 10, 6), (1024, 63), (8, 63)]),
        ] {
            let layout = layout(block_bytes, block_count);
            assert_eq!(plan(layout, c0_bytes, true).messages(), expected, "{layout:?}");
            let lengths = expected.map(|(bytes, _)| bytes);
            let posted = plan(layout, c0_bytes, false).messages();
            assert_eq!(posted.map(|(bytes, _)| bytes), lengths, "{layout:?}");
            assert_eq!(posted.map(|(_, count)| count), COUNTS_POSTED, "{layout:?}");
        }
    }
}
