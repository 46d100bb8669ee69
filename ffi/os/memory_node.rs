//! The memory node that a connection's memory comes from: what a user asks for, and what that means on this machine.

use super::error::OsError;
use super::map::Mapping;
use super::mempolicy::thread_has_policy;
use super::numa::Nodes;
use core::fmt;
use core::str::FromStr;
use rustix::thread::sched_getcpu;

/// Memory node (NUMA) that the memory of a connection comes from: landing buffers, images, and other memory that superpipe registers or shares.
///
/// A node is preferred, not demanded: if it has no free memory, pages come from the nearest one that has.
/// docs/performance.md, "Memory nodes", has the reasons for the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryNode {
    /// That of the memory policy of the thread that connects or accepts, if it has one (numactl); else as `Core`.
    #[default]
    Auto,
    /// That of the core on which the thread that connects or accepts runs at that time. Pin the thread before.
    Core,
    /// That of the RDMA device in use. Without a device, or for one without a node, as `Core`.
    Device,
    /// This one.
    Number(u32),
}

/// Memory node of a connection, and the reason for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlacement {
    node: Option<u32>,
    reason: &'static str,
}

/// Text that is no [`MemoryNode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNodeParseError;

/// State of the calling thread that decides.
#[derive(Clone, Copy, Debug)]
struct Caller {
    core: usize,
    has_policy: bool,
}

impl MemoryNode {
    /// Checks that this machine has the node, and that this process may use it.
    ///
    /// # Errors
    /// The text for the user.
    pub(crate) fn check(self) -> Result<(), String> {
        let nodes = Nodes::of_machine().with_memory();
        self.check_among(&nodes)?;
        match self {
            Self::Number(node) if !nodes.is_empty() => probe(node).map_err(|error| error.to_string()),
            _ => Ok(()),
        }
    }

    /// Returns the node for memory that the calling thread provisions, for a connection by this RDMA device.
    pub(crate) fn place(self, device: Option<&str>) -> MemoryPlacement {
        let caller = Caller { core: sched_getcpu(), has_policy: thread_has_policy() };
        let placement = self.choose(&Nodes::of_machine(), caller, device);
        match placement.node.map(probe) {
            Some(Err(_)) => MemoryPlacement::unknown("the kernel refuses to place memory"),
            _ => placement,
        }
    }

    fn check_among(self, nodes: &[u32]) -> Result<(), String> {
        match self {
            Self::Number(node) if !(nodes.contains(&node) || nodes.is_empty() && node == 0) => {
                let has = match nodes {
                    [] => "the kernel lists no memory nodes".to_owned(),
                    [only] => format!("this machine has memory on node {only} only"),
                    _ => format!("this machine has memory on nodes {}", list(nodes)),
                };
                Err(format!("memory node {node} does not exist: {has}; name another one, or none"))
            }
            _ => Ok(()),
        }
    }

    fn choose(self, nodes: &Nodes, caller: Caller, device: Option<&str>) -> MemoryPlacement {
        let with_memory = nodes.with_memory();
        let placed = |node, reason| MemoryPlacement { node: Some(node), reason };
        let of_core = |reason| match nodes.of_core(caller.core) {
            Some(node) => placed(node, reason),
            None => MemoryPlacement::unknown("the system does not list the node of the core"),
        };
        match (self, with_memory.len()) {
            (_, 0) => MemoryPlacement::unknown("the kernel lists no memory nodes"),
            (Self::Number(node), _) => MemoryPlacement::on(node),
            (_, 1) => MemoryPlacement::unknown("this machine has one memory node"),
            (Self::Auto, _) if caller.has_policy => {
                MemoryPlacement::unknown("this process has a memory policy of its own")
            }
            (Self::Auto | Self::Core, _) => of_core("that of the core"),
            (Self::Device, _) => match device.and_then(|device| nodes.of_device(device)) {
                Some(node) => placed(node, "that of the device"),
                None => of_core("that of the core, since the device has none"),
            },
        }
    }
}

impl MemoryPlacement {
    /// Returns this node.
    pub(crate) const fn on(node: u32) -> Self {
        Self { node: Some(node), reason: "it was asked for" }
    }

    /// Returns a placement that leaves the choice to the kernel.
    pub(crate) const fn unknown(reason: &'static str) -> Self {
        Self { node: None, reason }
    }

    /// Returns the node. None if the kernel takes the memory where it thinks best.
    #[must_use]
    pub const fn node(self) -> Option<u32> {
        self.node
    }

    /// Returns the reason, as a phrase.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        self.reason
    }

    /// Has the pages of a mapping that are not there yet come from the node.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn place(self, mapping: &Mapping) -> Result<(), OsError> {
        self.node.map_or(Ok(()), |node| mapping.prefer_node(node))
    }
}

impl Default for MemoryPlacement {
    fn default() -> Self {
        Self::unknown("none was asked for")
    }
}

impl fmt::Display for MemoryPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(f, "memory node {node} ({})", self.reason),
            None => write!(f, "no memory node chosen ({})", self.reason),
        }
    }
}

impl FromStr for MemoryNode {
    type Err = MemoryNodeParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "core" => Ok(Self::Core),
            "device" => Ok(Self::Device),
            number => number.parse().map(Self::Number).map_err(|_| MemoryNodeParseError),
        }
    }
}

impl fmt::Display for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Core => f.pad("core"),
            Self::Device => f.pad("device"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl fmt::Display for MemoryNodeParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected auto, core, device, or the number of a memory node")
    }
}

impl core::error::Error for MemoryNodeParseError {}

/// Checks that the kernel takes memory from a node for this process.
fn probe(node: u32) -> Result<(), OsError> {
    Mapping::anonymous(1)?.prefer_node(node)
}

/// Returns a placement on a node of this machine, for tests. None if a sandbox forbids that, or there are no nodes.
#[cfg(test)]
pub(crate) fn some_placement() -> Option<MemoryPlacement> {
    let node = *Nodes::of_machine().with_memory().first()?;
    match probe(node) {
        Ok(()) => Some(MemoryPlacement::on(node)),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn list(nodes: &[u32]) -> String {
    nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// A directory in place of /sys.
    struct Sys(PathBuf);

    impl Sys {
        /// Two nodes of two cores each; `mlx5_0` is on the second, and `rxe0` on none.
        fn two_nodes(name: &str) -> Self {
            Self::new(
                name,
                &[
                    ("devices/system/node/online", "0-1\n"),
                    ("devices/system/node/has_memory", "0-1\n"),
                    ("devices/system/node/node0/cpulist", "0-1\n"),
                    ("devices/system/node/node1/cpulist", "2-3\n"),
                    ("class/infiniband/mlx5_0/device/numa_node", "1\n"),
                    ("class/infiniband/rxe0/device/numa_node", "-1\n"),
                ],
            )
        }

        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root =
                std::env::temp_dir().join(format!("superpipe-memory-node-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }

        fn choose(&self, asked: &str, core: usize, has_policy: bool, device: Option<&str>) -> String {
            let asked: MemoryNode = asked.parse().unwrap();
            asked.choose(&Nodes::at(&self.0), Caller { core, has_policy }, device).to_string()
        }
    }

    impl Drop for Sys {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn each_option_means_its_node() {
        let sys = Sys::two_nodes("each");
        let mlx = Some("mlx5_0");
        for (asked, core, has_policy, device, placed) in [
            ("auto", 0, false, mlx, "memory node 0 (that of the core)"),
            ("auto", 3, false, None, "memory node 1 (that of the core)"),
            ("auto", 0, true, mlx, "no memory node chosen (this process has a memory policy of its own)"),
            ("core", 0, true, mlx, "memory node 0 (that of the core)"),
            ("core", 9, false, mlx, "no memory node chosen (the system does not list the node of the core)"),
            ("device", 0, false, mlx, "memory node 1 (that of the device)"),
            ("device", 0, true, mlx, "memory node 1 (that of the device)"),
            ("device", 2, false, None, "memory node 1 (that of the core, since the device has none)"),
            ("device", 0, false, Some("rxe0"), "memory node 0 (that of the core, since the device has none)"),
            ("1", 0, true, None, "memory node 1 (it was asked for)"),
        ] {
            assert_eq!(sys.choose(asked, core, has_policy, device), placed, "{asked} {core} {device:?}");
        }
    }

    #[test]
    fn one_node_or_none_leaves_nothing_to_choose() {
        let one = Sys::new(
            "one",
            &[("devices/system/node/online", "0\n"), ("devices/system/node/has_memory", "0\n")],
        );
        let none = Sys::new("none", &[]);
        for asked in ["auto", "core", "device"] {
            let text = one.choose(asked, 0, false, Some("mlx5_0"));
            assert_eq!(text, "no memory node chosen (this machine has one memory node)");
            let text = none.choose(asked, 0, false, Some("mlx5_0"));
            assert_eq!(text, "no memory node chosen (the kernel lists no memory nodes)");
        }
        assert_eq!(one.choose("0", 0, false, None), "memory node 0 (it was asked for)");
        assert_eq!(
            none.choose("0", 0, false, None),
            "no memory node chosen (the kernel lists no memory nodes)"
        );
    }

    #[test]
    fn a_node_that_does_not_exist_is_refused_with_those_that_do() {
        let check = |node, nodes: &[u32]| MemoryNode::Number(node).check_among(nodes);
        assert_eq!((check(0, &[0]), check(1, &[0, 1]), check(0, &[])), (Ok(()), Ok(()), Ok(())));
        let refused = |node, nodes: &[u32]| check(node, nodes).unwrap_err();
        assert_eq!(
            refused(2, &[0, 1]),
            "memory node 2 does not exist: this machine has memory on nodes 0, 1; name another one, or none"
        );
        assert_eq!(
            refused(1, &[0]),
            "memory node 1 does not exist: this machine has memory on node 0 only; name another one, or none"
        );
        assert_eq!(
            refused(1, &[]),
            "memory node 1 does not exist: the kernel lists no memory nodes; name another one, or none"
        );
        for asked in [MemoryNode::Auto, MemoryNode::Core, MemoryNode::Device] {
            assert_eq!((asked.check_among(&[]), asked.check()), (Ok(()), Ok(())));
        }
    }

    #[test]
    fn names_are_those_of_the_option() {
        for text in ["auto", "core", "device", "0", "17"] {
            assert_eq!(text.parse::<MemoryNode>().unwrap().to_string(), text);
        }
        for wrong in ["", "-1", "near", "4294967296", "0x1"] {
            assert_eq!(wrong.parse::<MemoryNode>(), Err(MemoryNodeParseError), "{wrong}");
        }
    }
}
