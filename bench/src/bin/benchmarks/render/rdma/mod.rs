//! The figures over RDMA, which `scripts/bench-vm.sh` measures in a guest: read, judged, and told as a section of the page.

mod data;
mod tables;
mod targets;
#[cfg(test)]
mod tests;

use std::path::Path;

use superpipe_bench::failure::Failure;

use super::causes;
use data::Measured;

const INTRODUCTION: &str = "\
## RDMA, over Linux's software drivers

Made by `scripts/bench-vm.sh` in guests of [vm/](../vm/README.md): **rxe** speaks RoCE v2, **siw** iWARP, and both do the wire's work
in the call that posts, on an emulated CPU. What counts are ratios inside a run; the rates are not those of hardware.

- Each round gives every contestant its turn, client and server pinned to the guest's two CPUs. A figure is the median of the
  rounds, with the lowest and the highest; ratios are formed inside a round, and the median of these is told.
- superpipe and UCX send out of memory that was never registered; perftest's `ib_write_bw` and `ib_write_lat` write registered memory
  in place. Since copy and wire take turns here, the **bound** of whoever copies is 1 / (1 / `ib_write_bw` + 1 / memcpy).
- A ratio above 1 says that the bound is none there: memcpy of 4 MiB leaves the caches, which superpipe's blocks do not; and siw hands the
  pages of `ib_write_bw`, which asks for few completions, to TCP without copying them, which takes it longer than a copy would.
- **flag** is asserted at both ends (`--arrival flag`), since neither driver promises order inside a write; **notify** is what superpipe
  takes by itself there. **checked flag** is held up by a CRC that the emulated CPU does slowly.
- **First message**: half of the time that it takes with its answer. A process's first finds nothing that it needs in a cache or a TLB, nor
  the code of either end ever run; UCX connects with it, superpipe before it. A connection's first is the median of seven new connections
  that one process makes one after the other.
";

/// The section, or nothing where there are no figures.
pub(super) fn section(raw: &Path) -> Result<String, Failure> {
    match Measured::read(&raw.join("rdma.jsonl"))? {
        Some(measured) => Ok(render(&measured, &causes::read(raw, "rdma-causes.json")?)),
        None => Ok(String::new()),
    }
}

fn render(measured: &Measured, causes: &causes::Causes) -> String {
    format!("\n{INTRODUCTION}\n{}{}", targets::render(measured, causes), tables::render(measured))
}
