//! Chunks of the superpipeline for a profile: C0, q and the largest chunk. Denis, section 4, equations 3 to 5.

use super::super::chunks::Chunks;
use super::super::profile::Profile;
use super::super::start::Start;
use super::super::timeline::ChunkedCopy;
use super::chunked::{chunked_ns, pipeline_chunk_bytes};
use super::terms::Terms;
use crate::protocol::Q_ONE;

/// Growth below which chunks do not grow: it would take more gaps than it hides copies.
const GROWTH_LEAST: f64 = 1.125;
/// Range of `Config::growth_q8`.
const GROWTH_MAX: f64 = 4.0;
/// Fewest bytes of a first chunk: a block.
const C0_LEAST: f64 = 4096.0;
/// Part of the time that other chunks than those of the equations must save.
const GAIN: f64 = 0.02;

/// Chunks of the superpipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// C0 in bytes.
    pub(super) c0_bytes: u32,
    /// Largest chunk in bytes.
    pub(super) chunk_bytes: u32,
    /// q in 1/256: 256 to 1,024.
    pub(super) growth_q8: u16,
}

impl Shape {
    /// Returns the chunks for messages of `bytes` bytes. Those of equation 4: C0 is copied in a round trip, q = max(1, B_copy beside the wire / B_net), a chunk is
    /// a fold at most. Where q is 1, C0 and all others are C_opt (equation 3), as far as C0 may be.
    ///
    /// Others are taken if the model says that they save 2 %. With a fast wire that C0 has left long before the CTS is here, and a larger one keeps the wire busy. Where C_opt is
    /// larger than C0 may be, chunks that grow up to C_opt have fewer gaps.
    pub(super) fn best(profile: &Profile, terms: &Terms, bytes: u64) -> Self {
        let fold = terms.fold_bytes() as f64;
        let c0_max = f64::from(terms.c0_bytes.max(1)).min(fold);
        let optimal = pipeline_chunk_bytes(profile, terms, bytes);
        let of = |c0_bytes: f64, growth, largest_bytes| {
            Self::new(c0_bytes.max(C0_LEAST).min(c0_max), growth, largest_bytes)
        };
        let (growth, in_round_trip) = (profile.growth(bytes), profile.rendezvous_c0_bytes());
        if growth < GROWTH_LEAST {
            let flat = of(optimal, 1.0, optimal.max(C0_LEAST).min(c0_max));
            let grown = of(in_round_trip, Chunks::HARDWIRED.growth, optimal.max(c0_max));
            return flat.or_faster(&[grown], profile, bytes);
        }
        let slower = growth.min(Chunks::HARDWIRED.growth);
        let others = [(c0_max, growth), (c0_max, slower), (c0_max / 2.0, growth), (c0_max / 2.0, slower)];
        let others = others.map(|(c0_bytes, growth)| of(c0_bytes, growth, fold));
        of(in_round_trip, growth, fold).or_faster(&others, profile, bytes)
    }

    /// Returns the fastest of the others by the model if that is faster by [`GAIN`].
    fn or_faster(self, others: &[Self], profile: &Profile, bytes: u64) -> Self {
        let ns = |shape: Self| {
            chunked_ns(profile, ChunkedCopy::superpipeline(bytes, shape.chunks(), Start::Optimistic))
        };
        let (mut fastest, mut least_ns) = (self, ns(self) * (1.0 - GAIN));
        for &other in others {
            let other_ns = ns(other);
            if other_ns < least_ns {
                (fastest, least_ns) = (other, other_ns);
            }
        }
        fastest
    }

    #[expect(clippy::cast_possible_truncation, reason = "casts saturate, and the growth is at most 4")]
    fn new(c0_bytes: f64, growth: f64, largest_bytes: f64) -> Self {
        let growth_q8 = (growth.clamp(1.0, GROWTH_MAX) * f64::from(Q_ONE)) as u16;
        Self { c0_bytes: c0_bytes as u32, chunk_bytes: largest_bytes.max(c0_bytes) as u32, growth_q8 }
    }

    /// Returns them for the cost model.
    pub(super) fn chunks(self) -> Chunks {
        Chunks {
            c0_bytes: f64::from(self.c0_bytes),
            growth: f64::from(self.growth_q8) / f64::from(Q_ONE),
            bytes_max: f64::from(self.chunk_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Machine;
    use super::*;

    #[test]
    fn chunks_grow_where_a_copy_is_faster_than_the_wire() {
        let terms = Terms { landing_bytes: 64 << 20, ..Terms::default() };
        let shape = |machine: Machine, bytes| Shape::best(&machine.profile, &terms, bytes);
        // B_copy beside the wire is 5.4 - 2.0, and 23, of a B_net of 2.0 and 12.075.
        assert_eq!(shape(Machine::GRAPHENE, 64 << 20).growth_q8, 435);
        assert_eq!(shape(Machine::NIC_100G, 64 << 20).growth_q8, 487);
        let c0 = shape(Machine::GRAPHENE, 64 << 20).c0_bytes;
        assert_eq!(c0, 13_716, "Denis, section 4: 8 to 16 KB");
        for machine in [Machine::NIC_200G, Machine::NIC_400G] {
            let slow = shape(machine, 64 << 20);
            assert_eq!((slow.growth_q8, slow.c0_bytes), (256, slow.chunk_bytes), "{}", machine.name);
        }
        // By equation 4: 36,800 bytes and 2.65, with which the wire waits for the CTS, and for copies.
        let larger = shape(Machine::NIC_400G, 256 << 10);
        assert_eq!((larger.c0_bytes, larger.growth_q8), (65_536, 384));
    }

    #[test]
    fn chunks_are_a_fold_and_the_first_is_c0_at_most() {
        let terms = Terms { c0_bytes: 8192, landing_bytes: 60_000, ..Terms::default() };
        for machine in Machine::ALL {
            for log2 in 0..=27 {
                let shape = Shape::best(&machine.profile, &terms, 1 << log2);
                assert!(shape.c0_bytes <= 8192 && shape.chunk_bytes <= 20_000, "{shape:?}");
                assert!((256..=1024).contains(&shape.growth_q8) && shape.c0_bytes >= 4096, "{shape:?}");
            }
        }
        let tiny = Terms { c0_bytes: 0, landing_bytes: 0, folds: 0, ..terms };
        let shape = Shape::best(&Machine::GRAPHENE.profile, &tiny, 1 << 20);
        assert_eq!((shape.c0_bytes, shape.chunk_bytes), (1, 1));
    }
}
