//! Choice of a core for `--core auto`: near the device in use, and not core 0, which serves most interrupts.
//!
//! Linux lists in /sys the cores near a PCI device. For a software device on a network interface (rxe), the list of that
//! interface's own device counts. Without a list, any allowed core may be chosen.

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

/// Chooses an allowed core: one near the RDMA device if one is used and its cores are known; core 0, which serves most
/// interrupts, only if there is no other.
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
    Choice { core: one_of(&cores, end), near }
}

/// Returns the last core for the listening end and the one before it for the other.
fn one_of(cores: &CoreSet, end: End) -> usize {
    let mut last_first = cores.iter().collect::<Vec<_>>();
    last_first.reverse();
    let index = usize::from(end == End::Connecting);
    last_first.get(index).or(last_first.first()).copied().unwrap_or(0)
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

    #[test]
    fn core_0_is_the_last_resort_and_two_ends_differ() {
        let sys = Sys::new("none");
        for (allowed, listening, connecting) in [("0", 0, 0), ("0-1", 1, 0), ("0-3", 3, 2), ("5", 5, 5)] {
            assert_eq!(sys.choose(allowed, None, End::Listening), format!("core {listening}{ANY}"));
            assert_eq!(sys.choose(allowed, None, End::Connecting), format!("core {connecting}{ANY}"));
        }
    }
}
