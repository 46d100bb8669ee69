//! Posting: from the caller to the wire, and when each packet leaves, arrives and becomes visible.

use core::fmt;

use super::flight::{Flight, NicEvent, Piece, Placement, Wr};
use super::trace::TraceEvent;
use super::{Key, Op, PostedReceive, QpName, World, status};
use crate::faults::Fault;

/// Most pieces of a split packet.
const PIECES_MAX: usize = 5;

/// Longest delay by a fault, in round trips: several short transfers pass meanwhile.
pub(crate) const LATE_ROUND_TRIPS: usize = 20;

/// Cause why nothing was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostRefused {
    /// The send queue is full.
    SqFull,
    /// More bytes than a WR can carry inline.
    InlineTooLong {
        /// Bytes of the WR.
        bytes: u32,
        /// Limit of the profile.
        most: u32,
    },
}

impl fmt::Display for PostRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SqFull => f.write_str("the send queue is full; post again after a completion"),
            Self::InlineTooLong { bytes, most } => {
                write!(f, "{bytes} bytes cannot be inline; post at most {most} so, or without inline")
            }
        }
    }
}

impl World {
    /// Posts a WR, which leaves with the doorbell. Returns its number for [`is_read`](Self::is_read).
    ///
    /// # Errors
    /// [`PostRefused`]. Then nothing was posted.
    ///
    /// # Panics
    /// If the local memory is not registered. Verbs report that by a completion, but here it is our bug.
    pub fn post(&mut self, name: QpName, wr: Wr) -> Result<u64, PostRefused> {
        let (most, room) = (self.profile.inline_bytes, self.profile.send_queue);
        if wr.inline && wr.bytes > most {
            return Err(PostRefused::InlineTooLong { bytes: wr.bytes, most });
        }
        if self.qp(name).queued >= room {
            return Err(PostRefused::SqFull);
        }
        self.spend(name.node, self.profile.post_ns);
        let data = self.bytes(wr.from, wr.at, wr.bytes).unwrap_or_else(|error| panic!("{error}"));
        let data = if wr.inline { data.to_vec() } else { Vec::new() };
        self.last_flight += 1;
        let number = self.last_flight;
        let (status, fails, lost) = (status::SUCCESS, None, false);
        let flight = Flight { number, qp: name, wr, data, unread: 0, visible_ns: 0, status, fails, lost };
        let qp = self.qp(name);
        qp.queued += 1;
        qp.staged.push_back(flight);
        let Wr { id, op, from, bytes, .. } = wr;
        self.note_here(name.node, TraceEvent::Post { wr: number, op, bytes, from, id });
        Ok(number)
    }

    /// Posts a receive.
    pub fn post_receive(&mut self, name: QpName, id: u64, to: Key, at: u32, bytes: u32) {
        self.spend(name.node, self.profile.post_ns);
        self.qp(name).receives.push_back(PostedReceive { id, to, at, bytes });
    }

    /// Sends the posted WRs.
    pub fn ring_doorbell(&mut self, name: QpName) {
        if self.qp(name).staged.is_empty() {
            return;
        }
        self.spend(name.node, self.profile.doorbell_ns);
        while let Some(flight) = self.qp(name).staged.pop_front() {
            self.launch(flight);
        }
    }

    /// Returns true if the NIC has read the bytes of this WR, or copied them when it was posted.
    #[must_use]
    pub fn is_read(&self, name: QpName, number: u64) -> bool {
        let staged = &self.nodes[name.node].qps[name.index].staged;
        match staged.iter().find(|flight| flight.number == number) {
            Some(staged) => staged.wr.inline,
            None => self.flights.get(&number).is_none_or(|flight| flight.wr.inline || flight.unread == 0),
        }
    }

    /// Returns true if a NIC may read an MR for a WR, or a write to it is not visible.
    pub(crate) fn is_in_use(&self, key: Key) -> bool {
        let is_of = |flight: &Flight, has_left: bool| {
            let is_live = flight.status == status::SUCCESS;
            let is_read = flight.wr.from == key && (!has_left || flight.unread > 0) && !flight.wr.inline;
            let is_written = matches!(flight.wr.op, Op::Write { to, .. } if to == key)
                && (!has_left || flight.visible_ns > self.events_run_until_ns);
            is_live && (is_read || is_written)
        };
        self.flights.values().any(|flight| is_of(flight, true))
            || self
                .nodes
                .iter()
                .flat_map(|node| &node.qps)
                .any(|qp| !qp.failed && qp.staged.iter().any(|flight| is_of(flight, false)))
    }

    fn launch(&mut self, mut flight: Flight) {
        let (name, wr) = (flight.qp, flight.wr);
        let now = self.clock_ns(name.node);
        if self.qp(name).failed {
            self.complete(now, flight, status::WR_FLUSH_ERR);
            return;
        }
        let nodes = self.profile.memory_nodes;
        let image_ns = nodes.map_or(0, |nodes| nodes.read_ns());
        let fetch_ns = if wr.inline { 0 } else { self.profile.fetch_ns + image_ns };
        let arrival_ns = nodes.map_or(0, |nodes| nodes.arrival_ns());
        let mut leaves = self.nodes[name.node].nic_free_ns.max(now + fetch_ns) + self.profile.gap_ns;
        let round_trip = 2 * self.profile.latency_ns;
        let overtaken = self.strikes(Fault::OvertakenWrite);
        let write_late = if overtaken { self.below(round_trip / 2) } else { 0 };
        if self.strikes(Fault::QpError) {
            if self.rng.one_in(2) {
                flight.status = status::LOC_QP_OP_ERR;
            } else {
                flight.fails = Some(status::LOC_QP_OP_ERR);
            }
        }
        flight.lost = wr.id.is_some() && self.strikes(Fault::LostCompletion);
        let peer = self.qp(name).peer.node;
        let (mut before, mut visible) = (self.qp(name).arrives_ns, 0);
        let mut offset = 0;
        loop {
            let bytes = self.profile.mtu_bytes.min(wr.bytes - offset);
            let read_at = leaves;
            let wire_ns = self.profile.wire_ns(u64::from(bytes));
            let device_ns = |memory| nodes.map_or(0, |nodes| nodes.device_ns(memory, u64::from(bytes)));
            let read_ns = nodes.filter(|_| !wr.inline).map_or(0, |nodes| device_ns(nodes.image));
            let write_ns = nodes.map_or(0, |nodes| device_ns(nodes.landing));
            leaves += wire_ns.max(read_ns);
            // The receiver's wire takes packets of all senders in the order in which they left.
            let ingress = &mut self.nodes[peer].ingress_free_ns;
            *ingress = (*ingress + wire_ns.max(write_ns)).max(leaves + self.profile.latency_ns + arrival_ns);
            // Packets of a QP arrive in order, but may become visible in another.
            let arrives = before.max(*ingress + wr.delay_ns);
            if offset == 0 {
                self.queue.push(arrives, NicEvent::Arrive { flight: flight.number });
            }
            before = if wr.delay_ns > 0 { before } else { arrives };
            let pieces = self.split(offset, bytes, arrives + write_late, &mut visible, round_trip / 2);
            flight.unread += 1;
            let read = NicEvent::Read { flight: flight.number, pieces, left_ns: leaves, arrives_ns: arrives };
            self.queue.push(read_at, read);
            offset += bytes;
            if offset >= wr.bytes {
                break;
            }
        }
        self.nodes[name.node].nic_free_ns = leaves;
        let late = if self.strikes(Fault::LateCompletion) { self.late_ns() } else { 0 };
        let latency = self.profile.latency_ns;
        let qp = self.qp(name);
        qp.arrives_ns = before;
        qp.visible_ns = qp.visible_ns.max(visible);
        qp.completes_ns =
            qp.completes_ns.max(leaves + wr.delay_ns + 2 * latency + late).max(before + latency);
        let (visible, completes) = (qp.visible_ns, qp.completes_ns);
        // A receive completes after the last byte, and the sender's completion follows.
        let is_received = !matches!(wr.op, Op::Write { .. });
        if is_received {
            self.queue.push(visible + 1, NicEvent::Receive { flight: flight.number });
        }
        let done = if is_received { completes.max(visible + 1) } else { completes };
        self.queue.push(done, NicEvent::Done { flight: flight.number });
        flight.visible_ns = visible;
        self.flights.insert(flight.number, flight);
    }

    /// Draws a delay of up to 20 round trips.
    pub(crate) fn late_ns(&mut self) -> u64 {
        self.below(2 * self.profile.latency_ns * LATE_ROUND_TRIPS as u64)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.rng.next() % limit.max(1)
    }

    /// Returns the pieces in which a packet becomes visible, and when. With order inside a write each follows the one before. No delay is a
    /// round trip, so that an answer to a piece arrives after the whole packet.
    fn split(
        &mut self,
        offset: u32,
        bytes: u32,
        arrives: u64,
        visible: &mut u64,
        late_max: u64,
    ) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let is_split = bytes > 8 && self.strikes(Fault::SplitPacket);
        let count = if is_split { 2 + self.rng.below(PIECES_MAX - 1) } else { 1 };
        let grain = [8, 16, 64][self.rng.below(3)];
        let mut cuts = [bytes; PIECES_MAX];
        for cut in &mut cuts[..count - 1] {
            // Half of the cuts are near the end, where the flag is.
            let far = if self.rng.one_in(2) { bytes } else { bytes.min(128) };
            #[expect(clippy::cast_possible_truncation, reason = "below bytes")]
            let back = self.rng.below(far as usize) as u32;
            *cut = (bytes - back).next_multiple_of(grain).min(bytes);
        }
        cuts[..count].sort_unstable();
        let mut from = 0;
        for cut in &cuts[..count] {
            if *cut > from || bytes == 0 {
                let late = if is_split { self.below(late_max) } else { 0 };
                let mut at_ns = arrives + late;
                if self.profile.order_inside_write {
                    at_ns = at_ns.max(*visible);
                }
                *visible = at_ns.max(*visible);
                pieces.push(Piece { offset: offset + from, bytes: cut - from, at_ns });
            }
            from = *cut;
        }
        pieces
    }

    /// Stores directly: other CPUs see the bytes a little later, in order.
    pub(crate) fn store(&mut self, name: QpName, to: Key, at: u32, data: Vec<u8>, delay_ns: u64) {
        let at_ns = self.clock_ns(name.node) + self.profile.store_ns + delay_ns;
        let visible_ns = &mut self.qp(name).visible_ns;
        *visible_ns = at_ns.max(*visible_ns);
        self.queue.push(at_ns, NicEvent::Placement(Placement { flight: 0, to, at, data }));
    }
}
