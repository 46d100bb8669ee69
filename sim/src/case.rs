//! What a seed stands for: a fabric, two policies, a script of transfers, and faults.

use superpipe_core::driver::WaitStrategy;
use superpipe_core::{Arrival, Config, FlagPlace, Layout, NOTICES_MIN, Origin, Protocol};
use superpipe_testkit::pair::{Content, How, Script, Take, Transfer};
use superpipe_testkit::{Rng, Setup};

use crate::client::{Ending, Manner, Program};
use crate::faults::Faults;
use crate::profile::Profile;

/// Transfers of one direction, at most: in most seeds, and in those that go around the mailbox.
const TRANSFERS_MAX: [usize; 2] = [8, 60];

/// As often as they are listed.
const CLOSINGS: [Closing; 4] = [Closing::Together, Closing::Together, Closing::WhenDone, Closing::WhenSent];

/// When an end closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// When both have sent, taken out and acknowledged all.
    Together,
    /// When it has sent and taken out all: what it sent may still have to be taken out.
    WhenDone,
    /// When it has sent all: what the other one still sends is for nobody.
    WhenSent,
}

/// A connection before it is one.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which one.
    pub number: usize,
    /// Where its ends are.
    pub hosts: [usize; 2],
    /// When its ends close.
    pub closing: Closing,
    /// What is sent, and how it is taken out; of programs only the fabric and the policies.
    pub script: Script,
    /// Programs instead of the script's transfers.
    pub programs: Option<[Program; 2]>,
}

/// A run before it runs.
#[derive(Clone, Debug)]
pub struct Case {
    /// What decided all of it.
    pub seed: u64,
    /// So many hosts.
    pub hosts: usize,
    /// Direct store instead of posted writes.
    pub direct: bool,
    /// The machine.
    pub profile: Profile,
    /// What goes wrong.
    pub faults: Faults,
    /// Bits of a checked flag's CRC: 32, but for who wants to see it miss.
    pub crc_bits: u32,
    /// Who talks to whom, about what.
    pub connections: Vec<Plan>,
}

/// Of so many seeds one plays clients, whose runs take nine times as long as those of scripts.
const CLIENTS_EVERY: u64 = 12;

/// Endings to choose from: one that is listed more often is chosen more often.
const ENDINGS: [Ending; 8] = {
    use Ending::{Abort, Drop, WhenSent, WhenTaken};
    [WhenTaken, WhenTaken, WhenTaken, WhenTaken, WhenSent, WhenSent, Abort, Drop]
};

/// Manners to choose from, likewise.
const MANNERS: [Manner; 8] = {
    use Manner::{Floods, Patient, Plain, Refuses};
    [Plain, Plain, Plain, Plain, Plain, Refuses, Floods, Patient]
};

impl Case {
    /// The same seed gives the same case: one connection between two hosts in most seeds, up to six among up to four in the
    /// others.
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
        // A write and a SEND behind it.
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
        let is_talk = seed % CLIENTS_EVERY == 2;
        let plan = |number| {
            let one = rng.below(hosts);
            let hosts = if hosts == 2 { [0, 1] } else { [one, (one + 1 + rng.below(hosts - 1)) % hosts] };
            Plan {
                number,
                hosts,
                closing: CLOSINGS[rng.below(CLOSINGS.len())],
                script: script(rng, direct, arrival, &profile),
                programs: is_talk.then(|| programs(rng)),
            }
        };
        let connections = (0..count).map(plan).collect();
        Self { seed, hosts, direct, profile, faults, crc_bits: 32, connections }
    }

    /// So many clients, a host each, that all send to one server and are answered.
    #[must_use]
    pub fn crowd(seed: u64, clients: usize) -> Self {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let profile = Profile::roce_100g();
        let plan = |number| {
            let mut script = script(rng, false, Arrival::Flag, &profile);
            script.transfers.iter_mut().for_each(|transfers| transfers.truncate(2));
            Plan { number, hosts: [number + 1, 0], closing: Closing::Together, script, programs: None }
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
        }
    }
}

/// Both warm the connection up, or neither does.
fn programs(rng: &mut Rng) -> [Program; 2] {
    let warms_up = rng.one_in(5);
    [0; 2]
        .map(|_| Program {
            seed: rng.next(),
            calls: up_to(rng, 300),
            bytes_max: [48, 600, 3000, 9000][rng.below(4)],
            ending: ENDINGS[rng.below(ENDINGS.len())],
            wait: WaitStrategy::ALL[rng.below(3)],
            warms_up,
            quits_after: rng.one_in(3).then(|| up_to(rng, 600)),
            manner: MANNERS[rng.below(MANNERS.len())],
        })
        .map(|program| match program.manner {
            // To spin for so long shows nothing.
            Manner::Patient => Program { wait: WaitStrategy::Sleep, ..program },
            Manner::Plain | Manner::Floods | Manner::Refuses => program,
        })
}

/// Without order inside a write as often notify as checked flags, and with it both now and then.
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
    let notices = if rng.one_in(4) { 64 } else { NOTICES_MIN + u16::from(rng.next().to_le_bytes()[0] % 12) };
    let Profile { order_inside_write, send_queue, .. } = *profile;
    let setup = Setup { layouts, order_inside_write, send_queue, notices, seed: rng.next() };
    Script { setup, configs, origin, transfers, slowness }
}

#[expect(clippy::cast_possible_truncation, reason = "at most `most`")]
fn up_to(rng: &mut Rng, most: u32) -> u32 {
    1 + rng.below(most as usize) as u32
}

fn layout(rng: &mut Rng, direct: bool) -> Layout {
    let flags = if direct && rng.one_in(2) { FlagPlace::Apart } else { FlagPlace::Inside };
    // In some there are more blocks than lines in the mailbox.
    let most = if rng.one_in(4) { 39 } else { 19 };
    Layout { block_bytes: [128, 192, 256, 512, 1024][rng.below(5)], block_count: 1 + up_to(rng, most), flags }
}

fn config(rng: &mut Rng, arrival: Arrival) -> Config {
    Config {
        arrival,
        c0_bytes: up_to(rng, 2000),
        growth_q8: 255 + up_to(rng, 769),
        chunk_bytes: if rng.one_in(2) { 0 } else { up_to(rng, 3000) },
        folds: [1, 2, 3, 4, 5, 6][rng.below(6)],
        triple_buffer: rng.one_in(5),
        streaming_bytes: rng.below(4000) as u64,
        ..Config::default()
    }
}

/// At the default, and near every wrap.
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
        life: near(first.life),
        notices: near(first.notices),
    }
}

/// Those of one direction. In some seeds they are all alike, so that what is rare happens many times in a row: short ones that
/// are refused as soon as they come, among others. In some most are given up.
fn transfers(rng: &mut Rng, most: usize) -> Vec<Transfer> {
    let cancels = if rng.one_in(8) { 2 } else { 7 };
    let one = transfer(rng, cancels);
    // Short ones, and ones of several blocks, which begin by the short way and are refused in the middle.
    let most_bytes = [200, 1500][rng.below(2)];
    let refused = Transfer { bytes: one.bytes % most_bytes, take: Take::Reject(0), cancel_at: None, ..one };
    let alike = [Some(one), Some(one), Some(refused), None, None, None, None, None][rng.below(8)];
    let most = if alike.is_some_and(|it| it.bytes < 1000) { TRANSFERS_MAX[1] } else { most };
    (0..=rng.below(most)).map(|_| alike.unwrap_or_else(|| transfer(rng, cancels))).collect()
}

fn transfer(rng: &mut Rng, cancels: usize) -> Transfer {
    let bytes = match rng.below(6) {
        0 | 1 => rng.below(49),
        2 => ((1 + rng.below(20)) * 128 + rng.below(131)).saturating_sub(65),
        3 | 4 => rng.below(2501),
        _ => rng.below(9001),
    };
    let how = match rng.below(4) {
        0 => How::TrySend(1 + rng.below(4)),
        1 => How::Push(1 + rng.below(3000), 1 + rng.below(4)),
        2 => How::Reserve(up_to(rng, 1500)),
        _ => How::Mixed(up_to(rng, 700)),
    };
    let take = match rng.below(8) {
        0..=3 => Take::Pull(1 + rng.below(3000), 1 + rng.below(4)),
        4..=6 => Take::InPlace(up_to(rng, 2000)),
        _ => Take::Reject(if rng.one_in(2) { 0 } else { rng.below(601) }),
    };
    Transfer {
        bytes,
        stream: rng.below(10) < 3,
        content: [Content::Random, Content::Flags, Content::Headers][rng.below(3)],
        protocol: Protocol::ALL[rng.below(Protocol::ALL.len())],
        how,
        take,
        cancel_at: rng.one_in(cancels).then(|| rng.below(1501)),
    }
}
