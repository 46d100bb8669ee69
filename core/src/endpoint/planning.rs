//! Planned messages: how the next one goes, and what it took. docs/model.md.

use super::Endpoint;
use crate::config::{Config, FirstChunk};
use crate::fabric::Fabric;
use crate::nanos::Nanos;
use crate::plan::{Memory, Plan, Terms};
use crate::planning::Planned;
use crate::protocol::Protocol;
use crate::send::TransferId;
use crate::wire::sequence::is_before;

impl<F: Fabric> Endpoint<F> {
    /// Returns the terms of a planner of the messages that this end sends. `None` if another protocol was asked for, which they get.
    #[must_use]
    pub fn planning_terms(&self) -> Option<Terms> {
        self.config.planning_terms(F::DIRECT, self.peer_landing_bytes())
    }

    /// Plans a message that is about to begin, if messages of this end are planned. With direct store only those out of mapped memory have a choice.
    pub(super) fn plan(&mut self, fabric: &mut F, bytes: u64, memory: Memory) -> Option<Plan> {
        if F::DIRECT && memory != Memory::Kept || !self.config.protocol.may_be_planned() {
            return None;
        }
        if fabric.planning(&self.link).is_none() {
            if self.config.protocol != Protocol::Auto {
                return None;
            }
            fabric.begin_planning(&self.link, self.planning_terms()?);
            fabric.planning(&self.link)?;
        }
        let now = fabric.now();
        let is_idle = self.is_nearly_idle(fabric, bytes);
        let landing_bytes = self.peer_landing_bytes();
        fabric.planning(&self.link).map(|planning| {
            planning.fit_landing(landing_bytes);
            planning.plan(bytes, memory, now, is_idle)
        })
    }

    /// Returns true if what was sent and not acknowledged is less than an eighth of a message of `bytes` bytes, so that it hardly counts in its time.
    fn is_nearly_idle(&mut self, fabric: &mut F, bytes: u64) -> bool {
        let [produced, acked] = self.sender.blocks();
        if produced != acked {
            self.refill(fabric);
        }
        let [produced, acked] = self.sender.blocks();
        let block_bytes = u64::from(self.sender.layout().block_bytes);
        produced.wrapping_sub(acked).saturating_mul(block_bytes) <= bytes / 8
    }

    /// Returns the policy of a message in such memory: that of its plan, if it was planned.
    pub(super) fn message_config(&self, plan: Option<Plan>, memory: Memory) -> Config {
        let Some(plan) = plan else {
            let asks_cts = self.config.first_chunk != FirstChunk::WithoutCts;
            let protocol = match (self.config.protocol, memory) {
                (Protocol::Auto, Memory::Kept) if asks_cts => Protocol::RegisterCached,
                (Protocol::Auto, Memory::KeepableAgain) if asks_cts => Protocol::Register,
                (Protocol::Auto, _) => Protocol::Superpipeline,
                (negotiated, _) => negotiated,
            };
            return Config { protocol, ..self.config };
        };
        Config {
            protocol: plan.way.protocol(),
            c0_bytes: plan.c0_bytes,
            growth_q8: plan.growth_q8,
            chunk_bytes: match (self.config.chunk_bytes, plan.chunk_bytes) {
                (0, bytes) | (bytes, 0) => bytes,
                (most, bytes) => bytes.min(most),
            },
            ..self.config
        }
    }

    /// Notes that the message that was planned last has begun, and, if all of it is sent, its end.
    pub(crate) fn note_planned(&mut self, fabric: &mut F, id: TransferId, bytes: u64) {
        if let Some(planning) = fabric.planning(&self.link) {
            planning.begin(id.key(), bytes);
        }
        self.note_planned_end(fabric);
    }

    /// Forgets a message that was planned and has not begun, since its operation ends.
    pub(crate) fn forget_plan(&self, fabric: &mut F) {
        if let Some(planning) = fabric.planning(&self.link) {
            planning.forget_held();
        }
    }

    /// Forgets a message that is cancelled.
    pub(super) fn forget_planned(&self, fabric: &mut F, id: TransferId) {
        if let Some(planning) = fabric.planning(&self.link) {
            planning.forget(|key| key == id.key());
        }
    }

    /// Forgets a message that the receiver rejected.
    pub(super) fn forget_rejected(&self, fabric: &mut F, transfer: u64) {
        if let Some(planning) = fabric.planning(&self.link) {
            planning.forget(|(number, _)| number == transfer);
        }
    }

    /// Notes that a planned message goes in blocks, since the peer or the fabric could not go its way.
    pub(super) fn note_declined(&self, fabric: &mut F, id: TransferId) {
        if let Some(planning) = fabric.planning(&self.link) {
            planning.decline(id.key());
        }
    }

    /// Notes the end of the planned message, if the chunk that was just sent was its last.
    #[inline]
    pub(super) fn note_planned_end(&mut self, fabric: &mut F) {
        if let Some(planning) = fabric.planning(&self.link)
            && let Some(key @ (number, _)) = planning.open()
            && number == self.sender.newest_transfer()
            && self.sender.open_key() != Some(key)
        {
            let now = fabric.now();
            if let Some(planning) = fabric.planning(&self.link) {
                planning.end(self.sender.blocks_sent(), now);
            }
            self.wants_ack = true;
        }
    }

    /// Observes planned messages that the peer has acknowledged, and whose memory is released.
    #[inline]
    pub(super) fn look_at_planned(&mut self, fabric: &mut F) {
        if fabric.planning(&self.link).is_some_and(|planning| planning.is_pending()) {
            let now = fabric.now();
            let [_, acked] = self.sender.blocks();
            let (sender, zero_copy) = (&self.sender, &self.zero_copy);
            let is_open = |key| sender.open_key() == Some(key);
            let is_over = |key, blocks| {
                let is_held = zero_copy.source.is_some_and(|source| source.id.key() == key);
                !is_before(acked, blocks) && !is_held
            };
            let Some(looked) = fabric.planning(&self.link).map(|planning| planning.begin_look(now)) else {
                return;
            };
            while let Some(planning) = fabric.planning(&self.link) {
                let Some(planned) = planning.next_over([looked, now], is_open, is_over) else {
                    self.wants_ack |= planning.awaits_ack();
                    return;
                };
                let Planned { bytes, memory, way, reason, is_declined, .. } = planned;
                #[expect(clippy::cast_possible_truncation, reason = "nanoseconds of a message")]
                let predicted_ns = planned.predicted_ns as u64;
                let begin = now.0.saturating_sub(planned.took_ns);
                record!(fabric, &self.link, since Some(Nanos(begin)), Planned { bytes, memory, way, reason, predicted_ns, is_declined });
            }
        }
    }
}
