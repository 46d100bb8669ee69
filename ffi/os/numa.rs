//! Memory nodes (NUMA) as /sys lists them: which node a core and a device belong to, and which nodes have memory.
//!
//! A kernel without NUMA lists none. A device without a node (`numa_node` is -1), as of most virtual machines, has none either.

use super::pin::CoreSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The memory nodes of a machine.
#[derive(Clone, Debug)]
pub struct Nodes {
    sys: PathBuf,
}

impl Nodes {
    /// Returns those of this machine.
    #[must_use]
    pub fn of_machine() -> Self {
        Self::at("/sys")
    }

    /// Returns those that another directory in place of /sys lists.
    #[must_use]
    pub fn at(sys: impl Into<PathBuf>) -> Self {
        Self { sys: sys.into() }
    }

    /// Returns the nodes that have memory, ascending. None if the kernel lists no nodes.
    #[must_use]
    pub fn with_memory(&self) -> Vec<u32> {
        self.list("has_memory").or_else(|| self.list("online")).unwrap_or_default()
    }

    /// Returns the node with memory that is nearest to a core: its own, unless that has none.
    #[must_use]
    pub fn of_core(&self, core: usize) -> Option<u32> {
        let has = |node: &u32| {
            let cores = fs::read_to_string(self.node(*node).join("cpulist")).ok()?;
            CoreSet::parse(&cores)?.contains(core).then_some(())
        };
        let node = self.list("online")?.into_iter().find(|node| has(node).is_some())?;
        self.nearest_with_memory(node)
    }

    /// Returns the node with memory that is nearest to an RDMA device. For a software device (rxe), that of its network interface counts.
    #[must_use]
    pub fn of_device(&self, device: &str) -> Option<u32> {
        let rdma = self.sys.join("class/infiniband").join(device);
        let net = || {
            let parent = fs::read_to_string(rdma.join("parent")).ok()?;
            Some(self.sys.join("class/net").join(parent.trim()).join("device"))
        };
        let node = number(&rdma.join("device")).or_else(|| number(&net()?))?;
        self.nearest_with_memory(node)
    }

    fn nearest_with_memory(&self, node: u32) -> Option<u32> {
        let with_memory = self.with_memory();
        if with_memory.contains(&node) {
            return Some(node);
        }
        // One number for each node that is online, in their order.
        let distances = fs::read_to_string(self.node(node).join("distance")).ok()?;
        let distances = distances.split_whitespace().map(|number| number.parse::<u32>().unwrap_or(u32::MAX));
        let known = self.list("online")?.into_iter().zip(distances);
        known
            .filter(|(node, _)| with_memory.contains(node))
            .min_by_key(|(_, distance)| *distance)
            .map(|(node, _)| node)
    }

    fn list(&self, name: &str) -> Option<Vec<u32>> {
        let text = fs::read_to_string(self.sys.join("devices/system/node").join(name)).ok()?;
        let nodes =
            CoreSet::parse(&text)?.iter().filter_map(|node| u32::try_from(node).ok()).collect::<Vec<_>>();
        (!nodes.is_empty()).then_some(nodes)
    }

    fn node(&self, number: u32) -> PathBuf {
        self.sys.join(format!("devices/system/node/node{number}"))
    }
}

/// Returns the node of a device of a bus. The kernel writes -1 if there is none.
fn number(device: &Path) -> Option<u32> {
    fs::read_to_string(device.join("numa_node")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory in place of /sys.
    struct Sys(PathBuf);

    impl Sys {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("superpipe-numa-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }

        fn nodes(&self) -> Nodes {
            Nodes::at(&self.0)
        }
    }

    impl Drop for Sys {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn two_sockets_have_a_node_each() {
        let sys = Sys::new(
            "two-sockets",
            &[
                ("devices/system/node/online", "0-1\n"),
                ("devices/system/node/has_memory", "0-1\n"),
                ("devices/system/node/node0/cpulist", "0-15,32-47\n"),
                ("devices/system/node/node1/cpulist", "16-31,48-63\n"),
                ("class/infiniband/mlx5_0/device/numa_node", "1\n"),
                ("class/infiniband/irdma0/device/numa_node", "-1\n"),
                ("class/infiniband/rxe0/parent", "eth0\n"),
                ("class/net/eth0/device/numa_node", "0\n"),
                ("class/infiniband/rxe1/parent", "lo\n"),
            ],
        );
        let nodes = sys.nodes();
        assert_eq!(nodes.with_memory(), [0, 1]);
        assert_eq!([0, 47, 16, 63].map(|core| nodes.of_core(core)), [Some(0), Some(0), Some(1), Some(1)]);
        assert_eq!(nodes.of_core(64), None);
        let devices = ["mlx5_0", "irdma0", "rxe0", "rxe1", "mlx5_9"].map(|device| nodes.of_device(device));
        assert_eq!(devices, [Some(1), None, Some(0), None, None]);
    }

    #[test]
    fn a_node_without_memory_lends_from_the_nearest() {
        let sys = Sys::new(
            "no-memory",
            &[
                ("devices/system/node/online", "0,2-3\n"),
                ("devices/system/node/has_memory", "0,3\n"),
                ("devices/system/node/node0/cpulist", "0-3\n"),
                ("devices/system/node/node2/cpulist", "4-7\n"),
                ("devices/system/node/node2/distance", "32 10 12\n"),
                ("devices/system/node/node3/cpulist", "\n"),
                ("class/infiniband/mlx5_0/device/numa_node", "2\n"),
            ],
        );
        assert_eq!(sys.nodes().of_core(5), Some(3));
        assert_eq!(sys.nodes().of_device("mlx5_0"), Some(3));
        assert_eq!(sys.nodes().of_core(1), Some(0));
    }

    #[test]
    fn a_kernel_without_nodes_lists_none() {
        let sys = Sys::new("none", &[("class/infiniband/mlx5_0/device/numa_node", "-1\n")]);
        assert_eq!(sys.nodes().with_memory(), []);
        assert_eq!((sys.nodes().of_core(0), sys.nodes().of_device("mlx5_0")), (None, None));
        let senseless = Sys::new("senseless", &[("devices/system/node/online", "no\n")]);
        assert_eq!((senseless.nodes().with_memory(), senseless.nodes().of_core(0)), (vec![], None));
    }
}
