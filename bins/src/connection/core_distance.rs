//! Distance of the cores of both ends on one host, for `-v`: measured once, before the first data, by the end that connects.
//!
//! That end has the listener's HELLO and has not sent its own, so the other end waits, and nothing else is under way on either core. A probe takes
//! about a millisecond, and 20 at most if a core is busy.

use crate::os::core_choice::{neighbour, share_a_cluster};
use crate::protocol::CoreDistance;
use core::num::NonZeroU32;
use core::time::Duration;
use superpipe::os::distance::{Distance, one_way_ns_within};

/// Limit on one probe.
const PROBE_LIMIT: Duration = Duration::from_millis(20);

/// Measures the distance of this end's core from the peer's, and from another core of its own cache cluster if it may use one. None if the first
/// one cannot be measured.
pub(super) fn measure(ours: usize, theirs: usize) -> Option<CoreDistance> {
    let probe = |other| picoseconds(one_way_ns_within([ours, other], PROBE_LIMIT).ok()?);
    let ends_ps = if ours == theirs { None } else { probe(theirs) }?;
    let is_crossing = share_a_cluster([ours, theirs]) == Some(false);
    let cluster_ps = is_crossing.then(|| neighbour(ours, theirs)).flatten().and_then(probe);
    Some(CoreDistance { ends_ps, cluster_ps })
}

/// Returns what to tell a user whose ends have these cores: what their distance costs, unless they are near.
pub(super) fn told(ours: usize, theirs: usize, distance: Option<CoreDistance>) -> Option<String> {
    (ours != theirs).then(|| text(ours, theirs, share_a_cluster([ours, theirs]), distance)).flatten()
}

fn text(
    ours: usize,
    theirs: usize,
    is_together: Option<bool>,
    distance: Option<CoreDistance>,
) -> Option<String> {
    let is_crossing = is_together == Some(false);
    let head = format!("core {ours} and core {theirs} of the peer");
    let Some(CoreDistance { ends_ps, cluster_ps }) = distance else {
        let text = "are in two cache clusters, and a core was too busy to measure what that costs";
        return is_crossing.then(|| format!("{head} {text}; pin both ends into one, or use --core auto"));
    };
    let nanoseconds = |ps: NonZeroU32| f64::from(ps.get()) / 1000.0;
    let ends_ns = nanoseconds(ends_ps);
    let class = Distance::of(ends_ns);
    let cost = format!("8 bytes take {ends_ns:.0} ns from one to the other");
    match (is_crossing, cluster_ps) {
        (false, _) if class == Distance::Near => None,
        (false, _) => {
            Some(format!("{head} are {class}: {cost}; rperf --distance shows those of other cores"))
        }
        (true, cluster) => {
            let beside = cluster.map_or_else(String::new, |ps| {
                format!(", and {:.0} ns between two cores of one cluster", nanoseconds(ps))
            });
            Some(format!(
                "{head} are in two cache clusters: {cost} ({class}){beside}; pin both ends into one, or use --core auto"
            ))
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float beyond the range becomes its limit"
)]
fn picoseconds(ns: f64) -> Option<NonZeroU32> {
    NonZeroU32::new((ns * 1000.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use superpipe::os::allowed_cores;

    #[test]
    fn only_a_distance_that_costs_is_told() {
        let ps = |ps| NonZeroU32::new(ps).unwrap();
        let distance = |ends, cluster: Option<u32>| {
            Some(CoreDistance { ends_ps: ps(ends), cluster_ps: cluster.map(ps) })
        };
        let text = |is_together, distance| text(0, 4, is_together, distance);
        assert_eq!(text(Some(true), distance(31_000, None)), None);
        assert_eq!(text(None, distance(31_000, None)), None);
        assert_eq!((text(Some(true), None), text(None, None)), (None, None));
        assert_eq!(
            text(Some(false), distance(104_400, Some(30_600))).unwrap(),
            "core 0 and core 4 of the peer are in two cache clusters: 8 bytes take 104 ns from one to the other (apart), \
             and 31 ns between two cores of one cluster; pin both ends into one, or use --core auto"
        );
        assert!(
            text(Some(false), distance(31_000, None))
                .unwrap()
                .contains("31 ns from one to the other (near);")
        );
        assert!(text(Some(false), None).unwrap().contains("too busy to measure"));
        let far = "core 0 and core 4 of the peer are far: 8 bytes take 210 ns from one to the other; \
                   rperf --distance shows those of other cores";
        assert_eq!(text(Some(true), distance(210_000, None)).as_deref(), Some(far));
        assert_eq!(text(None, distance(210_000, None)).as_deref(), Some(far));
    }

    #[test]
    fn two_cores_are_measured_and_one_is_not() {
        let cores: Vec<usize> = allowed_cores().iter().take(2).collect();
        assert_eq!(measure(cores[0], cores[0]), None);
        assert_eq!(measure(cores[0], 8000), None, "a core that no machine has");
        assert_eq!(told(cores[0], cores[0], None), None);
        let [first, second] = cores[..] else {
            eprintln!("skipped: a distance needs two cores");
            return;
        };
        // The cores may be busy with other tests, so that a probe has to be repeated.
        let begin = Instant::now();
        let distance = loop {
            match measure(first, second) {
                Some(distance) => break distance,
                None => assert!(begin.elapsed() < Duration::from_secs(30), "no probe succeeds"),
            }
        };
        assert!((1_000..1_000_000_000).contains(&distance.ends_ps.get()), "{distance:?}");
    }
}
