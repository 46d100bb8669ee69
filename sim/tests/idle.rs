//! Ten thousand connections with landing on demand: what each of them holds, and the one that moves more than its page holds.

use std::collections::BTreeMap;

use superpipe_core::{Config, FlagPlace, Layout, Origin, Protocol};
use superpipe_sim::{Case, ClosePolicy, ConnectionPlan, MemoryUse, Profile, RunOptions, TraceEvent, run};
use superpipe_testkit::pair::{Script, Transfer};
use superpipe_testkit::{GrowthSetup, Setup};

const CONNECTIONS: usize = 10_000;

/// The base, in the control page (wire.md 2.5).
const BASE: Layout = Layout { block_bytes: 256, block_count: 11, flags: FlagPlace::Inside };
const LARGEST: Layout = Layout { block_bytes: 16 << 10, block_count: 32, flags: FlagPlace::Inside };
/// A message that the base holds, and one that it does not.
const SHORT: usize = 2000;
const LONG: usize = 64 << 10;

/// Returns a client that sends a short message, or a long message if it is the last one.
fn client(number: usize) -> ConnectionPlan {
    let growth = GrowthSetup::new(LARGEST, 64 << 10);
    let send_queue = Profile::roce_100g().send_queue;
    let bytes = if number + 1 == CONNECTIONS { LONG } else { SHORT };
    ConnectionPlan {
        number,
        hosts: [1, 0],
        close_policy: ClosePolicy::Together,
        script: Script {
            setup: Setup { send_queue, growth: Some(growth), ..Setup::new(BASE, number as u64) },
            configs: [Config::default(); 2],
            origin: Origin::default(),
            transfers: [vec![Transfer::message(bytes, Protocol::Superpipeline)], Vec::new()],
            slowness: [1; 2],
            windows: false,
        },
        programs: None,
        lenders: None,
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes a minute without optimization: scripts/test-sim.sh runs it")]
fn ten_thousand_connections_hold_a_page_each() {
    let connections = (0..CONNECTIONS).map(client).collect();
    let case = Case::of_connections(connections, false, Profile::roce_100g());
    let outcome =
        run(&case, RunOptions { traced: true, turns_max: None }).unwrap_or_else(|it| panic!("{it}"));
    let closed = ("closed in good order".to_owned(), 2 * CONNECTIONS as u64);
    assert_eq!(outcome.endings.into_iter().collect::<Vec<_>>(), [closed]);

    // Sizes of all landing buffers at the server, and how many there were.
    let mut landings = BTreeMap::new();
    let (mut connected_ns, mut server_bytes) = (0, 0);
    for entry in outcome.trace.0.iter().filter(|entry| entry.host == 0) {
        if let TraceEvent::Register { bytes, memory_use, .. } = entry.event {
            server_bytes += u64::from(bytes);
            if memory_use == MemoryUse::Landing {
                *landings.entry(bytes).or_insert(0) += 1;
            }
            connected_ns = entry.at_ns;
        }
    }
    assert!(connected_ns > 0);
    assert_eq!(landings.remove(&BASE.bytes()), Some(CONNECTIONS), "each has the base");
    let (count, grown) = landings.iter().fold((0, 0), |(all, grown), (bytes, count)| {
        (all + count, grown + u64::from(*bytes) * *count as u64)
    });
    // One application in 64 begins a message that is far too long, and then does not send it.
    assert!((1..CONNECTIONS / 32).contains(&count), "{landings:?}");
    // A control page, the base, and the images of the peer's.
    let least = CONNECTIONS as u64 * 2 * (4096 + u64::from(BASE.bytes()));
    assert_eq!(server_bytes, least + grown);
}
