//! A connection of core between two hosts of a simulated machine, with the memory of the messages of both ends.

use superpipe_core::driver::{Drive, Driver, RecvOperation, SendOperation, WaitStrategy};
use superpipe_core::plan::Planner;
use superpipe_core::recorder::Record;
use superpipe_core::{
    Arrival, Buffer, Config, Endpoint, JobOutcome, Layout, Length, Nanos, Origin, Planning, RecvMemory,
    RefusedSend, Registration, RemoteClaim, SendMemory, TransferId,
};
use superpipe_testkit::pair::IDLE_TIMEOUT_NS;
use superpipe_testkit::{PairFabric, Setup};

use crate::fabric::{ArrivalFlags, SimFabric};
use crate::nic::World;

/// Memory of the messages, as the ends name it to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffers {
    /// It is not named. Messages are pushed, so that their chunks may be as long as they are; an operation moves 1 MiB at a time.
    Unnamed,
    /// It is not named, and messages are sent by operations.
    Slices,
    /// It is lent for each message, to be registered for it. Of messages above C0 all must come by remote writes.
    Lent,
    /// It was registered before, which takes no time. The same.
    Registered,
    /// A cache of registrations: it is lent for the first message of each direction, and registered from then on. The same.
    Cached,
}

/// Terms of a connection, and the length of its messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) config: Config,
    pub(crate) layout: Layout,
    pub(crate) buffers: Buffers,
    pub(crate) bytes: usize,
    /// Both ends plan their messages, and begin with this planner: then messages may come any way.
    pub(crate) planner: Option<Planner>,
}

impl Terms {
    /// Returns the bytes of a message that come by remote writes: all, or none up to C0.
    const fn remote_bytes(&self) -> u64 {
        let is_short = self.bytes as u64 <= self.config.c0_bytes as u64;
        if matches!(self.buffers, Buffers::Unnamed | Buffers::Slices) || is_short {
            0
        } else {
            self.bytes as u64
        }
    }
}

struct End {
    driver: Driver<SimFabric<false>>,
    /// Bytes of its messages, empty before the first one.
    payload: Vec<u8>,
    received: Vec<u8>,
    /// Memory of its messages, and of those that it receives.
    source: Option<Buffer>,
    destination: Option<Buffer>,
    /// Their registrations, if these were made before.
    registered_source: Option<Registration>,
    registered_destination: Option<RemoteClaim>,
}

/// A message that is sent.
enum Sending {
    /// By an operation, which names memory. It moves 1 MiB in each call at most.
    Operation(SendOperation),
    /// By a transfer that is pushed, whose chunks may be as long as the message.
    Pushed { id: Option<TransferId>, tag: u64, sent: usize },
}

impl Sending {
    fn drive(
        &mut self,
        driver: &mut Driver<SimFabric<false>>,
        fabric: &mut SimFabric<false>,
        payload: &[u8],
    ) -> Drive<Result<(), String>> {
        let (id, tag, sent) = match self {
            Self::Operation(operation) => {
                let driven = driver.drive_send(fabric, operation, &[payload]);
                return driven.map(|result| result.map_err(|error| format!("{error:?}")));
            }
            Self::Pushed { id, tag, sent } => (id, *tag, sent),
        };
        let endpoint = driver.endpoint_mut();
        let started = id.map_or_else(|| endpoint.start(tag, Length::Exact(payload.len() as u64)), Ok);
        let pushed = started.and_then(|started| {
            *id = Some(started);
            endpoint.push_from(fabric, started, &[payload], *sent)
        });
        match pushed {
            Ok(0) | Err(RefusedSend::Busy | RefusedSend::NoCredit) => Drive::Idle,
            Ok(bytes) => {
                *sent += bytes;
                if *sent == payload.len() { Drive::Done(Ok(())) } else { Drive::Moved }
            }
            Err(refused) => Drive::Done(Err(format!("{refused:?}"))),
        }
    }
}

/// A message on its way.
pub(crate) struct Message {
    sender: usize,
    number: u64,
    send: Sending,
    receive: RecvOperation,
    is_sent: bool,
    is_received: bool,
    /// Clock of the receiver when it had all of it.
    pub(crate) received_ns: Option<u64>,
    /// Clock of the sender when it was done, its memory released.
    pub(crate) sent_ns: Option<u64>,
    remote_before: u64,
}

impl Message {
    /// Returns the hosts that it goes from and to.
    pub(crate) const fn way(&self, [one, other]: [usize; 2]) -> [usize; 2] {
        if self.sender == 0 { [one, other] } else { [other, one] }
    }

    /// Returns true once an end is done with it.
    pub(crate) const fn is_done_at(&self, side: usize) -> bool {
        if side == self.sender { self.is_sent } else { self.is_received }
    }

    /// Returns true once both ends are done with it.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_sent && self.is_received
    }
}

/// A connection.
pub(crate) struct Connection {
    pub(crate) fabric: SimFabric<false>,
    terms: Terms,
    ends: [End; 2],
}

impl Connection {
    /// Connects two hosts of a world, which the connection leaves there. Registering its memory takes time of both.
    ///
    /// # Errors
    /// Terms that are not possible.
    pub(crate) fn new(world: &mut World, hosts: [usize; 2], terms: Terms) -> Result<Self, String> {
        let setup = Setup { send_queue: world.profile.send_queue, ..Setup::new(terms.layout, 1) };
        let flags = ArrivalFlags {
            checked: false,
            notify: terms.config.arrival == Arrival::Notify,
            lends: !matches!(terms.buffers, Buffers::Unnamed | Buffers::Slices),
            refuses_one_in: 0,
            crc_bits: 32,
        };
        let mut fabric =
            SimFabric::connect(world, hosts, &setup, flags).map_err(|error| error.to_string())?;
        fabric.start(0);
        fabric.planners.lent =
            [(); 2].map(|()| terms.planner.map(|planner| Box::new(Planning::new(planner))));
        let end = |side: usize| {
            let attachment = fabric.attachment(side);
            let end = Endpoint::new(&fabric, attachment, terms.config, Origin::default());
            Ok::<_, String>(End {
                driver: Driver::new(
                    end.map_err(|error| error.to_string())?,
                    1 + side as u64,
                    WaitStrategy::Spin,
                    IDLE_TIMEOUT_NS,
                    Nanos(0),
                ),
                payload: Vec::new(),
                received: vec![0; terms.bytes],
                source: None,
                destination: None,
                registered_source: None,
                registered_destination: None,
            })
        };
        let ends = [end(0)?, end(1)?];
        Ok(Self { fabric, terms, ends })
    }

    /// From now on messages have another length and memory, and both ends record what they do.
    pub(crate) fn change(&mut self, bytes: usize, buffers: Buffers) {
        (self.terms.bytes, self.terms.buffers) = (bytes, buffers);
        for end in &mut self.ends {
            (end.payload, end.received) = (Vec::new(), vec![0; bytes]);
            (end.registered_source, end.registered_destination) = (None, None);
        }
        self.fabric.recorders = [(); 2].map(|()| Some(Box::default()));
    }

    /// Takes what both ends have recorded.
    pub(crate) fn take_records(&mut self) -> Vec<Record> {
        let recorders = self.fabric.recorders.iter_mut().flatten();
        recorders.flat_map(|recorder| core::iter::from_fn(|| recorder.take())).collect()
    }

    /// Lends the connection the world, or takes it back.
    pub(crate) const fn swap_world(&mut self, world: &mut Box<World>) {
        core::mem::swap(&mut self.fabric.world, world);
    }

    /// Returns the number of chunks that an end has sent.
    pub(crate) fn chunks_sent(&self, side: usize) -> u64 {
        self.ends[side].driver.counters().chunks_sent
    }

    /// Returns the bytes that have come to an end by remote writes.
    fn remote_bytes(&self, side: usize) -> u64 {
        self.ends[side].driver.counters().remote_bytes_received
    }

    /// Makes the operations of a message, with the memory that they name.
    ///
    /// # Errors
    /// Memory that is not registered, and must be.
    pub(crate) fn begin(&mut self, sender: usize, number: u64) -> Result<Message, String> {
        let receiver = 1 - sender;
        let remote_before = self.remote_bytes(receiver);
        let (send, receive) = (SendOperation::new(number, self.terms.bytes), RecvOperation::new());
        if self.ends[sender].payload.is_empty() {
            self.ends[sender].payload = payload(self.terms.bytes, sender);
        }
        // The first message of each direction is not in the cache.
        let is_registered = match self.terms.buffers {
            Buffers::Unnamed | Buffers::Slices | Buffers::Lent => false,
            Buffers::Registered => true,
            Buffers::Cached => number >= 2,
        };
        let registered = if is_registered { Some(self.registered(sender)?) } else { None };
        let Self { fabric, ends, terms } = self;
        if terms.remote_bytes() == 0 || terms.planner.is_some() {
            ends[receiver].received.fill(0);
        }
        let (send, receive) = match (terms.buffers, registered) {
            (Buffers::Unnamed, _) => (Sending::Pushed { id: None, tag: number, sent: 0 }, receive),
            (Buffers::Slices, _) => (Sending::Operation(send), receive),
            (_, None) => {
                let source = fabric.lend(sender, ends[sender].payload.clone());
                let destination = fabric.lend(receiver, vec![0; terms.bytes]);
                (ends[sender].source, ends[receiver].destination) = (Some(source), Some(destination));
                let send = send.with_memory(SendMemory::Lent(source));
                (Sending::Operation(send), receive.with_memory(RecvMemory::Lent(destination)))
            }
            (_, Some((source, claim))) => {
                let send = send.with_memory(SendMemory::Registered(source));
                (Sending::Operation(send), receive.with_memory(RecvMemory::Registered(claim)))
            }
        };
        let (is_sent, is_received, received_ns, sent_ns) = (false, false, None, None);
        Ok(Message {
            sender,
            number,
            send,
            receive,
            is_sent,
            is_received,
            received_ns,
            sent_ns,
            remote_before,
        })
    }

    /// Returns the registrations of the memory of messages from an end. Makes them, which takes no time, if they are missing.
    fn registered(&mut self, sender: usize) -> Result<(Registration, RemoteClaim), String> {
        let receiver = 1 - sender;
        let Self { fabric, ends, terms } = self;
        let mut register = |side: usize, memory: Vec<u8>, may_write| {
            let buffer = fabric.lend(side, memory);
            match fabric.register_lent(side, buffer, terms.bytes as u64, may_write) {
                Ok(JobOutcome::Registered(registration, claim)) => Ok((registration, claim)),
                other => Err(format!("not registered: {other:?}")),
            }
        };
        let source = match ends[sender].registered_source {
            Some(source) => source,
            None => register(sender, ends[sender].payload.clone(), false)?.0,
        };
        let destination = match ends[receiver].registered_destination {
            Some(claim) => {
                fabric.clear_registered(receiver, claim);
                claim
            }
            None => register(receiver, vec![0; terms.bytes], true)?.1,
        };
        ends[sender].registered_source = Some(source);
        ends[receiver].registered_destination = Some(destination);
        Ok((source, destination))
    }

    /// Lets the driver of an end work. Returns true if it did anything.
    pub(crate) fn progress(&mut self, side: usize) -> bool {
        let Self { fabric, ends, .. } = self;
        fabric.acting = side;
        ends[side].driver.progress(fabric)
    }

    /// Moves a message on at one end, whose turn it is. Returns true if that did anything.
    ///
    /// # Errors
    /// A message that fails.
    pub(crate) fn step(&mut self, side: usize, message: &mut Message) -> Result<bool, String> {
        let Self { fabric, ends, .. } = self;
        let End { driver, payload, received, .. } = &mut ends[side];
        let Message { sender, number, send, receive, is_sent, is_received, received_ns, sent_ns, .. } =
            message;
        let mut has_moved = false;
        if side == *sender && !*is_sent {
            match send.drive(driver, fabric, payload) {
                Drive::Done(Ok(())) => {
                    (*is_sent, has_moved) = (true, true);
                    *sent_ns = Some(fabric.world.clock_ns(fabric.host(side)));
                }
                Drive::Done(Err(error)) => return Err(format!("message {number} is not sent: {error}")),
                Drive::Moved => has_moved = true,
                Drive::Idle => {}
            }
        } else if side != *sender && !*is_received {
            match driver.drive_recv(fabric, receive, &mut [received]) {
                Drive::Done(Ok(_)) => (*is_received, has_moved) = (true, true),
                Drive::Done(Err(error)) => return Err(format!("message {number} does not come: {error:?}")),
                Drive::Moved => has_moved = true,
                Drive::Idle => {}
            }
            if received_ns.is_none() && (*is_received || receive.awaits_release()) {
                let clock_ns = fabric.world.clock_ns(fabric.host(side));
                *received_ns = Some(clock_ns);
            }
        }
        Ok(has_moved)
    }

    /// Compares what has come and how, and takes memory back that was lent for it.
    ///
    /// # Errors
    /// A message that came changed, or another way.
    pub(crate) fn end(&mut self, message: &Message) -> Result<(), String> {
        let receiver = 1 - message.sender;
        let remote_bytes = self.remote_bytes(receiver) - message.remote_before;
        if self.terms.planner.is_none() && remote_bytes != self.terms.remote_bytes() {
            return Err(format!("{remote_bytes} of {} bytes came by remote writes", self.terms.bytes));
        }
        let is_remote = remote_bytes > 0;
        let Self { fabric, ends, terms } = self;
        if let Some(buffer) = ends[message.sender].source.take() {
            fabric.take_back(message.sender, buffer);
        }
        let lent = ends[receiver].destination.take().map(|buffer| fabric.take_back(receiver, buffer));
        let got = match (&lent, ends[receiver].registered_destination) {
            (Some(memory), _) if is_remote => memory.as_slice(),
            (None, Some(claim)) if is_remote => fabric.registered_bytes(receiver, claim),
            _ => ends[receiver].received.as_slice(),
        };
        if got != ends[message.sender].payload {
            return Err(format!("{} bytes came changed", terms.bytes));
        }
        Ok(())
    }
}

/// Bytes after which the payload repeats. It is no multiple of a block or a packet.
const PERIOD: usize = 251 * 256;

/// Returns the bytes of the messages of an end.
#[expect(clippy::cast_possible_truncation, reason = "cut on purpose")]
fn payload(bytes: usize, side: usize) -> Vec<u8> {
    let some = (0..bytes.min(PERIOD)).map(|at| (at * 7 + at / 251 + side * 13) as u8 | 1).collect::<Vec<_>>();
    let mut payload = some.repeat(bytes.div_ceil(PERIOD));
    payload.truncate(bytes);
    payload
}
