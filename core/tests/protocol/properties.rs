//! Whole connections against a plain oracle, over both fabrics: sizes x blocks x schedules x folds x protocols mixed on
//! one connection x flag places x arrival modes x ways to send and to receive, both directions at once, with payloads
//! that imitate flags and headers, and every count near its wrap.

use proptest::prelude::*;
use superpipe_core::{
    Arrival, Config, FirstChunk, FlagPlace, GrowthDelay, Layout, NOTIFICATIONS_MIN, Origin, Protocol,
};
use superpipe_testkit::pair::{Content, ReceiveMethod, Script, SendMethod, Transfer, play};
use superpipe_testkit::{Direct, GrowthSetup, Posted, Setup};

/// Payload sizes that matter: around a line, and around so many blocks.
fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![
        2 => 0..=48usize,
        1 => 41..=110usize,
        1 => (1..=20usize, 0..=130usize).prop_map(|(blocks, more)| (blocks * 128 + more).saturating_sub(65)),
        2 => 0..=2500usize,
        1 => 0..=9000usize,
    ]
}

fn send_method() -> impl Strategy<Value = SendMethod> {
    prop_oneof![
        (1..=4usize).prop_map(SendMethod::TrySend),
        (1..=3000usize, 1..=4usize).prop_map(|(bytes, slices)| SendMethod::Push(bytes, slices)),
        (1..=1500u32).prop_map(SendMethod::Reserve),
        (1..=700u32).prop_map(SendMethod::Mixed),
    ]
}

fn receive_method() -> impl Strategy<Value = ReceiveMethod> {
    prop_oneof![
        4 => (1..=3000usize, 1..=4usize).prop_map(|(bytes, slices)| ReceiveMethod::Pull(bytes, slices)),
        3 => (1..=2000u32).prop_map(ReceiveMethod::InPlace),
        1 => (0..=600usize).prop_map(ReceiveMethod::Reject),
    ]
}

prop_compose! {
    fn transfer()(
        bytes in bytes(),
        stream in prop::bool::weighted(0.3),
        content in prop::sample::select(vec![Content::Random, Content::Flags, Content::Headers]),
        protocol in prop::sample::select(Protocol::ALL.to_vec()),
        send_method in send_method(),
        receive_method in receive_method(),
        cancel_at in prop::option::weighted(0.15, 0..=1500usize),
    ) -> Transfer {
        Transfer { bytes, stream, content, protocol, send_method, receive_method, cancel_at }
    }
}

fn layout(apart: bool) -> impl Strategy<Value = Layout> {
    let block_bytes = prop::sample::select(vec![128, 192, 256, 512, 1024]);
    (block_bytes, 2..=20u32, prop::sample::select(vec![1, 2, 4, 8, 16])).prop_map(
        move |(block_bytes, block_count, group_blocks)| Layout {
            block_bytes,
            block_count,
            flags: if apart { FlagPlace::Apart { group_blocks } } else { FlagPlace::Inside },
        },
    )
}

/// Growth of both landing buffers, from a few bytes up to some kilobytes; jobs that never fail, or often do.
fn growth(apart: bool) -> impl Strategy<Value = Option<GrowthSetup>> {
    let setup = (layout(apart), 1..=4096u32, 0..=3u32, 0..=5usize, prop::option::of(layout(apart)));
    let setup = setup.prop_map(|(largest, slab_bytes, rings_before_growth, fail_one_in, base)| GrowthSetup {
        delay: GrowthDelay { rings: rings_before_growth, tries: 5 },
        fail_one_in,
        base,
        ..GrowthSetup::new(largest, slab_bytes)
    });
    prop::option::of(setup)
}

fn arrivals(direct: bool) -> Vec<Arrival> {
    let mut arrivals = vec![Arrival::Flag, Arrival::CheckedFlag];
    if !direct {
        arrivals.push(Arrival::Notify);
    }
    arrivals
}

/// Near every wrap, and at the default.
fn origin() -> impl Strategy<Value = Origin> {
    let near = || {
        prop_oneof![
            2 => Just(None),
            2 => (0..12u64).prop_map(|few| Some(u64::MAX - few)),
            1 => (0..12u64, 1..9u64).prop_map(|(few, high)| Some((high << 32) - 1 - few)),
            1 => any::<u64>().prop_map(Some),
        ]
    };
    let nears = (near(), near(), near(), near(), near(), near());
    nears.prop_map(|(sequence, blocks, controls, transfers, keepalives, notifications)| {
        let first = Origin::default();
        Origin {
            sequence: sequence.unwrap_or(first.sequence).max(1),
            blocks: blocks.unwrap_or(first.blocks),
            controls: controls.unwrap_or(first.controls).max(1),
            transfers: transfers.unwrap_or(first.transfers),
            keepalives: keepalives.unwrap_or(first.keepalives),
            notifications: notifications.unwrap_or(first.notifications),
        }
    })
}

prop_compose! {
    fn config(arrival: Arrival)(
        c0_bytes in 1..=2000u32,
        growth_q8 in 256..=1024u32,
        chunk_bytes in prop_oneof![Just(0), 1..=3000u32],
        folds in 1..=6u8,
        triple_buffer in prop::bool::weighted(0.2),
        first_chunk in prop::sample::select(&FirstChunk::ALL[..]),
        sub_blocks in prop::bool::weighted(0.8),
        streaming_bytes in 0..=4000u64,
        threshold_bytes in prop_oneof![1 => Just(904), 1 => 40..=904u32],
    ) -> Config {
        Config {
            arrival,
            c0_bytes,
            growth_q8,
            chunk_bytes,
            folds,
            triple_buffer,
            first_chunk,
            sub_blocks,
            streaming_bytes,
            threshold_bytes,
            ..Config::default()
        }
    }
}

prop_compose! {
    fn script(direct: bool)(
        arrival in prop::sample::select(arrivals(direct)),
        places in prop::array::uniform2(any::<bool>()),
        ordered in any::<bool>(),
    )(
        layouts in (layout(direct && places[0]), layout(direct && places[1])),
        configs in (config(arrival), config(arrival)),
        order_inside_write in Just(arrival == Arrival::Flag || ordered),
        send_queue in prop_oneof![3 => Just(2usize), 1 => 1..=8usize],
        notifications_max in prop_oneof![1 => Just(NOTIFICATIONS_MIN), 1 => NOTIFICATIONS_MIN..=20],
        seed in any::<u64>(),
        growth in growth(direct && places[0]),
        origin in origin(),
        there in prop::collection::vec(transfer(), 0..10),
        back in prop::collection::vec(transfer(), 0..10),
        slowness in (1..=12usize, 1..=12usize),
    ) -> Script {
        Script {
            setup: Setup { layouts: layouts.into(), order_inside_write, send_queue, notifications_max, seed, growth },
            configs: configs.into(),
            origin,
            transfers: [there, back],
            slowness: slowness.into(),
            windows: true,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sent_comes_out_by_direct_store(script in script(true)) {
        play::<Direct>(&script);
    }

    #[test]
    fn what_is_sent_comes_out_by_posted_writes(script in script(false)) {
        play::<Posted>(&script);
    }
}
