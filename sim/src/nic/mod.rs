//! Hosts with one NIC each, and the wires between them, in virtual time.
//!
//! Memory must be registered (`memory.rs`). A WR is posted, leaves with the doorbell (`post.rs`), and is cut into packets. Each packet reads
//! the sender's memory when it leaves, and becomes visible at the receiver when it arrives (`deliver.rs`). A sender's NIC handles one WR
//! after the other, of all QPs. Statuses are those of `ibv_poll_cq(3)`.
//!
//! Each CPU has its own clock, which its work advances. [`World::run_events`] runs all events that are due. What one CPU does becomes visible
//! to another only by an event.

mod deliver;
mod distance;
mod flight;
mod memory;
mod memory_nodes;
mod paging;
mod post;
mod profile;
mod queue;
mod rate;
mod trace;

use core::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use superpipe_core::{GrowthState, State};
use superpipe_testkit::Rng;

pub use distance::{DISTANCES_MAX, Distance, Distances, OUTLIER_TIMES, Way};
pub use flight::Wr;
pub use memory::{BadAccess, Key, NotRegistered, Rights};
pub use memory_nodes::{CrossingCosts, MemoryNodes, NodeOf};
pub use paging::Paging;
pub(crate) use paging::Work;
pub use post::PostRefused;
pub use profile::{CopyStep, Profile};
pub(crate) use rate::time_ns;
pub use trace::{MemoryUse, Trace, TraceEntry, TraceEvent};

use crate::faults::{EndState, Fault, FaultCoverage, Faults, GrowthCoverage};
use flight::{Flight, NicEvent};
use memory::Mr;
use queue::Queue;

/// Statuses of work completions, with their numbers in `ibv_poll_cq(3)`.
pub mod status {
    /// Success.
    pub const SUCCESS: u32 = 0;
    /// The message is longer than the receive.
    pub const LOC_LEN_ERR: u32 = 1;
    /// The NIC cannot continue the QP.
    pub const LOC_QP_OP_ERR: u32 = 2;
    /// The QP had failed before.
    pub const WR_FLUSH_ERR: u32 = 5;
    /// The receiver cannot take the message.
    pub const REM_INV_REQ_ERR: u32 = 9;
    /// The memory is not registered, not permitted, or too short.
    pub const REM_ACCESS_ERR: u32 = 10;
    /// The receiver does not answer.
    pub const RETRY_EXC_ERR: u32 = 12;
    /// The receiver had posted no receive.
    pub const RNR_RETRY_EXC_ERR: u32 = 13;
}

/// Name of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpName {
    /// Host of the QP.
    pub node: usize,
    /// Index at the host.
    pub index: usize,
}

/// Operation of a WR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// RDMA write.
    Write {
        /// Memory of the peer.
        to: Key,
        /// Offset in it.
        at: u32,
    },
    /// RDMA write, followed by the completion of a receive of the peer.
    WriteWithImmediate {
        /// Memory of the peer.
        to: Key,
        /// Offset in it.
        at: u32,
        /// Immediate data of the receive's completion.
        immediate: u32,
    },
    /// SEND into the oldest receive of the peer.
    Send,
}

/// A work completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wc {
    /// Number of the WR.
    pub id: u64,
    /// One of [`status`].
    pub status: u32,
    /// Bytes received, for a receive.
    pub received: Option<u32>,
    /// Immediate data, for a receive.
    pub immediate: Option<u32>,
}

/// A posted receive.
#[derive(Clone, Copy, Debug)]
struct PostedReceive {
    id: u64,
    to: Key,
    at: u32,
    bytes: u32,
}

struct Qp {
    peer: QpName,
    failed: bool,
    /// End of the retries to a peer that does not answer. WRs complete no sooner.
    retries_until_ns: u64,
    /// WRs whose completion was lost. The next completion frees their places in the send queue.
    lost: usize,
    /// WRs that wait for the doorbell.
    staged: VecDeque<Flight>,
    /// WRs that take a place in the send queue.
    queued: usize,
    receives: VecDeque<PostedReceive>,
    cq: VecDeque<Wc>,
    /// Times at which the last WR arrives, is visible and completes.
    arrives_ns: u64,
    visible_ns: u64,
    completes_ns: u64,
}

#[derive(Default)]
struct Node {
    clock_ns: Cell<u64>,
    /// CPU time, by kind of work.
    worked_ns: [Cell<u64>; 3],
    /// Times at which the system has handled all faults of jobs so far, by handler.
    fault_handlers: Vec<u64>,
    /// Time at which its CPU began to sleep, while it does.
    asleep_from_ns: Cell<Option<u64>>,
    /// Times at which the NIC has sent and received everything so far.
    nic_free_ns: u64,
    ingress_free_ns: u64,
    mrs: Vec<Option<Mr>>,
    qps: Vec<Qp>,
}

/// Hosts, wires, and everything on its way.
pub struct World {
    pub(crate) profile: Profile,
    pub(crate) faults: Faults,
    /// Counts of the faults.
    pub(crate) fault_coverage: FaultCoverage,
    /// Counts of the faults by step of growth.
    pub(crate) growth_coverage: GrowthCoverage,
    /// A fault that can end a connection has struck since this was last cleared.
    pub(crate) broken: bool,
    /// States of the end whose turn it is, and of its peer; `None` while they connect.
    pub(crate) states: [Option<State>; 2],
    pub(crate) rng: Rng,
    /// Trace, if requested.
    pub(crate) trace: Option<Trace>,
    nodes: Vec<Node>,
    queue: Queue<NicEvent>,
    flights: BTreeMap<u64, Flight>,
    /// Failed WRs. Their bytes that are not visible never will be.
    failed: BTreeSet<u64>,
    last_flight: u64,
    /// Time up to which all events have run.
    events_run_until_ns: u64,
    /// A CPU that an event woke.
    woken: Option<usize>,
}

impl World {
    /// Makes `nodes` hosts whose clocks are at 0.
    #[must_use]
    pub fn new(nodes: usize, profile: Profile, faults: Faults, seed: u64) -> Self {
        Self {
            profile,
            faults,
            fault_coverage: FaultCoverage::default(),
            growth_coverage: GrowthCoverage::default(),
            broken: false,
            states: [None; 2],
            rng: Rng::new(seed),
            trace: None,
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            queue: Queue::new(),
            flights: BTreeMap::new(),
            failed: BTreeSet::new(),
            last_flight: 0,
            events_run_until_ns: 0,
            woken: None,
        }
    }

    /// Returns a world without hosts. It stands where a world was lent from, and is never run.
    pub(crate) fn without_hosts() -> Self {
        Self::new(0, Profile::roce_100g(), Faults::default(), 0)
    }

    /// Returns true of a world without hosts, which stands for one that is elsewhere.
    pub(crate) fn has_no_hosts(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the latest clock of all CPUs.
    pub(crate) fn time_ns(&self) -> u64 {
        self.nodes.iter().map(|node| node.clock_ns.get()).max().unwrap_or(0)
    }

    /// Returns the clock of this host's CPU.
    #[must_use]
    pub fn clock_ns(&self, node: usize) -> u64 {
        self.nodes[node].clock_ns.get()
    }

    /// Returns the time of the next event.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        self.queue.next_ns()
    }

    /// Returns the time from now until the wire of a host has sent and received all that was posted. It counts as in use until then.
    pub(crate) fn wire_in_use_ns(&self, node: usize) -> u64 {
        let Node { nic_free_ns, ingress_free_ns, clock_ns, .. } = &self.nodes[node];
        nic_free_ns.max(ingress_free_ns).saturating_sub(clock_ns.get())
    }

    /// Advances the clock of this host's CPU by work that is neither a copy nor a job.
    pub fn spend(&self, node: usize, ns: u64) {
        self.work(node, ns, Work::Other);
    }

    /// Advances the clock of this host's CPU, which does nothing.
    pub(crate) fn wait(&self, node: usize, ns: u64) {
        let clock = &self.nodes[node].clock_ns;
        clock.set(clock.get() + ns);
    }

    /// Lets this host's CPU sleep for a time, or until something arrives.
    pub(crate) fn sleep(&self, node: usize, ns: u64) {
        self.nodes[node].asleep_from_ns.set(Some(self.clock_ns(node)));
        self.wait(node, ns);
    }

    /// Ends the sleep of this host's CPU.
    pub(crate) fn end_sleep(&self, node: usize) {
        self.nodes[node].asleep_from_ns.set(None);
    }

    /// Connects a new QP at each of two hosts.
    pub fn connect(&mut self, nodes: [usize; 2]) -> [QpName; 2] {
        let [one, other] = nodes;
        let name = |node: usize, more: usize| QpName { node, index: self.nodes[node].qps.len() + more };
        let names = [name(one, 0), name(other, usize::from(one == other))];
        for (name, peer) in [(names[0], names[1]), (names[1], names[0])] {
            self.nodes[name.node].qps.push(Qp {
                peer,
                failed: false,
                retries_until_ns: 0,
                lost: 0,
                staged: VecDeque::new(),
                queued: 0,
                receives: VecDeque::new(),
                cq: VecDeque::new(),
                arrives_ns: 0,
                visible_ns: 0,
                completes_ns: 0,
            });
        }
        names
    }

    /// Takes the oldest completion.
    pub fn poll_cq(&mut self, qp: QpName) -> Option<Wc> {
        self.spend(qp.node, self.profile.poll_cq_ns);
        let wc = self.qp(qp).cq.pop_front()?;
        if wc.received.is_none() {
            let qp = self.qp(qp);
            qp.queued -= 1 + core::mem::take(&mut qp.lost);
        }
        Some(wc)
    }

    /// Returns the WRs that the send queue has room for.
    pub(crate) fn room(&self, name: QpName) -> usize {
        self.profile.send_queue.saturating_sub(self.nodes[name.node].qps[name.index].queued)
    }

    /// Returns true if a completion was not polled.
    pub(crate) fn has_completion(&self, name: QpName) -> bool {
        !self.nodes[name.node].qps[name.index].cq.is_empty()
    }

    /// Returns true if a completed receive was not polled.
    pub(crate) fn has_received(&self, name: QpName) -> bool {
        self.nodes[name.node].qps[name.index].cq.iter().any(|wc| wc.received.is_some())
    }

    /// Destroys a QP. What was not read is not sent, no completion comes, and WRs of the peer fail.
    pub(crate) fn destroy_qp(&mut self, name: QpName) {
        let qp = self.qp(name);
        qp.failed = true;
        qp.staged.clear();
        qp.receives.clear();
        qp.cq.clear();
        let failed = |flight: &&Flight| flight.qp == name && flight.status != status::SUCCESS;
        self.failed.extend(self.flights.values().filter(failed).map(|flight| flight.number));
        self.flights.retain(|_, flight| flight.qp != name);
    }

    /// Draws whether a fault strikes now, and counts it with the state of the end that has to cope with it.
    pub(crate) fn strikes(&mut self, fault: Fault) -> bool {
        let state = self.states[usize::from(fault.strikes_peer())];
        let happens = self.faults.happens(fault, state, &mut self.rng);
        if happens {
            self.broken |= fault.is_fatal();
            self.count_fault(fault, state);
        }
        happens
    }

    fn count_fault(&mut self, fault: Fault, state: Option<State>) {
        self.fault_coverage.count(fault, EndState::of(state));
        self.growth_coverage.count(fault, state);
    }

    /// Returns the steps of growth of the end whose turn it is.
    pub(crate) fn growth_state(&self) -> GrowthState {
        self.states[0].map(|state| state.growth).unwrap_or_default()
    }

    /// Counts a job of the end whose turn it is that is late in another step of growth than it began in.
    pub(crate) fn count_late_job(&mut self) {
        self.growth_coverage.count(Fault::LateJob, self.states[0]);
    }

    /// Draws whether a job of the end whose turn it is fails: one in `one_in`, if it is not 0, or as the faults say.
    pub(crate) fn fails_job(&mut self, one_in: usize) -> bool {
        if one_in > 0 && self.rng.one_in(one_in) {
            self.count_fault(Fault::FailedJob, self.states[0]);
            return true;
        }
        self.strikes(Fault::FailedJob)
    }

    /// Returns the time by which all that was written by this QP is visible.
    pub(crate) fn visible_ns(&self, name: QpName) -> u64 {
        self.nodes[name.node].qps[name.index].visible_ns
    }

    /// Returns true if nothing of this QP is on its way and no completion waits.
    #[must_use]
    pub(crate) fn is_idle(&self, name: QpName) -> bool {
        let qp = &self.nodes[name.node].qps[name.index];
        let is_seen = qp.visible_ns <= self.events_run_until_ns;
        is_seen
            && qp.cq.is_empty()
            && qp.staged.is_empty()
            && self.flights.values().all(|flight| flight.qp != name)
    }

    /// Returns true if nothing is on its way and no completion waits.
    #[must_use]
    pub fn is_quiescent(&self) -> bool {
        let idle = |qp: &Qp| qp.cq.is_empty() && qp.staged.is_empty();
        self.queue.is_empty()
            && self.flights.is_empty()
            && self.nodes.iter().flat_map(|node| &node.qps).all(idle)
    }

    fn qp(&mut self, name: QpName) -> &mut Qp {
        &mut self.nodes[name.node].qps[name.index]
    }

    /// Adds an event to the trace, with the clock of this host's CPU.
    pub(crate) fn note_here(&mut self, host: usize, event: TraceEvent) {
        self.note(self.clock_ns(host), host, event);
    }

    pub(crate) fn note(&mut self, at_ns: u64, host: usize, event: TraceEvent) {
        if let Some(trace) = &mut self.trace {
            trace.0.push(TraceEntry { at_ns, host, event });
        }
    }
}
