//! Choice of a core for `--core auto`: near the device in use, and in one cache cluster with the other end's, which may run on the same host.
//!
//! Linux lists in /sys the cores near a PCI device. For a software device on a network interface (rxe), the list of that
//! interface's own device counts. Without a list, any allowed core may be chosen.
//!
//! Linux also lists the cores that share each cache of a core, and the threads of one physical core. Both ends read the same lists, so each knows
//! which core the other one takes, as long as both may run on the same cores. Where they may not, or where one end was pinned by number, the core
//! of the other end comes in its HELLO (wire.md 8.1), and an end that may choose goes beside it. That core is a peer's allegation: it decides only
//! which of its own allowed cores an end takes.

use super::topology::{cluster_of, cores_near, threads_of};
use core::cmp::Reverse;
use core::fmt;
use std::path::Path;
use superpipe::os::numa::Nodes;
use superpipe::os::{CoreSet, allowed_cores};

/// One of two ends, which may run on one host and therefore choose different cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The end that accepts.
    Listening,
    /// The end that connects.
    Connecting,
}

/// A core, and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The core.
    pub core: usize,
    /// The reason.
    pub why: Why,
}

/// The reason for a core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Nothing is known.
    Allowed,
    /// It is near a device. Holds all cores near that device, too.
    NearDevice(String, Box<CoreSet>),
    /// The peer, on the same host, has a core.
    Peer {
        /// the peer's core
        core: usize,
        /// true if both are in one cache cluster; none if the system does not tell the clusters
        is_together: Option<bool>,
    },
}

/// Chooses an allowed core: one near the RDMA device if one is used and its cores are known. The cores of the two ends belong to one cache
/// cluster and are different physical cores, if the allowed cores permit that. High numbers are taken
/// first, so that core 0, which serves most interrupts, is the last choice in its cluster.
#[must_use]
pub fn choose_core(device: Option<&str>, end: End) -> Choice {
    choose(Path::new("/sys"), &allowed_cores(), device, end)
}

/// Chooses an allowed core for an end whose peer on the same host has core `theirs`: another physical core of its cache cluster; else one of its
/// memory node; else another physical core; else another thread of its core. `ours` is kept if no other core is better.
#[must_use]
pub fn choose_beside(theirs: usize, ours: Option<usize>) -> Choice {
    let sys = Path::new("/sys");
    let core = beside(sys, &allowed_cores(), theirs, ours);
    Choice { core, why: Why::Peer { core: theirs, is_together: are_together(sys, [core, theirs]) } }
}

/// Returns true if two cores belong to one cache cluster. None if the system does not tell the clusters.
#[must_use]
pub fn share_a_cluster(cores: [usize; 2]) -> Option<bool> {
    are_together(Path::new("/sys"), cores)
}

/// Returns true if the system lists this core.
#[must_use]
pub fn has_core(core: usize) -> bool {
    Path::new("/sys").join(format!("devices/system/cpu/cpu{core}")).is_dir()
}

/// Returns an allowed core of the same cache cluster as `core`, and of another physical core, that is not `except`.
#[must_use]
pub fn neighbour(core: usize, except: usize) -> Option<usize> {
    neighbour_of(Path::new("/sys"), &allowed_cores(), core, except)
}

fn choose(sys: &Path, allowed: &CoreSet, device: Option<&str>, end: End) -> Choice {
    let usable = |near: &CoreSet| near.iter().filter(|core| allowed.contains(*core)).collect::<CoreSet>();
    let near = device.and_then(|device| {
        let cores = cores_near(sys, device).filter(|near| !usable(near).is_empty())?;
        Some((device.to_owned(), cores))
    });
    let cores = near.as_ref().map_or_else(|| allowed.clone(), |(_, cores)| usable(cores));
    let [listening, connecting] = pair(sys, &cores);
    let why = near.map_or(Why::Allowed, |(device, cores)| Why::NearDevice(device, Box::new(cores)));
    Choice { core: if end == End::Listening { listening } else { connecting }, why }
}

fn beside(sys: &Path, allowed: &CoreSet, theirs: usize, ours: Option<usize>) -> usize {
    let threads = threads_of(sys, theirs).unwrap_or_else(|| [theirs].into_iter().collect());
    let nodes = Nodes::at(sys);
    let node = nodes.of_core(theirs);
    let distance = |core: usize| {
        if core == theirs {
            4
        } else if threads.contains(core) {
            3
        } else if are_together(sys, [core, theirs]) == Some(true) {
            0
        } else if node.is_some() && nodes.of_core(core) == node {
            1
        } else {
            2
        }
    };
    let best = allowed.iter().min_by_key(|&core| (distance(core), Some(core) != ours, Reverse(core)));
    best.or(ours).unwrap_or(0)
}

fn are_together(sys: &Path, [one, other]: [usize; 2]) -> Option<bool> {
    let cluster = cluster_of(sys, one)?;
    // A core that the machine does not have is in no cluster.
    cluster_of(sys, other).map(|_| cluster.contains(other))
}

fn neighbour_of(sys: &Path, allowed: &CoreSet, core: usize, except: usize) -> Option<usize> {
    let cluster = cluster_of(sys, core)?;
    let threads = threads_of(sys, core).unwrap_or_else(|| [core].into_iter().collect());
    let is_usable = |other: &usize| cluster.contains(*other) && !threads.contains(*other) && *other != except;
    allowed.iter().filter(is_usable).last()
}

/// Returns the cores of the listening and of the connecting end: the last two physical cores of the last cluster that has two. If none has, the
/// last two physical cores, or the last two threads, or the only one.
fn pair(sys: &Path, cores: &CoreSet) -> [usize; 2] {
    let mut last_first = cores.iter().collect::<Vec<_>>();
    last_first.reverse();
    let cluster = |core| cluster_of(sys, core).unwrap_or_else(|| cores.clone());
    let threads = |core| threads_of(sys, core).unwrap_or_else(|| [core].into_iter().collect());
    let beside = |core: usize, cluster: &CoreSet| {
        let threads = threads(core);
        last_first.iter().copied().find(|&other| cluster.contains(other) && !threads.contains(other))
    };
    let together = last_first.iter().find_map(|&core| Some([core, beside(core, &cluster(core))?]));
    let last = last_first.first().copied().unwrap_or(0);
    let apart = || beside(last, cores).or_else(|| last_first.get(1).copied()).unwrap_or(last);
    together.unwrap_or_else(|| [last, apart()])
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "core {}", self.core)?;
        match &self.why {
            Why::NearDevice(device, cores) => write!(f, ", near {device} (cores {cores})"),
            Why::Allowed => f.write_str(", chosen among all allowed cores"),
            Why::Peer { core, .. } if *core == self.core => {
                f.write_str(", which the peer has, too: no other is allowed")
            }
            Why::Peer { core, is_together: Some(true) } => {
                write!(f, ", in one cache cluster with core {core} of the peer")
            }
            Why::Peer { core, is_together: Some(false) } => {
                write!(f, ", and core {core} of the peer is in another cache cluster")
            }
            Why::Peer { core, is_together: None } => write!(f, ", and the peer has core {core}"),
        }
    }
}

#[cfg(test)]
mod tests;
