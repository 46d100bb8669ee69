//! Predictions before anything is observed: the cost model at the ends of the classes, with the terms of a connection.
//!
//! Times are service times: from the begin to the peer's acknowledgement of the end, which is a λ more than the model's, and the release of the memory.

use super::super::CopyStep;
use super::super::chunks::Chunks;
use super::super::profile::Profile;
use super::super::registration::{Deregistration, Pages, Registration};
use super::super::start::Start;
use super::super::timeline::ChunkedCopy;
use super::chunked::{chunked_ns, pipeline_chunk_bytes};
use super::classes::{CLASSES, Curve, POINTS, least_bytes};
use super::correction::narrow;
use super::shape::Shape;
use super::terms::{Kind, Terms, Way};

/// Number of curves: ways, of which registering has one for memory that is deregistered after the message and one for memory that is not.
const CURVES: usize = 7;

/// What the cost model predicts for a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Model {
    /// Chunks of the superpipeline by class.
    pub(super) shapes: [Shape; CLASSES],
    curves: [Curve; CURVES],
}

impl Model {
    /// Computes the predictions. The profile must be [`sane`].
    pub(super) fn new(profile: &Profile, terms: &Terms) -> Self {
        let shapes = core::array::from_fn(|class| Shape::best(profile, terms, least_bytes(class).max(1)));
        let curve = |way, kind| {
            let mut points = [0.0_f32; POINTS];
            for (point, ns) in points.iter_mut().enumerate() {
                let shape: Shape = shapes[point.min(CLASSES - 1)];
                *ns = narrow(way_ns(profile, terms, shape.chunks(), way, kind, least_bytes(point)));
            }
            Curve(points)
        };
        let kept = if terms.is_direct { Way::OneCopy } else { Way::RegisterCached };
        let curves = [
            curve(Way::Superpipeline, Kind::Unnamed),
            curve(Way::Pipeline, Kind::Unnamed),
            curve(Way::Eager, Kind::Unnamed),
            curve(Way::Register, Kind::Fresh),
            curve(Way::Register, Kind::Keepable),
            curve(kept, Kind::Kept),
            curve(Way::SplitCopy, Kind::Kept),
        ];
        Self { shapes, curves }
    }

    /// Returns the predicted nanoseconds of a message.
    pub(super) fn ns(&self, way: Way, kind: Kind, bytes: f64) -> f64 {
        let curve = match way {
            Way::Superpipeline => 0,
            Way::Pipeline => 1,
            Way::Eager => 2,
            Way::Register if kind == Kind::Fresh => 3,
            Way::Register => 4,
            Way::RegisterCached | Way::OneCopy => 5,
            Way::SplitCopy => 6,
        };
        self.curves[curve].at(bytes)
    }
}

/// Returns the nanoseconds of a message by the cost model.
fn way_ns(profile: &Profile, terms: &Terms, chunks: Chunks, way: Way, kind: Kind, bytes: u64) -> f64 {
    let fold = terms.fold_bytes() as f64;
    let start = Start::Rendezvous;
    let ns = match way {
        Way::Superpipeline => {
            chunked_ns(profile, ChunkedCopy::superpipeline(bytes, chunks, Start::Optimistic))
        }
        Way::Pipeline => {
            let chunks = Chunks::flat(pipeline_chunk_bytes(profile, terms, bytes));
            let whole = ChunkedCopy::superpipeline(bytes, chunks, start);
            chunked_ns(profile, ChunkedCopy { block_bytes: None, ..whole })
        }
        Way::Eager => chunked_ns(profile, ChunkedCopy::superpipeline(bytes, Chunks::flat(fold), Start::Raw)),
        Way::Register => {
            let released_ns = match kind {
                Kind::Fresh => profile.registration.deregistration_ns(bytes),
                Kind::Unnamed | Kind::Keepable | Kind::Kept => 0.0,
            };
            profile.register_ns(bytes, Pages::RESIDENT, start) + released_ns
        }
        Way::RegisterCached => profile.register_cached_ns(bytes, Pages::RESIDENT, start, 1.0),
        Way::OneCopy => profile.one_copy_ns(bytes),
        Way::SplitCopy => profile.split_copy_ns(bytes),
    };
    ns + profile.latency_ns
}

/// Returns the profile with each value in a range in which no arithmetic overflows or divides by zero; NaN becomes the least value.
pub(super) fn sane(profile: &Profile) -> Profile {
    let within =
        |value: f64, least: f64, most: f64| if value.is_nan() { least } else { value.clamp(least, most) };
    let time = |value| within(value, 0.0, 1e9);
    let rate = |value| within(value, 1e-3, 1e4);
    let Registration { fault_ns, faults_at_once, huge_factor, deregistration, .. } = profile.registration;
    Profile {
        latency_ns: within(profile.latency_ns, 1.0, 1e9),
        net_bytes_per_ns: rate(profile.net_bytes_per_ns),
        gap_ns: within(profile.gap_ns, 0.1, 1e9),
        overhead_ns: time(profile.overhead_ns),
        copy: profile.copy.map(|step| CopyStep { bytes_per_ns: rate(step.bytes_per_ns), ..step }),
        contention: within(profile.contention, 0.0, 1.0),
        registration: Registration {
            latency_ns: time(profile.registration.latency_ns),
            bytes_per_ns: rate(profile.registration.bytes_per_ns),
            fault_ns: time(fault_ns),
            faults_at_once: faults_at_once.max(1),
            huge_factor: within(huge_factor, 0.01, 1.0),
            device_share: within(profile.registration.device_share, 0.0, 1.0),
            deregistration: Deregistration {
                latency_ns: time(deregistration.latency_ns),
                short_bytes_max: deregistration.short_bytes_max,
                bytes_per_ns: rate(deregistration.bytes_per_ns),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Machine;
    use super::*;

    #[test]
    fn a_fresh_buffer_is_deregistered_before_the_end() {
        let profile = Machine::CHELSIO_T3.profile;
        let terms = Terms::default();
        let model = Model::new(&profile, &terms);
        let ns = |way, kind| model.ns(way, kind, 1_048_576.0);
        let more = ns(Way::Register, Kind::Fresh) - ns(Way::Register, Kind::Keepable);
        assert!((more / profile.registration.deregistration_ns(1 << 20) - 1.0).abs() < 1e-3, "{more}");
        let kept = ns(Way::Register, Kind::Keepable) - ns(Way::RegisterCached, Kind::Kept);
        assert!((kept / profile.registration.ns(1 << 20, Pages::RESIDENT) - 1.0).abs() < 1e-3, "{kept}");
    }
}
