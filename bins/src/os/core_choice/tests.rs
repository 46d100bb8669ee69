use super::*;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::fs;
use std::path::PathBuf;

/// A directory in place of /sys.
struct Sys(PathBuf);

impl Sys {
    fn new(name: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("superpipe-sys-{name}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        Self(root)
    }

    fn with(self, path: &str, text: &str) -> Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Returns the tree that a file of `trees` has: one line per file, `path:text`.
    fn recorded(name: &str) -> Self {
        let path =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/os/core_choice/trees/{name}.txt"));
        let text = fs::read_to_string(path).unwrap();
        let lines =
            text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(':').unwrap());
        lines.fold(Self::new(name), |sys, (path, text)| sys.with(path, &format!("{text}\n")))
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

/// Core of an end as its user asks for it, out of the allowed ones.
#[derive(Clone, Copy)]
enum Asked<'a> {
    Auto(&'a str),
    Pinned(usize),
}

impl Sys {
    /// Returns the cores of the listening and of the connecting end, once both have told theirs.
    fn ends(&self, listening: Asked<'_>, connecting: Asked<'_>) -> [usize; 2] {
        let allowed = |text| CoreSet::parse(text).unwrap();
        let first = |asked, end| match asked {
            Pinned(core) => core,
            Auto(cores) => choose(&self.0, &allowed(cores), None, end).core,
        };
        let beside = |asked, theirs, ours| match asked {
            Pinned(core) => core,
            Auto(cores) => beside(&self.0, &allowed(cores), theirs, Some(ours)),
        };
        let told = first(listening, End::Listening);
        let connecting = beside(connecting, told, first(connecting, End::Connecting));
        [beside(listening, connecting, told), connecting]
    }

    fn is_one_cluster(&self, cores: [usize; 2]) -> Option<bool> {
        are_together(&self.0, cores)
    }
}

use Asked::{Auto, Pinned};

#[test]
fn two_ends_of_one_host_meet_in_one_cluster() {
    for (tree, all) in [("guest", "0-1"), ("two-clusters", "0-15"), ("two-sockets", "0-15")] {
        let sys = Sys::recorded(tree);
        let [listening, connecting] = sys.ends(Auto(all), Auto(all));
        assert_ne!(listening, connecting);
        assert_eq!(sys.is_one_cluster([listening, connecting]), Some(true), "{tree}");
        assert!(!threads_of(&sys.0, listening).unwrap().contains(connecting), "{tree}");
    }
}

#[test]
fn an_end_goes_beside_one_that_is_pinned() {
    let sys = Sys::recorded("two-clusters");
    for pinned in 0..16 {
        for [asked, other] in [[Auto("0-15"), Pinned(pinned)], [Pinned(pinned), Auto("0-15")]] {
            let ends = sys.ends(asked, other);
            assert!(ends.contains(&pinned));
            assert_eq!(sys.is_one_cluster(ends), Some(true), "{ends:?}");
            assert!(!threads_of(&sys.0, ends[0]).unwrap().contains(ends[1]), "{ends:?}");
        }
    }
    assert_eq!(sys.ends(Pinned(0), Pinned(4)), [0, 4]);
}

#[test]
fn a_cpuset_of_few_cores_gets_the_best_of_them() {
    let sys = Sys::recorded("two-clusters");
    // The listener comes to the cluster of a peer that cannot come to it.
    assert_eq!(sys.ends(Auto("0-15"), Auto("0-3")), [11, 2]);
    assert_eq!(sys.ends(Auto("4-7"), Auto("0-15")), [7, 15 - 1]);
    // Two cpusets that share no cluster.
    assert_eq!(sys.ends(Auto("0-3"), Auto("4-7")), [3, 6]);
    // Two threads of one core, one core for both, and a peer on it.
    assert_eq!(sys.ends(Auto("3,11"), Auto("3,11")), [11, 3]);
    assert_eq!(sys.ends(Auto("5"), Auto("5")), [5, 5]);
    assert_eq!(sys.ends(Pinned(5), Auto("5,13")), [5, 13]);
    // The other socket is better than the other thread of the same core; the same node is better than another one.
    let sys = Sys::recorded("two-sockets");
    assert_eq!(sys.ends(Pinned(5), Auto("0,13")), [5, 0]);
    assert_eq!(sys.ends(Auto("0-15"), Pinned(1)), [11, 1]);
}

#[test]
fn without_caches_the_memory_node_counts() {
    let sys = Sys::recorded("no-caches");
    assert_eq!(sys.is_one_cluster([0, 1]), None);
    assert_eq!(sys.ends(Auto("0-3"), Auto("0-3")), [3, 2]);
    assert_eq!(sys.ends(Pinned(0), Auto("0-3")), [0, 1]);
    assert_eq!(sys.ends(Auto("0-3"), Pinned(1)), [0, 1]);
    assert_eq!(sys.ends(Auto("0,3"), Pinned(1)), [0, 1]);
}

#[test]
fn absurd_cores_of_a_peer_change_nothing() {
    for tree in ["guest", "two-sockets", "no-caches"] {
        let sys = Sys::recorded(tree);
        for theirs in [16, 8_191, 8_192, usize::MAX] {
            let allowed = CoreSet::parse("0-1").unwrap();
            assert_eq!([0, 1].map(|ours| beside(&sys.0, &allowed, theirs, Some(ours))), [0, 1], "{tree}");
            assert_ne!(sys.is_one_cluster([0, theirs]), Some(true));
        }
    }
}

#[test]
fn a_pair_to_compare_with_is_in_the_own_cluster() {
    let sys = Sys::recorded("two-clusters");
    let neighbour =
        |allowed: &str, core, except| neighbour_of(&sys.0, &CoreSet::parse(allowed).unwrap(), core, except);
    assert_eq!(neighbour("0-15", 0, 4), Some(11));
    assert_eq!(neighbour("0-15", 0, 11), Some(10));
    assert_eq!(neighbour("0,4-8", 0, 4), None, "only its own thread is left");
    assert_eq!(neighbour_of(&Sys::recorded("no-caches").0, &CoreSet::parse("0-3").unwrap(), 0, 2), None);
}

#[test]
fn the_reason_for_a_core_names_the_peers() {
    let text =
        |core, theirs, is_together| Choice { core, why: Why::Peer { core: theirs, is_together } }.to_string();
    assert_eq!(text(6, 7, Some(true)), "core 6, in one cache cluster with core 7 of the peer");
    assert_eq!(text(6, 0, Some(false)), "core 6, and core 0 of the peer is in another cache cluster");
    assert_eq!(text(6, 0, None), "core 6, and the peer has core 0");
    assert_eq!(text(5, 5, None), "core 5, which the peer has, too: no other is allowed");
}
