//! Delivery: events of a WR from the wire to the peer and back.

use super::flight::{Flight, NicEvent, Piece, Placement};
use super::trace::TraceEvent;
use super::{Op, QpName, Wc, World, status};

impl World {
    /// Runs all events due by `by_ns`, or until one wakes a CPU. Returns that CPU, whose clock is then at the event.
    pub fn run_events(&mut self, by_ns: u64) -> Option<usize> {
        while let Some((now, event)) = self.queue.pop_due(by_ns) {
            self.handle_event(now, event);
            if let Some(host) = self.woken.take() {
                self.events_run_until_ns = self.events_run_until_ns.max(now);
                return Some(host);
            }
        }
        self.events_run_until_ns = self.events_run_until_ns.max(by_ns);
        None
    }

    /// Wakes the CPU of a host.
    fn wake(&mut self, now: u64, host: usize) {
        let node = &self.nodes[host];
        let Some(from_ns) = node.asleep_from_ns.take() else { return };
        let woken_ns = now.max(from_ns);
        if woken_ns < node.clock_ns.get() {
            node.clock_ns.set(woken_ns);
            self.woken = Some(host);
        }
    }

    fn handle_event(&mut self, now: u64, event: NicEvent) {
        match event {
            NicEvent::Read { flight, pieces, left_ns, arrives_ns } => {
                self.note_departure(now, flight, &pieces, left_ns, arrives_ns);
                self.read(flight, pieces);
            }
            NicEvent::Arrive { flight } => self.arrive(now, flight),
            NicEvent::Placement(place) => self.place(now, &place),
            NicEvent::Receive { flight } => self.receive(now, flight),
            NicEvent::Done { flight } => self.done(now, flight),
        }
    }

    /// Ends a WR. A WR that the peer does not answer is retried for a while, and delays those behind it.
    fn done(&mut self, now: u64, number: u64) {
        let Some(flight) = self.flights.get_mut(&number) else { return };
        let Some(fails) = flight.fails.take() else {
            let (name, unanswered) = (flight.qp, flight.status == status::RETRY_EXC_ERR);
            let retry_ns = self.profile.retry_ns;
            let qp = self.qp(name);
            if unanswered && qp.retries_until_ns == 0 {
                qp.retries_until_ns = now + retry_ns;
            }
            let until = qp.retries_until_ns;
            if until > now {
                self.queue.push(until, NicEvent::Done { flight: number });
            } else if let Some(flight) = self.flights.remove(&number) {
                let status = flight.status;
                self.complete(now, flight, status);
            }
            return;
        };
        flight.status = fails;
        self.done(now, number);
    }

    fn note_departure(&mut self, now: u64, wr: u64, pieces: &[Piece], left_ns: u64, arrives_ns: u64) {
        if let Some(flight) = self.flights.get(&wr) {
            let host = flight.qp.node;
            let bytes = pieces.iter().map(|piece| piece.bytes).sum();
            let offset = pieces.first().map_or(0, |piece| piece.offset);
            self.note(now, host, TraceEvent::Leave { wr, offset, bytes, left_ns, arrives_ns });
        }
    }

    fn read(&mut self, number: u64, pieces: Vec<Piece>) {
        let Some(mut flight) = self.flights.remove(&number) else { return };
        flight.unread -= 1;
        let wr = flight.wr;
        for Piece { offset, bytes, at_ns } in pieces {
            let data = if wr.inline {
                flight.data[offset as usize..][..bytes as usize].to_vec()
            } else {
                match self.bytes(wr.from, wr.at + offset, bytes) {
                    Ok(data) => data.to_vec(),
                    // A QP that has failed reads nothing.
                    Err(_) if flight.status != status::SUCCESS => continue,
                    Err(error) => panic!("the NIC reads what is gone: {error}"),
                }
            };
            match wr.op {
                Op::Write { to, at } | Op::WriteWithImmediate { to, at, .. } => {
                    let at = at.saturating_add(offset);
                    self.queue.push(at_ns, NicEvent::Placement(Placement { flight: number, to, at, data }));
                }
                Op::Send if wr.inline => {}
                Op::Send => flight.data.extend_from_slice(&data),
            }
        }
        self.flights.insert(number, flight);
    }

    fn arrive(&mut self, now: u64, number: u64) {
        let Some(flight) = self.flights.get(&number) else { return };
        let (name, bytes) = (flight.qp, flight.wr.bytes);
        let peer = self.nodes[name.node].qps[name.index].peer;
        let status = match flight.wr.op {
            _ if self.nodes[peer.node].qps[peer.index].failed => status::RETRY_EXC_ERR,
            Op::Write { to, at } | Op::WriteWithImmediate { to, at, .. }
                if to.node != peer.node || !self.may_write(to, at, bytes) =>
            {
                self.fail(now, peer);
                status::REM_ACCESS_ERR
            }
            Op::Write { .. } | Op::WriteWithImmediate { .. } | Op::Send => return,
        };
        if let Some(flight) = self.flights.get_mut(&number) {
            flight.status = status;
        }
    }

    fn place(&mut self, now: u64, place: &Placement) {
        let Placement { flight, to, at, ref data } = *place;
        let fails = self.flights.get(&flight).is_some_and(|flight| flight.status != status::SUCCESS);
        if fails || self.failed.contains(&flight) {
            return;
        }
        #[expect(clippy::cast_possible_truncation, reason = "of one packet")]
        let bytes = data.len() as u32;
        // Memory that was deregistered meanwhile takes nothing.
        if let Ok(there) = self.bytes_mut(to, at, bytes) {
            there.copy_from_slice(data);
            self.note(now, to.node, TraceEvent::Visible { wr: flight, bytes, to, at });
            self.wake(now, to.node);
        }
    }

    /// Completes a receive of the peer for a SEND or a write with immediate.
    fn receive(&mut self, now: u64, number: u64) {
        // Receives complete in order, and none after a failed WR.
        let Some(qp) = self.flights.get(&number).map(|flight| flight.qp) else { return };
        let failed = |flight: &Flight| flight.qp == qp && flight.status != status::SUCCESS;
        if self.flights.range(..number).any(|(_, flight)| failed(flight)) {
            return;
        }
        let Some(flight) = self.flights.get_mut(&number).filter(|flight| flight.status == status::SUCCESS)
        else {
            return;
        };
        let (wr, data, qp) = (flight.wr, core::mem::take(&mut flight.data), flight.qp);
        let peer = self.qp(qp).peer;
        let is_gone = self.qp(peer).failed;
        let Some(receive) = self.qp(peer).receives.pop_front().filter(|_| !is_gone) else {
            let status = if is_gone { status::RETRY_EXC_ERR } else { status::RNR_RETRY_EXC_ERR };
            self.set_status(number, status);
            return;
        };
        let mut wc =
            Wc { id: receive.id, status: status::SUCCESS, received: Some(wr.bytes), immediate: None };
        match wr.op {
            Op::WriteWithImmediate { immediate, .. } => wc.immediate = Some(immediate),
            Op::Write { .. } => {}
            Op::Send if wr.bytes > receive.bytes => {
                wc.status = status::LOC_LEN_ERR;
                self.set_status(number, status::REM_INV_REQ_ERR);
            }
            Op::Send => match self.bytes_mut(receive.to, receive.at, wr.bytes) {
                Ok(there) => there.copy_from_slice(&data),
                Err(error) => panic!("a receive names what is gone: {error}"),
            },
        }
        self.qp(peer).cq.push_back(wc);
        self.wake(now, peer.node);
        let event = TraceEvent::Receive { wr: number, id: wc.id, status: wc.status };
        self.note(now, peer.node, event);
        if wc.status != status::SUCCESS {
            self.fail(now, peer);
        }
    }

    fn set_status(&mut self, number: u64, status: u32) {
        if let Some(flight) = self.flights.get_mut(&number) {
            flight.status = status;
        }
    }

    /// Completes a WR. An unsignaled WR only frees its place in the queue, unless it failed.
    pub(super) fn complete(&mut self, now: u64, flight: Flight, status: u32) {
        let Flight { number, qp: name, wr, lost, .. } = flight;
        self.note(now, name.node, TraceEvent::Complete { wr: number, status, is_lost: lost });
        let qp = self.qp(name);
        match wr.id {
            None if status == status::SUCCESS => qp.queued -= 1,
            Some(_) if lost && status == status::SUCCESS => qp.lost += 1,
            id => qp.cq.push_back(Wc { id: id.unwrap_or(0), status, received: None, immediate: None }),
        }
        self.wake(now, name.node);
        if status != status::SUCCESS {
            self.failed.insert(number);
            self.fail(now, name);
        }
    }

    /// Ends a QP, as `ibv_modify_qp` to the error state does.
    pub(crate) fn fail_qp(&mut self, name: QpName) {
        let now = self.clock_ns(name.node);
        self.fail(now, name);
    }

    /// Returns true if the QP has failed, or was destroyed.
    pub(crate) fn has_failed(&self, name: QpName) -> bool {
        self.nodes[name.node].qps[name.index].failed
    }

    /// Fails a QP: what has not completed is flushed, and what is on its way never becomes visible.
    fn fail(&mut self, now: u64, name: QpName) {
        if core::mem::replace(&mut self.qp(name).failed, true) {
            return;
        }
        self.note(now, name.node, TraceEvent::Failed { qp: name.index });
        for flight in self.flights.values_mut().filter(|flight| flight.qp == name) {
            flight.status = status::WR_FLUSH_ERR;
        }
    }
}
