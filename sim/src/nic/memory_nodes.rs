//! Hosts with two memory nodes, whose polling core and device are on different ones: what crosses the interconnect, and what that costs.
//!
//! Memory on the core's node is crossed to by the device, memory on the device's node by the core. Bytes of a message cross once in either
//! case; by whom decides how fast.

use super::rate::time_ns;

/// Node that registered memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeOf {
    /// That of the polling core.
    Core,
    /// That of the device.
    Device,
}

/// Costs of crossing the interconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossingCosts {
    /// Time that a device's write takes longer, until the core sees it.
    pub device_write_ns: u64,
    /// Time that a device's read takes longer.
    pub device_read_ns: u64,
    /// Bytes that a device reads or writes per microsecond.
    pub device_bytes_per_us: u64,
    /// Time that a core's read of a line that has arrived takes longer.
    pub core_read_ns: u64,
    /// Bytes that a core copies per microsecond.
    pub core_bytes_per_us: u64,
}

/// Memory nodes of each host of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNodes {
    /// Node of landing buffers and control pages.
    pub landing: NodeOf,
    /// Node of the images that writes are posted from.
    pub image: NodeOf,
    /// Costs of crossing.
    pub costs: CrossingCosts,
}

impl NodeOf {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Core, Self::Device];

    /// Returns its name, as the tools' option has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Device => "device",
        }
    }
}

impl MemoryNodes {
    /// Returns the least time in which a core copies bytes into or out of memory of a node.
    pub(crate) const fn copy_ns(&self, memory: NodeOf, bytes: u64) -> u64 {
        match memory {
            NodeOf::Core => 0,
            NodeOf::Device => time_ns(bytes, self.costs.core_bytes_per_us),
        }
    }

    /// Returns the least time in which a device reads or writes bytes of memory of a node.
    pub(crate) const fn device_ns(&self, memory: NodeOf, bytes: u64) -> u64 {
        match memory {
            NodeOf::Core => time_ns(bytes, self.costs.device_bytes_per_us),
            NodeOf::Device => 0,
        }
    }

    /// Returns the time that a device's read of an image takes longer.
    pub(crate) const fn read_ns(&self) -> u64 {
        match self.image {
            NodeOf::Core => self.costs.device_read_ns,
            NodeOf::Device => 0,
        }
    }

    /// Returns the time that it takes longer until a core has what arrives in a landing buffer.
    pub(crate) const fn arrival_ns(&self) -> u64 {
        match self.landing {
            NodeOf::Core => self.costs.device_write_ns,
            NodeOf::Device => self.costs.core_read_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_crossed_to_by_the_core_or_by_the_device() {
        let costs = CrossingCosts {
            device_write_ns: 1,
            device_read_ns: 2,
            device_bytes_per_us: 1000,
            core_read_ns: 3,
            core_bytes_per_us: 500,
        };
        for (landing, image, expected) in [
            (NodeOf::Core, NodeOf::Core, (1, 2, [0, 10], [0, 10])),
            (NodeOf::Core, NodeOf::Device, (1, 0, [0, 10], [20, 0])),
            (NodeOf::Device, NodeOf::Core, (3, 2, [20, 0], [0, 10])),
            (NodeOf::Device, NodeOf::Device, (3, 0, [20, 0], [20, 0])),
        ] {
            let nodes = MemoryNodes { landing, image, costs };
            let of = |memory| [nodes.copy_ns(memory, 10), nodes.device_ns(memory, 10)];
            assert_eq!((nodes.arrival_ns(), nodes.read_ns(), of(landing), of(image)), expected);
        }
    }
}
