//! Figures of Frey and Alonso, on the T3.

use superpipe_core::plan::{Machine, Pages};
use superpipe_core::{Config, Protocol};

use super::super::figure::{Curve, Figure, Values};
use super::super::rows::throughput;
use super::{curve, measured, sizes};
use crate::measured::connection::Buffers;
use crate::measured::experiment::Experiment;
use crate::measured::system::System;

const T3: &Machine = &Machine::CHELSIO_T3;
/// Buffers that are measured. The paper goes to 2 GB, beyond which nothing changes.
const BUFFER_BYTES: [u64; 2] = [1 << 10, 16 << 20];

fn of_buffers(title: &'static str, curves: Vec<Curve>) -> Figure {
    Figure { title, of: "bytes of a buffer", values: Values::Time, curves }
}

fn round_trip() -> Curve {
    curve("round trip", &sizes(BUFFER_BYTES), |_| T3.profile.rendezvous_ns() / 1000.0)
}

/// Figure 1 is of TCP, which is not simulated. This is what takes the place of its copies.
pub(super) fn load() -> Result<Figure, String> {
    let titles = [
        "superpipeline: copies",
        "superpipeline: posts and polls",
        "register: registration",
        "register: posts and polls",
        "register-cached, hits: posts and polls",
    ];
    let curves = measured(titles, &sizes([16 << 10, 16 << 20]), |bytes| {
        let worked =
            |protocol, buffers| Experiment::on(T3, protocol, buffers, bytes, Config::default()).worked_ns();
        let [copied, _, else_of_copied] = worked(Protocol::Superpipeline, Buffers::Unnamed)?;
        let [_, registered, else_of_registered] = worked(Protocol::Register, Buffers::Lent)?;
        let cached: f64 = worked(Protocol::RegisterCached, Buffers::Registered)?.iter().sum();
        let times = [copied, else_of_copied, registered, else_of_registered, cached];
        Ok(times.map(|ns| ns / 1000.0))
    })?;
    let title = "CPU time of a message at both ends, T3 (in place of Frey and Alonso, Figure 1; runs)";
    Ok(Figure { title, of: "bytes of a message", values: Values::Time, curves })
}

pub(super) fn registration_costs() -> Result<Figure, String> {
    let [cold, resident] = [Pages::COLD, Pages::RESIDENT].map(|pages| System::of(T3, pages));
    let titles = ["registration, cold", "registration, resident", "deregistration"];
    let mut curves = measured(titles, &sizes(BUFFER_BYTES), |bytes| {
        let took = [cold.register(bytes, 1)?, resident.register(bytes, 1)?, resident.deregister(bytes)?];
        Ok(took.map(|took| took.ns / 1000.0))
    })?;
    curves.push(round_trip());
    let title = "Registration and deregistration, T3 (Frey and Alonso, Figure 5; jobs of the machine)";
    Ok(of_buffers(title, curves))
}

pub(super) fn critical_resident() -> Result<Figure, String> {
    let title = "Registration and copies, resident, T3 (Frey and Alonso, Figure 8; jobs and copies)";
    critical(title, Pages::RESIDENT)
}

pub(super) fn critical_cold() -> Result<Figure, String> {
    let title = "Registration and copies, cold, T3 (Frey and Alonso, Figure 9; jobs and copies)";
    critical(title, Pages::COLD)
}

fn critical(title: &'static str, pages: Pages) -> Result<Figure, String> {
    let system = System::of(T3, pages);
    let mut curves = measured(["registration", "memcpy"], &sizes(BUFFER_BYTES), |bytes| {
        Ok([system.register(bytes, 1)?, system.copy(bytes)?].map(|took| took.ns / 1000.0))
    })?;
    curves.push(round_trip());
    Ok(of_buffers(title, curves))
}

pub(super) fn parallel() -> Result<Figure, String> {
    let titles = [
        "4 regions, 1 core, cold",
        "4 regions, 4 cores, cold",
        "1 region, cold",
        "4 regions, 1 core, resident",
        "4 regions, 4 cores, resident",
        "1 region, resident",
    ];
    let curves = measured(titles, &sizes([1 << 10, 4 << 20]), |bytes| {
        let us = |pages, cores, regions| {
            let took = System { cores, ..System::of(T3, pages) }.register(bytes, regions)?;
            Ok::<_, String>(took.ns / 1000.0)
        };
        let [cold, resident] = [Pages::COLD, Pages::RESIDENT]
            .map(|pages| Ok::<_, String>([us(pages, 1, 4)?, us(pages, 4, 4)?, us(pages, 1, 1)?]));
        let ([a, b, c], [d, e, f]) = (cold?, resident?);
        Ok([a, b, c, d, e, f])
    })?;
    let title = "Four regions on four cores and on one, T3 (Frey and Alonso, Figure 10; jobs of the machine)";
    Ok(of_buffers(title, curves))
}

pub(super) fn writes() -> Result<Figure, String> {
    let titles = ["throughput, of the wire", "CPU load"];
    let curves = measured(titles, &sizes([64, 1 << 20]), |bytes| {
        throughput(u32::try_from(bytes).map_err(|error| error.to_string())?)
    })?;
    let title = "Writes one after another, T3 (Frey and Alonso, Figure 11; writes of the machine)";
    Ok(Figure { title, of: "bytes of a write", values: Values::Percent, curves })
}
