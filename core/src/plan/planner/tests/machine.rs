//! A virtual machine: times by the equations of the papers, with costs of its own, noise and outliers.

use super::super::super::{
    ChunkedCopy, Chunks, CopyStep, Deregistration, Pages, Profile, Registration, Start,
};
use super::super::*;

/// xorshift64*.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number from 0 to 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a factor from a half to two.
    fn factor(&mut self) -> f64 {
        (self.unit() * 2.0 - 1.0).exp2()
    }

    /// Returns a factor of noise: up to 10 % either way, three times as much once in 50.
    pub(super) fn noise(&mut self) -> f64 {
        let outlier = if self.unit() < 0.02 { 3.0 } else { 1.0 };
        (0.9 + 0.2 * self.unit()) * outlier
    }
}

/// Returns the profile with each cost multiplied by a factor of its own.
pub(super) fn other(profile: &Profile, random: &mut Random) -> Profile {
    let mut by = |value: f64| value * random.factor();
    let Registration { fault_ns, deregistration, .. } = profile.registration;
    Profile {
        latency_ns: by(profile.latency_ns),
        net_bytes_per_ns: by(profile.net_bytes_per_ns),
        gap_ns: by(profile.gap_ns),
        overhead_ns: by(profile.overhead_ns),
        copy: profile.copy.map(|step| CopyStep { bytes_per_ns: by(step.bytes_per_ns), ..step }),
        contention: profile.contention,
        registration: Registration {
            latency_ns: by(profile.registration.latency_ns),
            bytes_per_ns: by(profile.registration.bytes_per_ns),
            fault_ns: by(fault_ns),
            deregistration: Deregistration {
                latency_ns: by(deregistration.latency_ns),
                bytes_per_ns: by(deregistration.bytes_per_ns),
                ..deregistration
            },
            ..profile.registration
        },
    }
}

/// Returns what a message takes on a machine, sent as planned. Written apart from the planner's predictions.
pub(super) fn true_ns(profile: &Profile, terms: &Terms, plan: &Plan, bytes: u64, memory: Memory) -> f64 {
    let fold = terms.landing_bytes as f64 / f64::from(terms.folds);
    let growing = Chunks {
        c0_bytes: f64::from(plan.c0_bytes),
        growth: f64::from(plan.growth_q8) / 256.0,
        bytes_max: f64::from(plan.chunk_bytes),
    };
    let copied = |chunks, start, block_bytes| {
        ChunkedCopy { bytes, chunks, start, block_bytes, pages: [Pages::RESIDENT; 2] }.ns(profile)
    };
    let registered = profile.gap_ns + profile.net_ns(bytes) + profile.rendezvous_ns();
    let registering = profile.registration.ns(bytes, Pages::RESIDENT);
    let ns = match plan.way {
        Way::Superpipeline => copied(growing, Start::Optimistic, Some(4096.0)),
        Way::Pipeline => copied(Chunks::flat(f64::from(plan.chunk_bytes)), Start::Rendezvous, None),
        Way::Eager => copied(Chunks::flat(fold), Start::Raw, Some(4096.0)),
        Way::Register if memory == Memory::Fresh => {
            registering + registered + profile.registration.deregistration_ns(bytes)
        }
        Way::Register => registering + registered,
        Way::RegisterCached => registered,
        Way::OneCopy => profile.latency_ns + profile.copy_ns(bytes as f64, bytes),
        Way::SplitCopy => profile.latency_ns + profile.copy_ns(bytes as f64 / 2.0, bytes),
    };
    ns + profile.latency_ns
}

/// Messages of one size out of one kind of memory on one machine.
pub(super) struct Cell {
    pub(super) bytes: u64,
    pub(super) memory: Memory,
    /// Nanoseconds of each way, of those that are possible.
    pub(super) truth: [Option<f64>; 7],
}

impl Cell {
    pub(super) fn new(planner: &Planner, profile: &Profile, bytes: u64, memory: Memory) -> Self {
        let mut truth = [None; 7];
        let mut planner = *planner;
        let mut plan = planner.plan(bytes, memory);
        let chunk_bytes = planner.model.shapes[class_of(bytes)].chunk_bytes;
        for one in planner.explain(bytes, memory).ways() {
            plan.way = one.way;
            plan.chunk_bytes = match one.way {
                #[expect(clippy::cast_possible_truncation, reason = "at most a fold")]
                Way::Pipeline => {
                    chunked::pipeline_chunk_bytes(&planner.profile, &planner.terms, bytes) as u32
                }
                _ => chunk_bytes,
            };
            truth[one.way as usize] = Some(true_ns(profile, &planner.terms, &plan, bytes, memory));
        }
        Self { bytes, memory, truth }
    }

    pub(super) fn ns(&self, way: Way) -> f64 {
        self.truth[way as usize].expect("a way that is possible")
    }

    pub(super) fn best_ns(&self) -> f64 {
        self.truth.iter().flatten().copied().fold(f64::INFINITY, f64::min)
    }

    /// Sends a message. Returns how it was planned.
    pub(super) fn send(&self, planner: &mut Planner, random: &mut Random) -> Plan {
        self.send_slower(planner, random, |_| 1.0)
    }

    /// Sends some messages.
    pub(super) fn send_many(&self, count: u32, planner: &mut Planner, random: &mut Random) {
        for _ in 0..count {
            self.send(planner, random);
        }
    }

    /// The same with times that are multiplied by a factor for each way.
    pub(super) fn send_slower(
        &self,
        planner: &mut Planner,
        random: &mut Random,
        factor: impl Fn(Way) -> f64,
    ) -> Plan {
        let plan = planner.plan(self.bytes, self.memory);
        let took_ns = self.ns(plan.way) * random.noise() * factor(plan.way);
        planner.observe(self.bytes, self.memory, plan.way, took_ns);
        plan
    }

    /// Returns the way of the next message that is no trial.
    pub(super) fn choice(&self, planner: &Planner) -> Way {
        planner.explain(self.bytes, self.memory).chosen
    }
}
