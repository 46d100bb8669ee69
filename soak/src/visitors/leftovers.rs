//! Leftovers once all connections are gone: descriptors, memory and the budget, compared with those before the first one.

use std::fs;

use superpipe::Budget;

/// Resident memory by which a process may grow: heaps that are not given back, and pages of libraries. Each round makes hundreds of connections with more than 1 MiB each.
const GROWTH_BYTES: u64 = 6 << 20;

/// Resources of this process.
#[derive(Clone, Debug)]
pub(crate) struct Leftovers {
    /// Kind of each descriptor.
    descriptors: Vec<String>,
    budget_bytes: u64,
    budget_connections: u64,
    resident_bytes: u64,
    shared_bytes: u64,
}

impl Leftovers {
    pub(crate) fn count() -> Result<Self, String> {
        let descriptors = descriptors()?;
        let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
        let bytes = |name: &str| -> Result<u64, String> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            let kib = line.trim().strip_suffix("kB").and_then(|line| line.trim().parse::<u64>().ok());
            kib.map(|kib| kib << 10).ok_or_else(|| format!("the kernel does not report {name}"))
        };
        let used = Budget::shared_use();
        Ok(Self {
            descriptors,
            budget_bytes: Budget::shared_bytes(),
            budget_connections: used.connections,
            resident_bytes: bytes("RssAnon:")?,
            shared_bytes: bytes("RssShmem:")?,
        })
    }

    /// Fails if there is more than there was before. `warm` is what there was after the first round, whose heap stays.
    pub(crate) fn check(&self, before: &Self, warm: Option<&Self>) -> Result<(), String> {
        let exact = |what: &str, now: u64, then: u64| {
            if now == then { Ok(()) } else { Err(format!("{now} {what} are left, and there were {then}")) }
        };
        let (now, then) = (&self.descriptors, &before.descriptors);
        if now.len() != then.len() {
            return Err(format!("descriptors are left: {now:?}; there were {then:?}"));
        }
        exact("bytes of the budget", self.budget_bytes, before.budget_bytes)?;
        exact("connections in the budget", self.budget_connections, before.budget_connections)?;
        let bounded = |what: &str, now: u64, then: u64| {
            let is_bounded = now <= then + GROWTH_BYTES;
            if is_bounded {
                Ok(())
            } else {
                Err(format!("{now} bytes of {what} are left, and there were {then}"))
            }
        };
        bounded("shared memory", self.shared_bytes, before.shared_bytes)?;
        warm.map_or(Ok(()), |warm| bounded("resident memory", self.resident_bytes, warm.resident_bytes))
    }
}

fn descriptors() -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut descriptors = Vec::new();
    for entry in fs::read_dir("/proc/self/fd").map_err(failed)? {
        let name = fs::read_link(entry.map_err(failed)?.path()).unwrap_or_default();
        descriptors.push(name.to_string_lossy().into_owned());
    }
    Ok(descriptors)
}
