//! Landing on demand: what arrives while landing buffers come and go, and what the kernel has pinned meanwhile.

use crate::addresses;
use crate::api::{MODES, pair, receive_all, send_all};
use crate::devices;
use crate::limits::behind;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::process::Command;
use std::thread;
use std::time::Instant;
use std::{env, fs};
use superpipe::{Arrival, Budget, Connection, LandingMode, Options, Protocol, Tuning};

/// What an end registers at connect: two pages, and two with receives and what messages are sent from.
const IDLE_BYTES: u64 = 4 * 4096;
/// Far more than the ten seconds after which idle memory is released.
const PATIENCE: Duration = Duration::from_secs(100);

fn on_demand(arrival: Option<Arrival>) -> Options {
    let tuning = Tuning { arrival, landing: Some(LandingMode::OnDemand), ..Tuning::default() };
    Options { tuning, ..Options::default() }
}

/// Sends messages of these sizes both ways, and checks them. Each end goes on until the other has all.
pub(crate) fn exchange(one: &mut Connection, other: &mut Connection, sizes: &[usize]) {
    let over = [AtomicBool::new(false), AtomicBool::new(false)];
    let finish = |connection: &mut Connection, own: usize| {
        over[own].store(true, Ordering::Relaxed);
        while !over[1 - own].load(Ordering::Relaxed) {
            connection.progress();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            send_all(one, sizes);
            receive_all(one, sizes);
            finish(one, 0);
        });
        receive_all(other, sizes);
        send_all(other, sizes);
        finish(other, 1);
    });
}

/// Returns the bytes that the kernel has pinned for this process.
fn pinned_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPin:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

/// Returns the bytes of all regions of all devices, if no other process has any, which SUPERPIPE_RDMA_ALONE says. The kernel knows the thread
/// that registered one, which may have ended.
fn registered_bytes() -> Option<u64> {
    if env::var_os("SUPERPIPE_RDMA_ALONE").is_none() {
        eprintln!("NOT CHECKED: without SUPERPIPE_RDMA_ALONE, other processes may have regions");
        return None;
    }
    let output = Command::new("rdma").args(["resource", "show", "mr"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split_whitespace();
    let mut sum = 0;
    while words.any(|word| word == "mrlen") {
        sum += words.next().unwrap().parse::<u64>().unwrap();
    }
    Some(sum)
}

/// Waits until budget, kernel and devices agree on what is registered, with all ends driven meanwhile. Returns the bytes.
pub(crate) fn agree(ends: &mut [(Connection, Connection)], is_good: impl Fn(u64) -> bool, what: &str) -> u64 {
    let end = Instant::now() + PATIENCE;
    loop {
        for (one, other) in &mut *ends {
            one.progress();
            other.progress();
        }
        let bytes = Budget::registered_bytes();
        let pinned = pinned_bytes();
        let registered = registered_bytes();
        if is_good(bytes) && pinned == bytes && registered.is_none_or(|registered| registered == bytes) {
            return bytes;
        }
        assert!(
            Instant::now() < end,
            "{what}: the budget has {bytes} bytes, {pinned} are pinned, and the devices have {registered:?}"
        );
    }
}

#[test]
fn messages_of_every_size_arrive_while_memory_grows() {
    for ip in devices() {
        for arrival in MODES {
            let (mut one, mut other) = pair(ip, on_demand(arrival));
            let longest = if arrival.is_none() { 16 << 20 } else { 1 << 20 };
            let sizes = [0, 1, 8, 40, 41, 2500, 3000, 65_000, 0, 300_000, 100, longest, 8];
            exchange(&mut one, &mut other, &sizes);
            exchange(&mut one, &mut other, &[40, 100_000, 2000]);
        }
    }
}

#[test]
fn the_kernel_has_pinned_what_the_budget_says() {
    if addresses().is_empty() || !behind("exec", "on_demand::the_kernel_has_pinned_what_the_budget_says") {
        return;
    }
    agree(&mut [], |bytes| bytes == 0, "before");
    let mut pairs = Vec::new();
    for ip in devices() {
        pairs.push(pair(ip, on_demand(None)));
        let idle = 2 * IDLE_BYTES * pairs.len() as u64;
        agree(&mut pairs, |bytes| bytes == idle, "idle");
        let (one, other) = pairs.last_mut().unwrap();
        for end in [&*one, &*other] {
            let description = end.description();
            assert_eq!((description.provisioned_bytes, description.receive_bytes), (IDLE_BYTES, 2 * 4096));
        }
        // What fits in the page provisions nothing.
        exchange(one, other, &[0, 8, 40, 41, 1000, 2000]);
        agree(&mut pairs, |bytes| bytes == idle, "after short messages");
    }
    let idle = 2 * IDLE_BYTES * pairs.len() as u64;
    for (one, other) in &mut pairs {
        exchange(one, other, &[300_000; 4]);
    }
    let least = idle + 4 * (64 << 10) * pairs.len() as u64;
    let grown = agree(&mut pairs, |bytes| bytes >= least, "a landing buffer and an image at each end");
    println!("{} connections: {idle} bytes when idle, {grown} after some messages", pairs.len());
    // After ten seconds without a message.
    agree(&mut pairs, |bytes| bytes == idle, "released");
    for (one, other) in &mut pairs {
        exchange(one, other, &[100_000, 8]);
    }
    drop(pairs);
    agree(&mut [], |bytes| bytes == 0, "after the close");
}

/// Small buffers and their images are regions of their own, as large as a page.
#[test]
fn small_buffers_are_pinned_until_they_are_left() {
    if addresses().is_empty() || !behind("exec", "on_demand::small_buffers_are_pinned_until_they_are_left") {
        return;
    }
    let tuning = Tuning { protocol: Some(Protocol::Provision), ..Tuning::default() };
    let mut pairs = Vec::new();
    for ip in devices() {
        agree(&mut pairs, |bytes| bytes == 0, "before");
        pairs.push(pair(ip, Options { tuning, ..Options::default() }));
        let first = 2 * (IDLE_BYTES + 2 * 4096);
        agree(&mut pairs, |bytes| bytes == first, "connected");
        let (one, other) = pairs.last_mut().unwrap();
        for end in [&*one, &*other] {
            assert_eq!(end.description().provisioned_bytes, IDLE_BYTES + 2 * 4096);
        }
        exchange(one, other, &[0, 8, 40, 41, 200, 904]);
        agree(&mut pairs, |bytes| bytes == first, "up to the threshold");
        let (one, other) = pairs.last_mut().unwrap();
        exchange(one, other, &[5000]);
        // Of each direction a landing buffer and an image of 8 KiB, in place of those of a page.
        let has_grown = |bytes| bytes > first && bytes < first + (64 << 10);
        agree(&mut pairs, has_grown, "grown");
        // After ten seconds without a message: the base takes their place.
        agree(&mut pairs, |bytes| bytes == 2 * IDLE_BYTES, "released");
        let (one, other) = pairs.last_mut().unwrap();
        exchange(one, other, &[904, 100_000, 8]);
        pairs.clear();
        agree(&mut [], |bytes| bytes == 0, "after the close");
    }
}

#[test]
fn a_kernel_that_refuses_growth_fails_no_message() {
    let poor = "ulimit -l 64; exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock";
    if addresses().is_empty() || !behind(poor, "on_demand::a_kernel_that_refuses_growth_fails_no_message") {
        return;
    }
    for (limit, what) in [(1 << 30, "the kernel"), (64 << 10, "the budget")] {
        Budget::set_registered_max(limit);
        for ip in devices() {
            let (mut one, mut other) = pair(ip, on_demand(None));
            exchange(&mut one, &mut other, &[30_000, 8, 3000]);
            // A job that tries may be under way: its share goes when it has failed.
            let end = Instant::now() + PATIENCE;
            while Budget::registered_bytes() != 2 * IDLE_BYTES {
                one.progress();
                other.progress();
                let bytes = Budget::registered_bytes();
                assert!(Instant::now() < end, "{what} refuses 64 KiB at {ip}: {bytes} bytes are registered");
            }
            let asked = one.counters().growths_asked + other.counters().growths_asked;
            let moved = one.counters().moves + other.counters().moves;
            assert!(asked > 0 && moved == 0, "{asked} times asked for, {moved} times granted");
        }
    }
}
