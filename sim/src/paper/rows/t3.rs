//! Rows of the machine of Frey and Alonso, from its jobs, copies and writes (`system.rs`).

use superpipe_core::plan::{CopyStep, Machine, PageSize, Pages, Profile, Registration};
use superpipe_core::{Config, Protocol};

use super::super::row::{Bound, Row, Source};
use super::{K, M, first_that};
use crate::measured::connection::Buffers;
use crate::measured::experiment::Experiment;
use crate::measured::system::System;

const T3: Machine = Machine::CHELSIO_T3;
const HUGE: Pages = Pages { size: PageSize::Huge, are_resident: true };
/// Bytes in whose multiples sizes are looked for.
const PAGE: u64 = 4096;

/// Returns a size in KiB, which must be that of the paper within a power of two.
fn within_a_power(bytes: u64, paper: u64) -> (f64, Bound) {
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    (kib(bytes), Bound::Between(kib(paper / 2), kib(paper * 2)))
}

/// Returns the smallest buffer from which on registering it takes less time than copying it, in whole pages.
fn critical_bytes(machine: &Machine, pages: Pages) -> Result<u64, String> {
    let system = System::of(machine, pages);
    first_that(PAGE, 1024, |bytes| Ok(system.register(bytes, 1)?.ns < system.copy(bytes)?.ns))
}

/// Cold: both buffers of the copy, which the text does not say.
pub(super) fn critical_sizes() -> Result<Row, String> {
    let critical = |pages| critical_bytes(&T3, pages);
    let values =
        [within_a_power(critical(Pages::RESIDENT)?, 256 * K), within_a_power(critical(Pages::COLD)?, 32 * K)];
    let what = ("critical size, T3: resident; source and destination cold", "256 KB; 32 KB");
    Ok(Row::new(what, Source::FittedMachine, " KiB", &values))
}

/// The critical size is below a huge page, so no buffer of that size can have one. Above, both costs have one factor, 0.6 of the text, which for copies is assumed from "about the
/// same".
pub(super) fn huge_pages_and_critical_size() -> Result<Row, String> {
    let critical = critical_bytes(&T3, HUGE)? as f64 / critical_bytes(&T3, Pages::RESIDENT)? as f64;
    let systems = [HUGE, Pages::RESIDENT].map(|pages| System::of(&T3, pages));
    let share = |ns: [Result<f64, String>; 2]| {
        let [huge, base] = ns;
        Ok::<_, String>(huge? / base?)
    };
    let registered = share(systems.map(|system| system.register(64 * M, 1).map(|took| took.ns)))?;
    let copied = share(systems.map(|system| system.copy(64 * M).map(|took| took.ns)))?;
    let values = [
        (critical, Bound::About(1.0, 0.1)),
        (registered, Bound::About(0.6, 0.05)),
        (copied, Bound::About(0.6, 0.05)),
    ];
    let what = (
        "huge pages over pages of 4 KiB, T3: critical size; registration, copy of 64 MiB",
        "no significant influence; about the same for both",
    );
    Ok(Row::new(what, Source::FittedMachine, "x", &values))
}

/// Returns the T3 with a CPU of half the speed: copies, and what of registration is not the device's.
fn slow_t3() -> Machine {
    let Profile { copy, registration, .. } = T3.profile;
    let copy = copy.map(|step| CopyStep { bytes_per_ns: step.bytes_per_ns / 2.0, ..step });
    let slower = registration.device_share + 2.0 * (1.0 - registration.device_share);
    let registration = Registration {
        latency_ns: registration.latency_ns * slower,
        bytes_per_ns: registration.bytes_per_ns / slower,
        ..registration
    };
    Machine { name: "slow t3", profile: Profile { copy, registration, ..T3.profile } }
}

/// The device is as fast as before. Halved is an assumption: the text says "slower".
pub(super) fn slow_processor() -> Result<Row, String> {
    let [slow, fast] = [slow_t3(), T3].map(|machine| critical_bytes(&machine, Pages::RESIDENT));
    let what = ("critical size with a CPU of half the speed, over that of the T3", "towards smaller buffers");
    Ok(Row::new(what, Source::Machine, "x", &[(slow? as f64 / fast? as f64, Bound::AtMost(0.95))]))
}

/// A copy is work of the CPU, all of it. The share of the device in registration was fitted to the text.
pub(super) fn load() -> Result<Row, String> {
    let system = System::of(&T3, Pages::RESIDENT);
    let mut values = Vec::new();
    for bytes in [64 * K, M] {
        values.push((system.copy(bytes)?.cpu_percent(), Bound::About(100.0, 10.0)));
        values.push((system.reregister(bytes)?.cpu_percent(), Bound::Between(50.0, 85.0)));
    }
    let what = ("CPU load, T3: copy, re-registration of 64 KiB; of 1 MiB", "100 %; 60 to 75 %");
    Ok(Row::new(what, Source::FittedMachine, " %", &values))
}

/// The round trip is one of two messages of 8 bytes by core: 25 µs of the text, and what core takes.
pub(super) fn inside_a_round_trip() -> Result<Row, String> {
    let short = Experiment::on(&T3, Protocol::Superpipeline, Buffers::Unnamed, 8, Config::default());
    let round_trip_ns: f64 = short.times(2)?.iter().sum();
    let largest = |ns: &dyn Fn(u64) -> Result<f64, String>| {
        first_that(PAGE, 1024, |bytes| Ok(ns(bytes)? > round_trip_ns)).map(|bytes| bytes - PAGE)
    };
    let [resident, cold] = [Pages::RESIDENT, Pages::COLD].map(|pages| System::of(&T3, pages));
    let registered = |system: System| largest(&|bytes| system.register(bytes, 1).map(|took| took.ns));
    let deregistered = largest(&|bytes| resident.deregister(bytes).map(|took| took.ns))?;
    let values = [
        within_a_power(registered(resident)?, 64 * K),
        within_a_power(registered(cold)?, 8 * K),
        within_a_power(deregistered, M),
    ];
    let what =
        ("inside one round trip, T3: registration resident, cold; deregistration", "64 KB, 8 KB; 1 MB");
    Ok(Row::new(what, Source::FittedMachine, " KiB", &values))
}

/// One fault of the host at a time is the rate of faults to which the text puts it down.
pub(super) fn parallel_registration() -> Result<Row, String> {
    let gain = |pages| {
        let ns = |cores| System { cores, ..System::of(&T3, pages) }.register(M, 4).map(|took| took.ns);
        Ok::<_, String>(ns(1)? / ns(4)?)
    };
    let values = [(gain(Pages::RESIDENT)?, Bound::AtLeast(2.0)), (gain(Pages::COLD)?, Bound::AtMost(1.2))];
    let what = (
        "four regions of 1 MiB registered by four cores, over one: resident; cold",
        "gains; almost as expensive",
    );
    Ok(Row::new(what, Source::FittedMachine, "x", &values))
}

pub(super) fn huge_pages() -> Result<Row, String> {
    let [huge, base] = [HUGE, Pages::RESIDENT].map(|pages| System::of(&T3, pages).register(256 * M, 1));
    let saved = 100.0 * (1.0 - huge?.ns / base?.ns);
    let what = ("registration in huge pages below that in pages of 4 KiB, 256 MiB", "up to 40 %");
    Ok(Row::new(what, Source::FittedMachine, " %", &[(saved, Bound::About(40.0, 5.0))]))
}

/// Share of B_net in percent, and load of the CPU, with writes of `bytes` bytes.
pub(in crate::paper) fn throughput(bytes: u32) -> Result<[f64; 2], String> {
    let count = 1024;
    let took = System::of(&T3, Pages::RESIDENT).write(bytes, count)?;
    let rate = f64::from(bytes) * count as f64 / took.ns;
    Ok([100.0 * rate / T3.profile.net_bytes_per_ns, took.cpu_percent()])
}

/// g and o of the T3 are assumed so that writes saturate the wire above 4 KB. The load is that of posting, polling and nothing else.
pub(super) fn writes() -> Result<Row, String> {
    let mut values = vec![(throughput(1024)?[0], Bound::AtMost(90.0))];
    for bytes in [4 << 10, 64 << 10] {
        let [share, load] = throughput(bytes)?;
        values.extend([(share, Bound::AtLeast(90.0)), (load, Bound::AtMost(10.0))]);
    }
    let what = (
        "writes, T3, of B_net: 1 KiB; 4 KiB, and CPU load; 64 KiB, and CPU load",
        "above 4 KB saturated, CPU close to idle",
    );
    Ok(Row::new(what, Source::FittedMachine, " %", &values))
}

/// Milliseconds until the first byte, by RDMA and by TCP (Frey and Alonso, section 3.2).
const SET_UP_MS: f64 = 202.0;
const TCP_MS: f64 = 0.1;

/// The set-up of the connection, and TCP, are given: nothing of them is simulated. Each end registers its control page, its landing buffer of 1 MiB and the images of the peer's, all cold, while the
/// other end does.
pub(super) fn first_byte() -> Result<Row, String> {
    let one = Experiment::on(&T3, Protocol::Superpipeline, Buffers::Unnamed, 1, Config::default());
    let one = Experiment { landing_bytes: Some(M), pages: Pages::COLD, ..one };
    let [registered_ms, sent_ms] = one.first()?.map(|ns| ns / 1e6);
    let total_ms = SET_UP_MS + registered_ms + sent_ms;
    let values = [(total_ms, Bound::About(SET_UP_MS, 2.02))];
    let what = ("time to first byte, T3; over TCP (0.1 ms, given)", "202 ms; 0.1 ms");
    let row = Row::new(what, Source::FittedRun, " ms", &values);
    let times = total_ms / TCP_MS;
    Ok(Row {
        got: format!(
            "{total_ms:.1} ms: set-up {SET_UP_MS} (given), registration {registered_ms:.2}, transfer {sent_ms:.3}; {times:.0}x"
        ),
        is_met: row.is_met && times >= 1000.0,
        ..row
    })
}
