//! A host with a NIC each, by number, and the wires between them, in virtual time.
//!
//! Memory is what was registered (`memory.rs`). A WR is posted, goes out with the doorbell (`post.rs`), and is cut into
//! packets, which read the sender's memory as they leave and become visible at the receiver as they arrive (`deliver.rs`).
//! The NIC of a sender handles one WR after the other, whatever QP it is of. Statuses are those of `ibv_poll_cq(3)`.
//!
//! A CPU has a clock of its own: what it does takes time there, and [`World::settle`] lets everything happen that is due
//! by then. Nothing that one CPU does is visible to another without an event.

mod deliver;
mod flight;
mod memory;
mod post;
mod trace;

use core::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use superpipe_core::State;
use superpipe_testkit::Rng;

pub use flight::Wr;
pub use memory::{BadAccess, Key, NotRegistered, Rights};
pub use post::Refused;
pub use trace::{Entry, Trace, Use, What};

use crate::column::Column;
use crate::faults::{Fault, Faults};
use crate::profile::Profile;
use crate::queue::Queue;
use crate::tally::Tally;
use flight::{Event, Flight};
use memory::Mr;

/// Statuses of work completions, by their numbers in `ibv_poll_cq(3)`.
pub mod status {
    /// All went well.
    pub const SUCCESS: u32 = 0;
    /// What came is longer than the receive.
    pub const LOC_LEN_ERR: u32 = 1;
    /// The NIC cannot go on with the QP.
    pub const LOC_QP_OP_ERR: u32 = 2;
    /// The QP had failed before.
    pub const WR_FLUSH_ERR: u32 = 5;
    /// The receiver cannot take what was sent.
    pub const REM_INV_REQ_ERR: u32 = 9;
    /// The memory is not registered, not permitted, or ends before.
    pub const REM_ACCESS_ERR: u32 = 10;
    /// The receiver does not answer.
    pub const RETRY_EXC_ERR: u32 = 12;
    /// The receiver had posted no receive.
    pub const RNR_RETRY_EXC_ERR: u32 = 13;
}

/// A QP by name: whose it is, and which of its.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpName {
    /// The host.
    pub node: usize,
    /// Of the host's.
    pub index: usize,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// RDMA write.
    Write {
        /// The peer's memory.
        to: Key,
        /// Where in it.
        at: u32,
    },
    /// RDMA write, then a receive of the peer's completes with this number.
    WriteWithImmediate {
        /// The peer's memory.
        to: Key,
        /// Where in it.
        at: u32,
        /// What the receive's completion says.
        immediate: u32,
    },
    /// Into the oldest receive of the peer's.
    Send,
}

/// A work completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wc {
    /// The WR's number.
    pub id: u64,
    /// One of [`status`].
    pub status: u32,
    /// Of a receive: bytes that came.
    pub received: Option<u32>,
    /// Of a receive: the number that came with them.
    pub immediate: Option<u32>,
}

/// A receive that is posted.
#[derive(Clone, Copy, Debug)]
struct Receive {
    id: u64,
    to: Key,
    at: u32,
    bytes: u32,
}

struct Qp {
    peer: QpName,
    failed: bool,
    /// The peer is asked again until then, and does not answer: what was posted completes no sooner.
    retries_until_ns: u64,
    /// WRs whose completion was lost, and whose place in the send queue comes back with the next one.
    lost: usize,
    /// Posted, and waiting for the doorbell.
    staged: VecDeque<Flight>,
    /// WRs that take a place in the send queue.
    queued: usize,
    receives: VecDeque<Receive>,
    cq: VecDeque<Wc>,
    /// When the last WR arrives, is visible and completes.
    arrives_ns: u64,
    visible_ns: u64,
    completes_ns: u64,
}

#[derive(Default)]
struct Node {
    clock_ns: Cell<u64>,
    /// Time when its CPU began to sleep, while it does.
    asleep_from_ns: Cell<Option<u64>>,
    /// When the NIC has sent, and received, all that it has begun with.
    nic_free_ns: u64,
    ingress_free_ns: u64,
    mrs: Vec<Option<Mr>>,
    qps: Vec<Qp>,
}

/// Hosts, wires, and what is on its way.
pub struct World {
    pub(crate) profile: Profile,
    pub(crate) faults: Faults,
    /// What struck whom so far.
    pub(crate) tally: Tally,
    /// Something struck that can end a connection.
    pub(crate) broken: bool,
    /// The states of the end whose turn it is, and of its peer; `None` while they connect.
    pub(crate) states: [Option<State>; 2],
    pub(crate) rng: Rng,
    /// While somebody wants it.
    pub(crate) trace: Option<Trace>,
    nodes: Vec<Node>,
    queue: Queue<Event>,
    flights: BTreeMap<u64, Flight>,
    /// Those that failed: what of them is not visible by then never is.
    failed: BTreeSet<u64>,
    last_flight: u64,
    /// All that was due by then has happened.
    settled_ns: u64,
    /// A CPU that slept until something came.
    woken: Option<usize>,
}

impl World {
    /// So many hosts, all their clocks at 0.
    #[must_use]
    pub fn new(nodes: usize, profile: Profile, faults: Faults, seed: u64) -> Self {
        Self {
            profile,
            faults,
            tally: Tally::default(),
            broken: false,
            states: [None; 2],
            rng: Rng::new(seed),
            trace: None,
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            queue: Queue::new(),
            flights: BTreeMap::new(),
            failed: BTreeSet::new(),
            last_flight: 0,
            settled_ns: 0,
            woken: None,
        }
    }

    /// A world without hosts: what is left where one was lent from.
    pub(crate) fn nowhere() -> Self {
        Self::new(0, Profile::roce_100g(), Faults::default(), 0)
    }

    /// Whether it was lent to somebody, and this is what was left.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.nodes.is_empty()
    }

    /// When the last of the CPUs ended what it did.
    pub(crate) fn time_ns(&self) -> u64 {
        self.nodes.iter().map(|node| node.clock_ns.get()).max().unwrap_or(0)
    }

    /// The clock of this host's CPU.
    #[must_use]
    pub fn clock_ns(&self, node: usize) -> u64 {
        self.nodes[node].clock_ns.get()
    }

    /// This host's CPU is busy for so long.
    pub fn spend(&self, node: usize, ns: u64) {
        let clock = &self.nodes[node].clock_ns;
        clock.set(clock.get() + ns);
    }

    /// This host's CPU sleeps for so long, or until anything comes.
    pub(crate) fn sleep(&self, node: usize, ns: u64) {
        self.nodes[node].asleep_from_ns.set(Some(self.clock_ns(node)));
        self.spend(node, ns);
    }

    /// This host's CPU does not sleep any more.
    pub(crate) fn awake(&self, node: usize) {
        self.nodes[node].asleep_from_ns.set(None);
    }

    /// A new QP at each of two hosts, connected.
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

    /// Takes the oldest completion out, if there is one by now.
    pub fn poll_cq(&mut self, qp: QpName) -> Option<Wc> {
        self.spend(qp.node, self.profile.poll_cq_ns);
        let wc = self.qp(qp).cq.pop_front()?;
        if wc.received.is_none() {
            let qp = self.qp(qp);
            qp.queued -= 1 + core::mem::take(&mut qp.lost);
        }
        Some(wc)
    }

    /// WRs that the send queue has room for.
    pub(crate) fn room(&self, name: QpName) -> usize {
        self.profile.send_queue.saturating_sub(self.nodes[name.node].qps[name.index].queued)
    }

    /// Whether a receive has completed that was not polled.
    pub(crate) fn has_received(&self, name: QpName) -> bool {
        self.nodes[name.node].qps[name.index].cq.iter().any(|wc| wc.received.is_some())
    }

    /// A QP ends: what was not read is not sent, no completion comes, and the peer's WRs find nobody.
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

    /// Whether a fault strikes now; it is counted, with the state of who has to cope with it.
    pub(crate) fn strikes(&mut self, fault: Fault) -> bool {
        let columns = Column::of(self.states[usize::from(fault.strikes_peer())]);
        let happens = self.faults.happens(fault, columns, &mut self.rng);
        if happens {
            self.broken |= fault.is_fatal();
            self.tally.count(fault, columns);
        }
        happens
    }

    /// Nothing of this QP is on its way, and no completion waits.
    #[must_use]
    pub(crate) fn is_idle(&self, name: QpName) -> bool {
        let qp = &self.nodes[name.node].qps[name.index];
        let is_seen = qp.visible_ns <= self.settled_ns;
        is_seen
            && qp.cq.is_empty()
            && qp.staged.is_empty()
            && self.flights.values().all(|flight| flight.qp != name)
    }

    /// Nothing is on its way, and no completion waits.
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

    /// Into the trace, with the time of this host's CPU.
    pub(crate) fn note_here(&mut self, host: usize, what: What) {
        self.note(self.clock_ns(host), host, what);
    }

    pub(crate) fn note(&mut self, at_ns: u64, host: usize, what: What) {
        if let Some(trace) = &mut self.trace {
            trace.0.push(Entry { at_ns, host, what });
        }
    }
}
