//! The measuring process.

use core::time::Duration;
use std::time::Instant;

use superpipe::plan::Explanation;
use superpipe::{Address, Connection, Protocol};
use superpipe_bench::connection::{DEADLINE, fail};
use superpipe_bench::failure::Failure;
use superpipe_bench::stats::{Spread, median};

use super::cell::Cell;
use super::memory::{MemoryKind, Source, TAG};
use super::server::Command;
use super::ways::options;

/// Messages of each size and memory that a planner has seen before anything is measured.
const TAUGHT: usize = 100;

/// Connections to the server.
pub(crate) struct Client {
    control: Connection,
    connections: Vec<(Protocol, Connection)>,
}

impl Client {
    pub(crate) fn connect(address: &Address, contestants: &[Protocol]) -> Result<Self, Failure> {
        let connect = |protocol| Connection::connect(address, options(protocol), DEADLINE).map_err(fail);
        let mut control = connect(Protocol::Superpipeline)?;
        let mut connections = Vec::new();
        for protocol in contestants {
            control.recv_into(&mut [], DEADLINE).map_err(fail)?;
            connections.push((*protocol, connect(*protocol)?));
        }
        Ok(Self { control, connections })
    }

    /// Ends the server.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        let end = Command { connection: 0, count: 0, bytes: 0, is_registered: false };
        self.control.send(TAG, &[&end.encode()], DEADLINE).map_err(fail)?;
        self.control.flush(DEADLINE).map_err(fail)
    }

    /// Measures messages of one size and memory.
    pub(crate) fn cell(
        &mut self,
        bytes: usize,
        memory: MemoryKind,
        rounds: usize,
        slice_ms: u64,
    ) -> Result<Cell, Failure> {
        let mut sources = Vec::new();
        let mut counts = Vec::new();
        for at in 0..self.connections.len() {
            sources.push(Source::new(memory, bytes)?);
            // Warms each connection up. Only the one that plans learns.
            let took = self.slice(at, TAUGHT, &mut sources[at], memory, &mut Vec::new())?;
            let fit = slice_ms as f64 * 1000.0 / took.max(0.001);
            #[expect(clippy::cast_possible_truncation, reason = "a count that is clamped")]
            counts.push((fit as usize).clamp(1, 10_000));
        }
        let mut times = vec![Vec::new(); self.connections.len()];
        let (mut predicted, mut planned_over_best) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            for turn in 0..self.connections.len() {
                let at = (turn + round) % self.connections.len();
                if memory.goes_by(self.connections[at].0) {
                    let took = self.slice(at, counts[at], &mut sources[at], memory, &mut predicted)?;
                    times[at].push(took);
                }
            }
        }
        let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
        let best = (1..medians.len()).filter(|at| !medians[*at].is_nan());
        let best = best.min_by(|one, other| medians[*one].total_cmp(&medians[*other])).unwrap_or(1);
        for (planned, best) in times[0].iter().zip(&times[best]) {
            planned_over_best.push(planned / best);
        }
        // Such messages are not planned if none was: what is known is of others.
        let explanation = if predicted.is_empty() { None } else { self.explain(bytes) };
        let chosen = explanation.as_ref().map(|explanation| explanation.chosen);
        let at = chosen
            .and_then(|way| self.connections.iter().position(|(protocol, _)| *protocol == way.protocol()));
        Ok(Cell {
            bytes,
            memory,
            chosen,
            explanation: explanation.map(|explanation| explanation.to_string()),
            // None for register out of registered buffers: no pinned connection does that.
            chosen_over_best: at.map(|at| medians[at] / medians[best]).filter(|over| !over.is_nan()),
            planned_over_best: Spread::new(&planned_over_best),
            predicted: chosen.map(|_| Spread::new(&predicted)),
            times: self.connections.iter().map(|(protocol, _)| *protocol).zip(medians).collect(),
        })
    }

    /// Explains how the next planned message of this size would go, in the memory of the last one.
    fn explain(&mut self, bytes: usize) -> Option<Explanation> {
        let (_, planner) = &mut self.connections[0];
        let last = planner.last_planned().filter(|last| last.bytes == bytes as u64)?;
        planner.explain(bytes as u64, last.memory)
    }

    /// Sends so many messages, and returns the median time of one in microseconds. Adds what was predicted for planned ones over what they took.
    fn slice(
        &mut self,
        at: usize,
        count: usize,
        source: &mut Source,
        memory: MemoryKind,
        predicted: &mut Vec<f64>,
    ) -> Result<f64, Failure> {
        let (protocol, connection) = &mut self.connections[at];
        let bytes = source.bytes();
        let command = Command { connection: at, count, bytes, is_registered: memory.is_registered() };
        self.control.send(TAG, &[&command.encode()], DEADLINE).map_err(fail)?;
        self.control.recv_into(&mut [], DEADLINE).map_err(fail)?;
        let mut before = connection.last_planned();
        let mut took = Vec::with_capacity(count);
        for _ in 0..count {
            let mark = source.prepare(connection)?;
            let begin = Instant::now();
            source.send(connection)?;
            let mut answer = [0; 8];
            connection.recv_into(&mut [&mut answer], DEADLINE).map_err(fail)?;
            took.push(us(begin.elapsed()));
            if answer != [mark; 8] {
                return Err(Failure::Integrity(format!("message {mark} was answered by {answer:?}")));
            }
            let now = connection.last_planned().filter(|_| *protocol == Protocol::Auto);
            if let Some(last) = now.filter(|last| now != before && !last.is_declined) {
                predicted.push(last.predicted_ns / last.took_ns as f64);
            }
            before = now;
        }
        Ok(median(&took))
    }
}

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
