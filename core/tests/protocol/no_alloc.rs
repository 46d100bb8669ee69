//! From connect to close, at both ends, every size class and protocol: not one allocation.

use core::alloc::{GlobalAlloc, Layout as Memory};
use core::cell::Cell;
use std::alloc::System;

use superpipe_core::recorder::Recorder;
use superpipe_core::{Arrival, Config, Endpoint, FlagPlace, Layout, Origin, Protocol};
use superpipe_testkit::pair::{Content, ReceiveMethod, Script, SendMethod, Transfer};
use superpipe_testkit::{Direct, Pair, Posted, Setup, TestFabric};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts what each thread asks of it.
struct Counting;

fn count() {
    COUNT.with(|count| count.set(count.get() + 1));
}

// SAFETY: everything is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Memory) -> *mut u8 {
        count();
        // SAFETY: the caller keeps what `alloc` asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Memory) {
        count();
        // SAFETY: the caller keeps what `dealloc` asks for.
        unsafe { System.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Memory, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps what `realloc` asks for.
        unsafe { System.realloc(place, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the number of calls of the allocator in `run`.
fn allocations(run: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    run();
    COUNT.with(Cell::get) - before
}

/// The landing buffer that is granted while connecting.
fn layout(flags: FlagPlace) -> Layout {
    Layout { block_bytes: 4096, block_count: 96, flags }
}

/// Every size class by every protocol, given to and taken from the endpoint in every way.
fn transfers() -> Vec<Transfer> {
    let sizes = [0, 8, 40, 41, 4032, 4096, 12 << 10, 65_537, 1 << 20];
    let ways = [
        (SendMethod::TrySend(3), ReceiveMethod::Pull(100_000, 2)),
        (SendMethod::Push(50_000, 2), ReceiveMethod::InPlace(70_000)),
        (SendMethod::Reserve(40_000), ReceiveMethod::InPlace(30_000)),
    ];
    let mut transfers = Vec::new();
    for protocol in Protocol::ALL {
        for bytes in sizes {
            for (index, (send_method, receive_method)) in ways.into_iter().enumerate() {
                let (stream, content) = (index == 1 && bytes > 8, Content::Random);
                let whole = Transfer {
                    bytes,
                    stream,
                    content,
                    protocol,
                    send_method,
                    receive_method,
                    cancel_at: None,
                };
                transfers.push(whole);
            }
        }
        let (content, send_method) = (Content::Flags, SendMethod::Push(9000, 1));
        let long = Transfer {
            bytes: 50_000,
            stream: true,
            content,
            protocol,
            send_method,
            receive_method: ReceiveMethod::Reject(5000),
            cancel_at: None,
        };
        transfers.push(long);
        transfers.push(Transfer {
            receive_method: ReceiveMethod::Pull(3000, 1),
            cancel_at: Some(20_000),
            ..long
        });
    }
    transfers
}

fn nothing_is_allocated<F: TestFabric>(flags: FlagPlace, arrival: Arrival) {
    let setup = Setup { order_inside_write: arrival == Arrival::Flag, ..Setup::new(layout(flags), 7) };
    let config = Config { arrival, ..Config::default() };

    let fabric = F::new(&setup);
    let connect = || {
        for side in 0..2 {
            let end = Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default());
            assert!(end.is_ok());
        }
    };
    assert_eq!(allocations(connect), 0, "{}: connecting", F::NAME);

    let transfers = [transfers(), transfers()];
    let script = Script {
        setup,
        configs: [config; 2],
        origin: Origin::default(),
        transfers,
        slowness: [1, 2],
        windows: true,
    };
    for recorders in [[None, None], [Some(Box::new(Recorder::new())), Some(Box::new(Recorder::new()))]] {
        let recorded = recorders[0].is_some();
        let mut pair = Pair::<F>::new(script.clone());
        *pair.fabric.recorders() = recorders;
        let allocated = allocations(|| pair.play());
        assert_eq!(
            allocated,
            0,
            "{}, recorded: {recorded}: from the first message to the last close",
            F::NAME
        );
    }
}

#[test]
fn nothing_is_allocated_by_direct_store() {
    nothing_is_allocated::<Direct>(FlagPlace::Apart { group_blocks: 4 }, Arrival::Flag);
    nothing_is_allocated::<Direct>(FlagPlace::Inside, Arrival::CheckedFlag);
}

#[test]
fn nothing_is_allocated_by_posted_writes() {
    nothing_is_allocated::<Posted>(FlagPlace::Inside, Arrival::Flag);
    nothing_is_allocated::<Posted>(FlagPlace::Inside, Arrival::CheckedFlag);
    nothing_is_allocated::<Posted>(FlagPlace::Inside, Arrival::Notify);
}

#[test]
fn the_count_counts() {
    assert!(allocations(|| drop(core::hint::black_box(Box::new(1)))) > 0);
}
