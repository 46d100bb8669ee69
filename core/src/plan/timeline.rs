//! Time of a message in chunks, chunk by chunk. The equations are its closed forms where a copy is faster than the wire and chunks grow no faster than that
//! allows; this holds beyond that, and counts what they leave out: flags, cold pages, the wait for the CTS, a largest chunk. It knows no folds, so no wait for
//! acknowledgements, and copies all chunks but the first at the bandwidth beside the wire, also where the wire is idle.
//!
//! ```text
//! sender    copy 0 | copy 1    | copy 2         |
//! wire             g chunk 0 |   g chunk 1        |   g chunk 2 ...
//! receiver            λ   blocks of chunk 0 |     blocks of chunk 1 ...
//! ```

use super::chunks::Chunks;
use super::profile::Profile;
use super::registration::{BASE_BYTES, Pages};
use super::start::Start;

/// Bytes of a block's flag.
const FLAG_BYTES: f64 = 8.0;

/// A message that is copied in chunks into a landing buffer which is as large as the message, or never full, and out of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChunkedCopy {
    /// Bytes of the message.
    pub bytes: u64,
    /// Sizes of the chunks.
    pub chunks: Chunks,
    /// Bytes of a sub-block, each with a flag; `None`: the receiver copies a chunk out once it is whole.
    pub block_bytes: Option<f64>,
    /// Wait before the first chunk.
    pub start: Start,
    /// Pages of its source and its destination. A copy faults in those that are cold.
    pub pages: [Pages; 2],
}

impl ChunkedCopy {
    /// Returns the superpipeline of a message in resident pages, with sub-blocks of 4 KiB.
    #[must_use]
    pub const fn superpipeline(bytes: u64, chunks: Chunks, start: Start) -> Self {
        Self { bytes, chunks, block_bytes: Some(4096.0), start, pages: [Pages::RESIDENT; 2] }
    }

    /// Returns the nanoseconds from the sender's call until the receiver has copied all of it out. Takes a step for each chunk.
    #[must_use]
    pub fn ns(&self, profile: &Profile) -> f64 {
        let Self { bytes, chunks, block_bytes, start, pages } = *self;
        let length = bytes as f64;
        let [fill_fault_ns, drain_fault_ns] = pages.map(|pages| {
            let faults_ns = profile.registration.faults_ns(BASE_BYTES, pages);
            faults_ns / BASE_BYTES as f64
        });
        let (alone, beside) = (profile.copy_bytes_per_ns(bytes), profile.overlapped_copy_bytes_per_ns(bytes));
        let flags = block_bytes.map_or(1.0, |block| (block + FLAG_BYTES) / block);
        let wire_ns = |part: f64| part * flags / profile.net_bytes_per_ns;
        let rendezvous_ns = profile.rendezvous_ns();
        let begin_ns = if start == Start::Rendezvous { rendezvous_ns } else { 0.0 };
        let mut chunk = chunks.c0_bytes.clamp(1.0, chunks.bytes_max.max(1.0));
        // When the sender has copied, the wire is free, and the receiver has copied; and before when nothing more may leave.
        let (mut filled_ns, mut wire_free_ns, mut drained_ns) = (begin_ns, 0.0_f64, 0.0_f64);
        let mut may_leave_ns = if start == Start::Overlapped { rendezvous_ns } else { 0.0 };
        let mut left = length;
        let mut is_first = true;
        loop {
            let part = chunk.min(left);
            let rate = if is_first { alone } else { beside };
            filled_ns += part / rate + part * fill_fault_ns;
            let leaves_ns = filled_ns.max(wire_free_ns).max(may_leave_ns) + profile.gap_ns;
            filled_ns += profile.overhead_ns;
            wire_free_ns = leaves_ns + wire_ns(part);
            let arrived_ns = wire_free_ns + profile.latency_ns;
            left -= part;
            let rate = if left > 0.0 { beside } else { alone };
            let drain_ns = |part: f64, rate: f64| part / rate + part * drain_fault_ns;
            drained_ns = match block_bytes {
                Some(block) => {
                    let block = block.min(part);
                    let first_ns = leaves_ns + profile.latency_ns + wire_ns(block);
                    // It copies while the rest arrives, one block behind at best.
                    (drained_ns.max(first_ns) + drain_ns(part, beside))
                        .max(arrived_ns + drain_ns(block, rate))
                }
                None => drained_ns.max(arrived_ns) + drain_ns(part, rate),
            };
            if is_first && start == Start::Optimistic {
                // The header is in the first block. The CTS is a message, too, and core copies the next chunk once it is here.
                let block = block_bytes.unwrap_or(part).min(part);
                let answer_ns = profile.overhead_ns + profile.gap_ns;
                may_leave_ns = leaves_ns + wire_ns(block) + rendezvous_ns + answer_ns;
                filled_ns = filled_ns.max(may_leave_ns);
            }
            is_first = false;
            if left <= 0.0 {
                return drained_ns;
            }
            chunk = chunks.after(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CopyStep, Machine};
    use super::*;

    /// Copies are as fast in every data set and beside the wire, and nothing is posted: the assumptions of the equations.
    fn ideal() -> Profile {
        let copy = [CopyStep { data_bytes_max: u64::MAX, bytes_per_ns: 5.4 }; 4];
        Profile { copy, contention: 0.0, overhead_ns: 0.0, ..Machine::GRAPHENE.profile }
    }

    fn is_within(one: f64, other: f64, percent: f64) -> bool {
        (one / other - 1.0).abs() < percent / 100.0
    }

    #[test]
    fn it_agrees_with_the_equations_where_they_hold() {
        let profile = ideal();
        for bytes in [64 << 10, 1 << 20, 64 << 20] {
            let chunks = Chunks { growth: 2.0, ..Chunks::HARDWIRED };
            let whole =
                ChunkedCopy { block_bytes: None, ..ChunkedCopy::superpipeline(bytes, chunks, Start::Raw) };
            // Chunks are whole here, so the last one is at most as long as by the equation, and the number is rounded up.
            let by_equation = profile.superpipeline_ns(bytes, chunks);
            let least = by_equation - profile.copy_ns(chunks.last_bytes(bytes), bytes);
            assert!((least..by_equation + profile.gap_ns).contains(&whole.ns(&profile)), "{bytes}");
            let chunk = profile.optimal_chunk_bytes(bytes);
            let flat = ChunkedCopy { chunks: Chunks::flat(chunk), ..whole };
            assert!(is_within(flat.ns(&profile), profile.pipeline_ns(bytes, chunk), 3.0), "{bytes}");
            let all = ChunkedCopy::superpipeline(bytes, chunks, Start::Overlapped);
            let by_equation = profile.sub_blocked_ns(bytes, chunks, 4096.0) + profile.rendezvous_ns();
            assert!(
                is_within(all.ns(&profile), by_equation, 1.5),
                "{bytes}: {} {by_equation}",
                all.ns(&profile)
            );
        }
    }

    #[test]
    fn one_chunk_by_hand() {
        let profile = Profile { contention: 0.0, ..Machine::GRAPHENE.profile };
        let one = ChunkedCopy {
            block_bytes: None,
            ..ChunkedCopy::superpipeline(10_000, Chunks::HARDWIRED, Start::Raw)
        };
        // Copy, gap, latency, wire, copy.
        assert!((one.ns(&profile) - (1000.0 + 250.0 + 1270.0 + 5000.0 + 1000.0)).abs() < 1e-6);
        let blocks = ChunkedCopy { block_bytes: Some(4096.0), ..one };
        let flags = 4104.0 / 4096.0;
        assert!((blocks.ns(&profile) - (1000.0 + 250.0 + 1270.0 + 5000.0 * flags + 409.6)).abs() < 1e-6);
        let none = ChunkedCopy { bytes: 0, ..one };
        assert!((none.ns(&profile) - 1520.0).abs() < 1e-6);
    }

    #[test]
    fn the_wire_waits_for_copies_of_chunks_that_grow_too_fast() {
        let profile = ideal();
        let ns = |growth| {
            let chunks = Chunks { growth, ..Chunks::HARDWIRED };
            ChunkedCopy::superpipeline(8 << 20, chunks, Start::Raw).ns(&profile)
        };
        assert!(ns(profile.growth(8 << 20)) < ns(1000.0) * 0.9);
    }

    #[test]
    fn a_copy_slower_than_the_wire_sets_the_rate() {
        let profile = Profile { net_bytes_per_ns: 50.0, ..ideal() };
        let bytes = 64 << 20;
        let ns = ChunkedCopy::superpipeline(bytes, Chunks::HARDWIRED, Start::Raw).ns(&profile);
        // A third of the message is in the last chunk, whose copies do not overlap; with small chunks nearly all do.
        assert!(is_within(ns, bytes as f64 / 5.4 * 4.0 / 3.0, 8.0), "{ns}");
        let flat = ChunkedCopy::superpipeline(bytes, Chunks::flat(65_536.0), Start::Raw).ns(&profile);
        assert!(is_within(flat, bytes as f64 / 5.4, 1.0), "{flat}");
    }

    #[test]
    fn each_start_costs_its_wait() {
        let profile = Machine::GRAPHENE.profile;
        let ns = |profile: &Profile, start| {
            ChunkedCopy::superpipeline(1 << 20, Chunks::HARDWIRED, start).ns(profile)
        };
        let copy_ns = profile.copy_ns(12_288.0, 1 << 20);
        let gain = ns(&profile, Start::Rendezvous) - ns(&profile, Start::Overlapped);
        assert!((gain - copy_ns.min(profile.rendezvous_ns())).abs() < 1e-6);
        // C0 is on the wire for longer than a round trip, but the copy of C1 begins with the CTS. The wire waits for a part of it.
        let waits_ns = ns(&profile, Start::Optimistic) - ns(&profile, Start::Raw);
        assert!((500.0..profile.copy_ns(18_432.0, 1 << 20)).contains(&waits_ns), "{waits_ns}");
        let t3 = Machine::CHELSIO_T3.profile;
        assert!(ns(&t3, Start::Optimistic) - ns(&t3, Start::Raw) > 10_000.0, "the CTS comes late");
        assert!(ns(&t3, Start::Optimistic) < ns(&t3, Start::Overlapped));
    }

    #[test]
    fn cold_pages_fault_in_copies() {
        let profile = Machine::GRAPHENE.profile;
        let resident = ChunkedCopy::superpipeline(1 << 20, Chunks::HARDWIRED, Start::Raw);
        let cold = ChunkedCopy { pages: [Pages::RESIDENT, Pages::COLD], ..resident };
        let faults_ns = 256.0 * profile.registration.fault_ns;
        let more = cold.ns(&profile) - resident.ns(&profile);
        // Some of the faults are hidden beside the wire.
        assert!(more > 0.2 * faults_ns && more < faults_ns, "{more}");
        let both = ChunkedCopy { pages: [Pages::COLD; 2], ..resident };
        assert!(both.ns(&profile) > cold.ns(&profile));
    }

    #[test]
    fn a_largest_chunk_costs_gaps() {
        let profile = Machine::GRAPHENE.profile;
        let free = ChunkedCopy::superpipeline(64 << 20, Chunks::HARDWIRED, Start::Raw);
        let folded = ChunkedCopy { chunks: Chunks { bytes_max: 65_536.0, ..free.chunks }, ..free };
        let more = folded.ns(&profile) - free.ns(&profile);
        assert!((800.0 * 250.0..1100.0 * 250.0).contains(&more), "{more}");
    }
}
