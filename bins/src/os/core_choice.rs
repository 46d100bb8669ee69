//! Choice of a core for `--core auto`: near the device in use, and in one cache cluster with the other end's, which may run on the same host.
//!
//! Linux lists in /sys the cores near a PCI device. For a software device on a network interface (rxe), the list of that
//! interface's own device counts. Without a list, any allowed core may be chosen.
//!
//! Linux also lists the cores that share each cache of a core, and the threads of one physical core. Both ends read the same lists, so each knows
//! which core the other one takes, as long as both may run on the same cores.

use core::fmt;
use std::fs;
use std::path::Path;
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
    /// The device that it is near, and all cores near that device.
    pub near: Option<(String, CoreSet)>,
}

/// Chooses an allowed core: one near the RDMA device if one is used and its cores are known. The cores of the two ends belong to one cache
/// cluster and are different physical cores, if the allowed cores permit that. High numbers are taken
/// first, so that core 0, which serves most interrupts, is the last choice in its cluster.
#[must_use]
pub fn choose_core(device: Option<&str>, end: End) -> Choice {
    choose(Path::new("/sys"), &allowed_cores(), device, end)
}

fn choose(sys: &Path, allowed: &CoreSet, device: Option<&str>, end: End) -> Choice {
    let usable = |near: &CoreSet| near.iter().filter(|core| allowed.contains(*core)).collect::<CoreSet>();
    let near = device.and_then(|device| {
        let cores = cores_near(sys, device).filter(|near| !usable(near).is_empty())?;
        Some((device.to_owned(), cores))
    });
    let cores = near.as_ref().map_or_else(|| allowed.clone(), |(_, cores)| usable(cores));
    let [listening, connecting] = pair(sys, &cores);
    Choice { core: if end == End::Listening { listening } else { connecting }, near }
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

/// Returns the cores that share the last level of data cache with this one, if the system knows them.
fn cluster_of(sys: &Path, core: usize) -> Option<CoreSet> {
    let caches = fs::read_dir(sys.join(format!("devices/system/cpu/cpu{core}/cache"))).ok()?;
    let shared_at_level = |cache: fs::DirEntry| {
        let read = |name| fs::read_to_string(cache.path().join(name)).ok();
        let level: u32 = read("level")?.trim().parse().ok()?;
        let is_for_data = read("type").is_none_or(|kind| kind.trim() != "Instruction");
        is_for_data.then_some((level, CoreSet::parse(&read("shared_cpu_list")?)?))
    };
    let levels = caches.filter_map(|cache| shared_at_level(cache.ok()?));
    levels.max_by_key(|(level, _)| *level).map(|(_, cores)| cores).filter(|cores| cores.contains(core))
}

/// Returns the threads of the physical core that this one is of, if the system knows them.
fn threads_of(sys: &Path, core: usize) -> Option<CoreSet> {
    let topology = sys.join(format!("devices/system/cpu/cpu{core}/topology"));
    let read = |name| CoreSet::parse(&fs::read_to_string(topology.join(name)).ok()?);
    read("core_cpus_list").or_else(|| read("thread_siblings_list")).filter(|cores| cores.contains(core))
}

/// Returns the cores near an RDMA device, if the system knows them.
fn cores_near(sys: &Path, device: &str) -> Option<CoreSet> {
    let rdma = sys.join("class/infiniband").join(device);
    let net = || {
        let parent = fs::read_to_string(rdma.join("parent")).ok()?;
        Some(sys.join("class/net").join(parent.trim()).join("device"))
    };
    cores_of(sys, &rdma.join("device")).or_else(|| cores_of(sys, &net()?))
}

/// Returns the cores near a device of a bus.
fn cores_of(sys: &Path, device: &Path) -> Option<CoreSet> {
    let read = |path: &Path| CoreSet::parse(&fs::read_to_string(path).ok()?).filter(|set| !set.is_empty());
    let node = || {
        // -1 if the machine has no NUMA nodes, or does not report them
        let number: u32 = fs::read_to_string(device.join("numa_node")).ok()?.trim().parse().ok()?;
        read(&sys.join(format!("devices/system/node/node{number}/cpulist")))
    };
    read(&device.join("local_cpulist")).or_else(node)
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "core {}", self.core)?;
        match &self.near {
            Some((device, cores)) => write!(f, ", near {device} (cores {cores})"),
            None => f.write_str(", chosen among all allowed cores"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A directory in place of /sys.
    struct Sys(PathBuf);

    impl Sys {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("superpipe-sys-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            Self(root)
        }

        fn with(self, path: &str, text: &str) -> Self {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        fn choose(&self, allowed: &str, device: Option<&str>, end: End) -> String {
            choose(&self.0, &CoreSet::parse(allowed).unwrap(), device, end).to_string()
        }
    }

    impl Drop for Sys {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const ANY: &str = ", chosen among all allowed cores";

    #[test]
    fn allowed_cores_of_the_device_are_preferred() {
        let sys = Sys::new("near").with("class/infiniband/mlx5_0/device/local_cpulist", "4-7\n");
        let near = |core| format!("core {core}, near mlx5_0 (cores 4-7)");
        assert_eq!(sys.choose("0-15", Some("mlx5_0"), End::Listening), near(7));
        assert_eq!(sys.choose("0-15", Some("mlx5_0"), End::Connecting), near(6));
        assert_eq!(sys.choose("0-5", Some("mlx5_0"), End::Listening), near(5));
        assert_eq!(sys.choose("0-4", Some("mlx5_0"), End::Connecting), near(4));
        assert_eq!(sys.choose("0-3", Some("mlx5_0"), End::Listening), format!("core 3{ANY}"));
        assert_eq!(sys.choose("0-15", Some("mlx5_1"), End::Listening), format!("core 15{ANY}"));
    }

    #[test]
    fn without_a_list_the_numa_node_counts() {
        let sys = Sys::new("node")
            .with("class/infiniband/irdma0/device/numa_node", "1\n")
            .with("class/infiniband/irdma1/device/numa_node", "-1\n")
            .with("devices/system/node/node1/cpulist", "8-9\n");
        assert_eq!(sys.choose("0-9", Some("irdma0"), End::Connecting), "core 8, near irdma0 (cores 8-9)");
        assert_eq!(sys.choose("0-9", Some("irdma1"), End::Connecting), format!("core 8{ANY}"));
    }

    #[test]
    fn a_software_device_is_near_its_interface() {
        let sys = Sys::new("soft")
            .with("class/infiniband/rxe0/parent", "eth0\n")
            .with("class/net/eth0/device/local_cpulist", "2,3\n");
        assert_eq!(sys.choose("0-7", Some("rxe0"), End::Listening), "core 3, near rxe0 (cores 2-3)");
    }

    impl Sys {
        /// Adds cores as /sys of a machine lists them: the ranges that share a last-level cache, and the threads of each physical core, the first
        /// thread of all of them before the second.
        fn with_cores(self, clusters: &[&str], physical_cores: usize, threads: usize) -> Self {
            (0..physical_cores * threads).fold(self, |sys, core| {
                let cpu = |name: &str| format!("devices/system/cpu/cpu{core}/{name}");
                let contains = |range: &&&str| CoreSet::parse(range).unwrap().contains(core);
                let cluster = clusters.iter().find(contains).unwrap();
                let siblings: CoreSet =
                    (0..threads).map(|thread| core % physical_cores + thread * physical_cores).collect();
                let siblings = siblings.to_string();
                let cache = |sys: Self, index: u32, level: &str, kind: &str, shared: &str| {
                    sys.with(&cpu(&format!("cache/index{index}/level")), level)
                        .with(&cpu(&format!("cache/index{index}/type")), kind)
                        .with(&cpu(&format!("cache/index{index}/shared_cpu_list")), shared)
                };
                let sys = cache(sys, 0, "1\n", "Data\n", &siblings);
                let sys = cache(sys, 1, "1\n", "Instruction\n", &siblings);
                let sys = cache(sys, 2, "2\n", "Unified\n", &siblings);
                cache(sys, 3, "3\n", "Unified\n", cluster).with(&cpu("topology/core_cpus_list"), &siblings)
            })
        }

        fn pair(&self, allowed: &str) -> [usize; 2] {
            pair(&self.0, &CoreSet::parse(allowed).unwrap())
        }
    }

    #[test]
    fn both_ends_take_physical_cores_of_one_cluster() {
        // As on an AMD EPYC 7313, of 16 cores in four complexes, with two threads each.
        let clusters = ["0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"];
        let sys = Sys::new("clusters").with_cores(&clusters, 16, 2);
        assert_eq!(sys.pair("0-31"), [31, 30]);
        assert_eq!(sys.pair("0-12"), [11, 10], "the last cluster has one core left");
        assert_eq!(sys.pair("3,7,8,24"), [24, 7], "8 and 24 are one physical core");
        assert_eq!(sys.pair("0,1,4,8"), [1, 0], "a pair of a cluster comes before another core than 0");
        assert_eq!(sys.pair("0,4,5,8,12"), [5, 4]);
        assert_eq!(sys.pair("3,19"), [19, 3], "two threads are better than one");
        assert_eq!(sys.pair("3,7,11"), [11, 7]);
        assert_eq!(sys.pair("6"), [6, 6]);
        let sys = Sys::new("one-cluster").with_cores(&["0-7"], 8, 1);
        assert_eq!((sys.pair("0-7"), sys.pair("0-1")), ([7, 6], [1, 0]));
    }

    #[test]
    fn a_pair_near_the_device_shares_a_cluster_too() {
        let sys = Sys::new("near-clusters")
            .with_cores(&["0-3", "4-7"], 8, 1)
            .with("class/infiniband/mlx5_0/device/local_cpulist", "2-4\n");
        let near = |core| format!("core {core}, near mlx5_0 (cores 2-4)");
        assert_eq!(sys.choose("0-7", Some("mlx5_0"), End::Listening), near(3));
        assert_eq!(sys.choose("0-7", Some("mlx5_0"), End::Connecting), near(2));
    }

    #[test]
    fn lists_that_make_no_sense_are_ignored() {
        let sys = Sys::new("senseless")
            .with("devices/system/cpu/cpu3/cache/index3/level", "three\n")
            .with("devices/system/cpu/cpu3/cache/index3/shared_cpu_list", "0-3\n")
            .with("devices/system/cpu/cpu2/cache/index3/level", "3\n")
            .with("devices/system/cpu/cpu2/cache/index3/shared_cpu_list", "7-4\n")
            .with("devices/system/cpu/cpu3/topology/core_cpus_list", "2\n");
        assert_eq!(sys.pair("0-3"), [3, 2]);
    }

    #[test]
    fn core_0_is_the_last_resort_and_two_ends_differ() {
        let sys = Sys::new("none");
        for (allowed, listening, connecting) in [("0", 0, 0), ("0-1", 1, 0), ("0-3", 3, 2), ("5", 5, 5)] {
            assert_eq!(sys.choose(allowed, None, End::Listening), format!("core {listening}{ANY}"));
            assert_eq!(sys.choose(allowed, None, End::Connecting), format!("core {connecting}{ANY}"));
        }
    }
}
