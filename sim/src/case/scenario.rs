//! Named cases written by hand, for golden traces and pictures.

use superpipe_core::{Arrival, Config, FlagPlace, Layout, Origin, Protocol, small_layout};
use superpipe_testkit::pair::{ReceiveMethod, Script, SendMethod, Transfer};
use superpipe_testkit::{GrowthSetup, Setup};

use super::Case;
use crate::faults::{Chance, Fault};
use crate::nic::Profile;

/// A named case.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// Title.
    pub about: &'static str,
    make: fn() -> Case,
}

impl Scenario {
    /// All scenarios.
    pub const ALL: [Self; 15] = [
        Self { name: "inline", about: "40 bytes in a line", make: inline },
        Self { name: "eager", about: "3000 bytes by eager: one write", make: eager },
        Self {
            name: "superpipeline",
            about: "64 KiB by superpipeline: CTS, growing chunks, acknowledgements",
            make: superpipeline,
        },
        Self {
            name: "direct-store",
            about: "64 KiB by superpipeline, over direct store",
            make: direct_store,
        },
        Self {
            name: "out-of-cache",
            about: "256 KiB by superpipeline, from and to memory that no cache holds",
            make: out_of_cache,
        },
        Self {
            name: "provision",
            about: "64 KiB by provision: a small buffer, GROW, GROWN, one write, then 300 bytes and 20,000",
            make: provision,
        },
        Self {
            name: "provision-direct",
            about: "64 KiB by provision, over direct store",
            make: provision_direct,
        },
        Self { name: "cancel", about: "a stream is cancelled on its way", make: cancel },
        Self { name: "reject", about: "a message is rejected at its begin", make: reject },
        Self {
            name: "split",
            about: "checked flags: every packet is split, and its pieces arrive in any order",
            make: split,
        },
        Self {
            name: "notified",
            about: "64 KiB by superpipeline, every write with immediate, every packet split",
            make: notified,
        },
        Self {
            name: "notified-by-send",
            about: "40 bytes in a line, notified by a SEND behind the write",
            make: notified_by_send,
        },
        Self {
            name: "lost-completion",
            about: "a completion is lost, and the next one stands for it",
            make: lost_completion,
        },
        Self { name: "qp-error", about: "a QP fails in the middle of a message", make: qp_error },
        Self { name: "killed", about: "the receiver is killed in the middle of a message", make: killed },
    ];

    /// Returns the scenario with this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name == name)
    }

    /// Returns its case.
    #[must_use]
    pub fn case(&self) -> Case {
        (self.make)()
    }
}

/// Returns a case between two hosts of today: posted writes, no faults, landing buffers of 16 blocks of 8 KiB.
fn case(transfers: Vec<Transfer>) -> Case {
    let layout = Layout { block_bytes: 8 << 10, block_count: 16, flags: FlagPlace::Inside };
    let profile = Profile::roce_100g();
    let setup = Setup { send_queue: profile.send_queue, ..Setup::new(layout, 1) };
    let script = Script {
        setup,
        configs: [Config::default(); 2],
        origin: Origin::default(),
        transfers: [transfers, Vec::new()],
        slowness: [1; 2],
        windows: false,
    };
    Case::of_script(script, false, profile)
}

fn with_layout(mut case: Case, layout: Layout) -> Case {
    case.connections[0].script.setup.layouts = [layout; 2];
    case
}

/// Lets a fault strike once, after `before` opportunities.
fn once(mut case: Case, fault: Fault, before: u64) -> Case {
    case.faults.once = Some((fault, before));
    case
}

fn inline() -> Case {
    case(vec![Transfer {
        send_method: SendMethod::TrySend(1),
        ..Transfer::message(40, Protocol::Superpipeline)
    }])
}

fn eager() -> Case {
    case(vec![Transfer::message(3000, Protocol::Eager)])
}

fn superpipeline() -> Case {
    case(vec![Transfer::message(64 << 10, Protocol::Superpipeline)])
}

fn direct_store() -> Case {
    let layout =
        Layout { block_bytes: 8 << 10, block_count: 16, flags: FlagPlace::Apart { group_blocks: 1 } };
    Case { direct: true, ..with_layout(superpipeline(), layout) }
}

/// Copies take half as long as the wire, so that the overlap is visible.
fn out_of_cache() -> Case {
    let mut case = case(vec![Transfer::message(256 << 10, Protocol::Superpipeline)]);
    let [.., slowest] = case.profile.copy;
    case.profile.copy = [slowest; 4];
    case
}

/// Jobs never fail.
fn provision() -> Case {
    let messages = [64 << 10, 300, 20_000].map(|bytes| Transfer::message(bytes, Protocol::Provision));
    let mut case = with_layout(case(messages.to_vec()), small_layout(1024));
    let largest = Layout { block_bytes: 16 << 10, block_count: 32, flags: FlagPlace::Inside };
    let base = Some(Layout { block_bytes: 256, block_count: 11, flags: FlagPlace::Inside });
    case.connections[0].script.setup.growth =
        Some(GrowthSetup { base, ..GrowthSetup::new(largest, 64 << 10) });
    case
}

fn provision_direct() -> Case {
    Case { direct: true, ..provision() }
}

fn cancel() -> Case {
    let stream = Transfer {
        stream: true,
        send_method: SendMethod::Push(4000, 1),
        cancel_at: Some(16_000),
        ..Transfer::message(64 << 10, Protocol::Superpipeline)
    };
    case(vec![stream, Transfer::message(40, Protocol::Superpipeline)])
}

fn reject() -> Case {
    case(vec![Transfer {
        receive_method: ReceiveMethod::Reject(0),
        ..Transfer::message(64 << 10, Protocol::Superpipeline)
    }])
}

fn split() -> Case {
    unordered(case(vec![Transfer::message(12_000, Protocol::Eager)]), Arrival::CheckedFlag)
}

/// Splits every packet, without order inside a write.
fn unordered(mut case: Case, arrival: Arrival) -> Case {
    case.profile.order_inside_write = false;
    case.faults[Fault::SplitPacket] = Chance(1 << 20);
    let script = &mut case.connections[0].script;
    script.setup.order_inside_write = false;
    script.setup.notifications_max = 64;
    script.configs.iter_mut().for_each(|config| config.arrival = arrival);
    case
}

fn notified() -> Case {
    unordered(superpipeline(), Arrival::Notify)
}

fn notified_by_send() -> Case {
    let mut case = unordered(inline(), Arrival::Notify);
    case.profile.write_with_immediate = false;
    case
}

fn lost_completion() -> Case {
    once(case(vec![Transfer::message(3000, Protocol::Eager); 2]), Fault::LostCompletion, 0)
}

fn qp_error() -> Case {
    once(superpipeline(), Fault::QpError, 3)
}

fn killed() -> Case {
    once(superpipeline(), Fault::KilledProcess, 120)
}
