//! Cores as /sys lists them: which ones share a cache, which are threads of one physical core, which are near a device.
//!
//! What a list says is asked for one core at a time, and a list that lacks that core is no list.

use std::fs;
use std::path::Path;
use superpipe::os::CoreSet;

/// Returns the cores that share the last level of data cache with this one, if the system knows them.
pub(super) fn cluster_of(sys: &Path, core: usize) -> Option<CoreSet> {
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
pub(super) fn threads_of(sys: &Path, core: usize) -> Option<CoreSet> {
    let topology = sys.join(format!("devices/system/cpu/cpu{core}/topology"));
    let read = |name| CoreSet::parse(&fs::read_to_string(topology.join(name)).ok()?);
    read("core_cpus_list").or_else(|| read("thread_siblings_list")).filter(|cores| cores.contains(core))
}

/// Returns the cores near an RDMA device, if the system knows them.
pub(super) fn cores_near(sys: &Path, device: &str) -> Option<CoreSet> {
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
