//! Cases: everything that a seed decides. A case has a fabric, two policies, a script of transfers, and faults.

mod planning;
mod scenario;
mod transfers;

use superpipe_core::driver::WaitStrategy;
use superpipe_core::{
    Arrival, Config, FirstChunk, FlagPlace, GrowthDelay, Layout, NOTIFICATIONS_MIN, Origin, Protocol,
    small_layout,
};
use superpipe_testkit::pair::Script;
use superpipe_testkit::{GrowthSetup, Rng, Setup};

use crate::client::{Behavior, ExitPolicy, Program};
use crate::faults::{Chance, Fault, Faults};
use crate::lenders::LenderPlan;
use crate::nic::{DISTANCES_MAX, Distance, Distances, Profile};
use crate::polled::PolledCase;
pub use scenario::Scenario;
use transfers::{TRANSFERS_MAX, transfers};

/// Policies to draw from. One that is listed twice is drawn twice as often.
const CLOSE_POLICIES: [ClosePolicy; 4] =
    [ClosePolicy::Together, ClosePolicy::Together, ClosePolicy::WhenDone, ClosePolicy::WhenSent];

/// Time at which an end closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosePolicy {
    /// When both ends have sent, received and acknowledged everything.
    Together,
    /// When it has sent and received everything. The peer may still have to receive.
    WhenDone,
    /// When it has sent everything. It receives nothing of what the peer still sends.
    WhenSent,
}

/// Plan of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionPlan {
    /// Number of the connection.
    pub number: usize,
    /// Hosts of its ends.
    pub hosts: [usize; 2],
    /// When its ends close.
    pub close_policy: ClosePolicy,
    /// Transfers of both ends, fabric and policies. Programs replace the transfers.
    pub script: Script,
    /// Programs of clients, if any.
    pub programs: Option<[Program; 2]>,
    /// Programs that lend or expose memory for their messages, if any, in place of the others.
    pub lenders: Option<[LenderPlan; 2]>,
}

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct Case {
    /// Seed of the case.
    pub seed: u64,
    /// Number of hosts.
    pub hosts: usize,
    /// Direct store instead of posted writes.
    pub direct: bool,
    /// Parameters of the machine.
    pub profile: Profile,
    /// Probabilities of the faults.
    pub faults: Faults,
    /// Bits of a checked flag's CRC. Fewer than 32 show how often it fails.
    pub crc_bits: u32,
    /// Connections and what they transfer.
    pub connections: Vec<ConnectionPlan>,
    /// Connections of a poller in place of these.
    pub(crate) polled: Option<PolledCase>,
}

/// One of this many connections begins with small buffers, and sends most transfers by the provision protocol.
const PROVISION_EVERY: usize = 6;
/// Bytes of the longest message in a line, above which a threshold is drawn.
const INLINE_BYTES: u32 = 40;

/// One of this many seeds plays clients. Their runs take nine times as long as those of scripts, so clients get about half of the time.
const CLIENTS_EVERY: u64 = 12;

/// One of this many seeds plays a client that rejects in a row: one in 32 of those with clients.
const REJECT_EVERY: u64 = 32 * CLIENTS_EVERY;
const REJECT_AT: u64 = 2;

/// One of this many seeds plays programs that lend memory, or expose it.
const LENDERS_EVERY: u64 = 8;
const LENDERS_AT: u64 = 5;

/// The first seeds are without that client, these programs and the faults of growth, since golden traces were made of them before they existed.
const GOLDEN_SEEDS: u64 = 200;

/// Policies to draw from. One that is listed more often is drawn more often.
const EXIT_POLICIES: [ExitPolicy; 8] = {
    use ExitPolicy::{Abort, Drop, WhenReceived, WhenSent};
    [WhenReceived, WhenReceived, WhenReceived, WhenReceived, WhenSent, WhenSent, Abort, Drop]
};

/// Behaviors to draw from, likewise.
const BEHAVIORS: [Behavior; 8] = {
    use Behavior::{Flood, LongDeadlines, Plain, Reject};
    [Plain, Plain, Plain, Plain, Plain, Reject, Flood, LongDeadlines]
};

impl Case {
    /// Returns a case without faults, of one connection between two hosts.
    #[must_use]
    pub fn of_script(script: Script, direct: bool, profile: Profile) -> Self {
        let plan = ConnectionPlan {
            number: 0,
            hosts: [0, 1],
            close_policy: ClosePolicy::Together,
            script,
            programs: None,
            lenders: None,
        };
        Self::of_connections(vec![plan], direct, profile)
    }

    /// Returns a case without faults, of these connections between two hosts.
    #[must_use]
    pub fn of_connections(connections: Vec<ConnectionPlan>, direct: bool, profile: Profile) -> Self {
        Self {
            seed: 1,
            hosts: 2,
            direct,
            profile,
            faults: Faults::default(),
            crc_bits: 32,
            connections,
            polled: None,
        }
    }

    /// Returns the case of a seed. Most seeds have one connection between two hosts, the others up to six among up to four.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let direct = rng.one_in(4);
        let order_inside_write = direct || rng.one_in(2);
        let arrival = arrival(rng, direct, order_inside_write);
        let write_with_immediate = rng.one_in(2);
        let inline_bytes = if rng.one_in(2) { 0 } else { Profile::roce_100g().inline_bytes };
        let send_queue = if rng.one_in(2) { 1 + rng.below(8) } else { Profile::roce_100g().send_queue };
        // A notification by SEND needs a second place.
        let least = if arrival == Arrival::Notify && !write_with_immediate { 2 } else { 1 };
        let send_queue = send_queue.max(least);
        let mtu_bytes = if rng.one_in(2) { 256 } else { Profile::roce_100g().mtu_bytes };
        let profile = Profile {
            order_inside_write,
            write_with_immediate,
            inline_bytes,
            send_queue,
            mtu_bytes,
            ..Profile::roce_100g()
        };
        let faults = Faults::swarm(rng);
        let (hosts, count) = if rng.one_in(16) { (2 + rng.below(3), 2 + rng.below(5)) } else { (2, 1) };
        let plays_clients = seed % CLIENTS_EVERY == 2;
        let plan = |number| {
            let one = rng.below(hosts);
            let hosts = if hosts == 2 { [0, 1] } else { [one, (one + 1 + rng.below(hosts - 1)) % hosts] };
            ConnectionPlan {
                number,
                hosts,
                close_policy: CLOSE_POLICIES[rng.below(CLOSE_POLICIES.len())],
                script: script(rng, direct, arrival, &profile),
                programs: plays_clients.then(|| programs(rng)),
                lenders: None,
            }
        };
        let connections = (0..count).map(plan).collect();
        let mut case = Self { seed, hosts, direct, profile, faults, crc_bits: 32, connections, polled: None };
        let grows = case.connections.iter().any(|plan| plan.script.setup.growth.is_some());
        if seed >= GOLDEN_SEEDS && grows {
            case.faults.growing(&mut Rng::new(seed ^ 0x6e0));
        }
        if seed >= GOLDEN_SEEDS && case.direct {
            case.timing();
        }
        let case = if seed >= GOLDEN_SEEDS && seed % REJECT_EVERY == REJECT_AT {
            case.rejecting()
        } else if seed >= GOLDEN_SEEDS && seed % LENDERS_EVERY == LENDERS_AT {
            case.lending()
        } else {
            case
        };
        Self { polled: PolledCase::of_seed(seed), ..case.by_default() }
    }

    /// Has most connections choose the kernels of their copies, of short blocks as well, and windows of any size, over a distance that changes.
    fn timing(&mut self) {
        let mut rng = Rng::new(self.seed ^ 0xd157);
        let rng = &mut rng;
        if rng.one_in(4) {
            return;
        }
        self.profile.distances = Some(distances(rng));
        for plan in &mut self.connections {
            let timed_bytes = up_to(rng, 400);
            let (least_window_bytes, chooses) = (up_to(rng, 1024), rng.one_in(2));
            for config in &mut plan.script.configs {
                (config.timed_bytes, config.least_window_bytes) = (timed_bytes, least_window_bytes);
                if chooses {
                    config.window_bytes = None;
                }
            }
        }
    }

    /// Changes the case so that a REJECT stays due while messages begin by the fast path: plain flags, a send queue of one with late
    /// completions, messages of several blocks that become visible in pieces, and a client that rejects them in a row.
    fn rejecting(mut self) -> Self {
        self.direct = false;
        self.profile = Profile { order_inside_write: true, send_queue: 1, mtu_bytes: 256, ..self.profile };
        self.faults[Fault::SplitPacket] = Chance::one_in(2);
        self.faults[Fault::LateCompletion] = Chance::one_in(2);
        for ConnectionPlan { script, programs, .. } in &mut self.connections {
            script.setup.order_inside_write = true;
            script.setup.send_queue = 1;
            script.setup.growth = None;
            script.setup.layouts.iter_mut().for_each(|layout| layout.flags = FlagPlace::Inside);
            for config in &mut script.configs {
                (config.arrival, config.c0_bytes) = (Arrival::Flag, 2000);
            }
            if let Some([sender, receiver]) = programs {
                for program in [&mut *sender, &mut *receiver] {
                    (program.warms_up, program.closes_after, program.calls) = (false, None, 300);
                    program.bytes_max = 3000;
                }
                sender.behavior = Behavior::Plain;
                receiver.behavior = Behavior::RejectInRow;
            }
        }
        self
    }

    /// Changes the case so that programs lend memory for their messages, or expose it over direct store, with everything else as it was drawn.
    fn lending(mut self) -> Self {
        // A stream of its own: what is drawn otherwise stays as it was.
        let offers = self.direct && Rng::new(self.seed ^ 0x5b11).one_in(2);
        let mut rng = Rng::new(self.seed ^ 0x1e4d);
        let rng = &mut rng;
        // The notification of the end of remote writes needs a second place where it is a SEND.
        self.profile.send_queue = self.profile.send_queue.max(2);
        for ConnectionPlan { script, programs, lenders, .. } in &mut self.connections {
            script.setup.send_queue = self.profile.send_queue;
            let protocol = [Protocol::Register, Protocol::RegisterCached][rng.below(2)];
            // Memory is exposed by this protocol only.
            let protocol = if self.direct { Protocol::RegisterCached } else { protocol };
            script.configs.iter_mut().for_each(|config| config.protocol = protocol);
            *programs = None;
            let plans = [0; 2].map(|_| lender(rng));
            *lenders = Some(if offers { plans.map(offering) } else { plans });
        }
        self
    }

    /// Returns a case with this many clients, one per host, which all exchange transfers with one server.
    #[must_use]
    pub fn crowd(seed: u64, clients: usize) -> Self {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let profile = Profile::roce_100g();
        let plan = |number| {
            let mut script = script(rng, false, Arrival::Flag, &profile);
            script.transfers.iter_mut().for_each(|transfers| transfers.truncate(2));
            ConnectionPlan {
                number,
                hosts: [number + 1, 0],
                close_policy: ClosePolicy::Together,
                script,
                programs: None,
                lenders: None,
            }
        };
        let connections = (0..clients).map(plan).collect();
        Self {
            seed,
            hosts: clients + 1,
            direct: false,
            profile,
            faults: Faults::default(),
            crc_bits: 32,
            connections,
            polled: None,
        }
    }
}

/// Draws distances that last a few copies each.
fn distances(rng: &mut Rng) -> Distances {
    let steps = [0; DISTANCES_MAX].map(|_| {
        let times = |rng: &mut Rng| [0; 4].map(|_| 1 + u64::from(up_to(rng, 20_000)));
        let (copy_in_ns, copy_out_ns) = (times(rng), times(rng));
        let reuse_percent = [0; 3].map(|_| 50 + u64::from(up_to(rng, 200)));
        Some(Distance { copy_in_ns, copy_out_ns, reuse_percent, lasts_ns: u64::from(up_to(rng, 400_000)) })
    });
    let (noise_percent, outlier_one_in) = (rng.below(40) as u64, rng.below(20) as u64);
    Distances { steps, noise_percent, outlier_one_in, series: 0 }
}

/// Draws two programs. Both warm the connection up, or neither does.
fn programs(rng: &mut Rng) -> [Program; 2] {
    let warms_up = rng.one_in(5);
    [0; 2]
        .map(|_| Program {
            seed: rng.next(),
            calls: up_to(rng, 300),
            bytes_max: [48, 600, 3000, 9000][rng.below(4)],
            exit_policy: EXIT_POLICIES[rng.below(EXIT_POLICIES.len())],
            wait: WaitStrategy::ALL[rng.below(3)],
            warms_up,
            closes_after: rng.one_in(3).then(|| up_to(rng, 600)),
            behavior: BEHAVIORS[rng.below(BEHAVIORS.len())],
        })
        .map(|program| match program.behavior {
            // Spinning through long deadlines tests nothing, and takes long.
            Behavior::LongDeadlines => Program { wait: WaitStrategy::Sleep, ..program },
            Behavior::Plain | Behavior::Flood | Behavior::Reject | Behavior::RejectInRow => program,
        })
}

/// Draws a program that lends memory: most of its messages are long.
fn lender(rng: &mut Rng) -> LenderPlan {
    let count = rng.below(12);
    LenderPlan {
        seed: rng.next(),
        messages: (0..count)
            .map(|_| if rng.one_in(4) { rng.below(2500) } else { rng.below(20_001) })
            .collect(),
        cancels_one_in: [0, 0, 2, 5][rng.below(4)],
        gives_up_one_in: [0, 0, 0, 300][rng.below(4)],
        aborts: rng.one_in(8),
        offers: false,
    }
}

/// Has a program let its peer write memory, and gives it more messages, so that some are split.
fn offering(mut plan: LenderPlan) -> LenderPlan {
    let mut rng = Rng::new(plan.seed ^ 0x0ffe);
    plan.messages.extend((0..30).map(|_| if rng.one_in(4) { rng.below(2500) } else { rng.below(18_001) }));
    LenderPlan { offers: true, ..plan }
}

/// Without order inside a write, notify and checked flags are equally likely. With order both are rare.
fn arrival(rng: &mut Rng, direct: bool, order_inside_write: bool) -> Arrival {
    if order_inside_write && rng.below(4) > 0 {
        Arrival::Flag
    } else if direct || rng.one_in(2) {
        Arrival::CheckedFlag
    } else {
        Arrival::Notify
    }
}

fn script(rng: &mut Rng, direct: bool, arrival: Arrival, profile: &Profile) -> Script {
    let layouts = [layout(rng, direct), layout(rng, direct)];
    let configs = [config(rng, arrival), config(rng, arrival)];
    let origin = origin(rng);
    let most = TRANSFERS_MAX[usize::from(rng.one_in(8))];
    let transfers = [transfers(rng, most), transfers(rng, most)];
    let slowness = [1 + rng.below(12), 1 + rng.below(12)];
    let notifications_max =
        if rng.one_in(4) { 64 } else { NOTIFICATIONS_MIN + u16::from(rng.next().to_le_bytes()[0] % 12) };
    let Profile { order_inside_write, send_queue, .. } = *profile;
    let growth = rng.one_in(2).then(|| growth_setup(rng, direct));
    let setup =
        Setup { layouts, order_inside_write, send_queue, notifications_max, seed: rng.next(), growth };
    let script = Script { setup, configs, origin, transfers, slowness, windows: true };
    if rng.one_in(PROVISION_EVERY) { provisioning(rng, direct, script) } else { script }
}

/// Growth that is asked for at once in three of four cases, otherwise after one to three rings or some tries.
fn growth_setup(rng: &mut Rng, direct: bool) -> GrowthSetup {
    let growth = GrowthSetup::new(layout(rng, direct), up_to(rng, 4096));
    let fail_one_in = rng.below(6);
    let delay = if rng.one_in(4) {
        GrowthDelay { rings: up_to(rng, 3), tries: up_to(rng, 20) }
    } else {
        GrowthDelay::NONE
    };
    GrowthSetup { fail_one_in, delay, ..growth }
}

/// Begins with small buffers, which are memory of their own, and sends most transfers by the provision protocol.
fn provisioning(rng: &mut Rng, direct: bool, mut script: Script) -> Script {
    let small_buffer_bytes = 99 + up_to(rng, 1901);
    let small = small_layout(small_buffer_bytes);
    let held = small.capacity(small.block_count);
    let threshold_bytes = if rng.one_in(2) { held } else { INLINE_BYTES + up_to(rng, held - INLINE_BYTES) };
    script.setup.layouts = [small; 2];
    let growth = growth_setup(rng, direct);
    script.setup.growth = Some(GrowthSetup { base: Some(layout(rng, direct)), ..growth });
    for config in &mut script.configs {
        (config.small_buffer_bytes, config.threshold_bytes) = (small_buffer_bytes, threshold_bytes);
    }
    for transfer in script.transfers.iter_mut().flatten().filter(|_| rng.below(4) > 0) {
        transfer.protocol = Protocol::Provision;
    }
    script
}

#[expect(clippy::cast_possible_truncation, reason = "at most `most`")]
fn up_to(rng: &mut Rng, most: u32) -> u32 {
    1 + rng.below(most as usize) as u32
}

fn layout(rng: &mut Rng, direct: bool) -> Layout {
    let flags = if direct && rng.one_in(2) {
        FlagPlace::Apart { group_blocks: [1, 2, 2, 4, 16][rng.below(5)] }
    } else {
        FlagPlace::Inside
    };
    // Some rings have more blocks than the mailbox has lines.
    let most = if rng.one_in(4) { 39 } else { 19 };
    Layout { block_bytes: [128, 192, 256, 512, 1024][rng.below(5)], block_count: 1 + up_to(rng, most), flags }
}

fn config(rng: &mut Rng, arrival: Arrival) -> Config {
    let c0_bytes = up_to(rng, 2000);
    let growth_q8 = 255 + up_to(rng, 769);
    Config {
        arrival,
        c0_bytes,
        one_copy_bytes: c0_bytes / 2 + 1,
        growth_q8,
        // Without a draw of their own, which would change all that is drawn later.
        first_chunk: match c0_bytes % 8 {
            0 | 1 => FirstChunk::DuringRendezvous,
            2 => FirstChunk::AfterCts,
            3 => FirstChunk::WithoutCts,
            _ => FirstChunk::WithRts,
        },
        sub_blocks: !growth_q8.is_multiple_of(8),
        chunk_bytes: if rng.one_in(2) { 0 } else { up_to(rng, 3000) },
        folds: [1, 2, 3, 4, 5, 6][rng.below(6)],
        triple_buffer: rng.one_in(5),
        streaming_bytes: rng.below(4000) as u64,
        ..Config::default()
    }
}

/// Draws counters at their default or near a wrap.
fn origin(rng: &mut Rng) -> Origin {
    let first = Origin::default();
    let mut near = |first: u64| match rng.below(4) {
        0 => u64::MAX - rng.below(12) as u64,
        1 => ((1 + rng.below(8) as u64) << 32) - 1 - rng.below(12) as u64,
        _ => first,
    };
    Origin {
        sequence: near(first.sequence),
        blocks: near(first.blocks),
        controls: near(first.controls),
        transfers: near(first.transfers),
        keepalives: near(first.keepalives),
        notifications: near(first.notifications),
    }
}
