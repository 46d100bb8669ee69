//! Parameters of a machine as integers, named as in the papers.
//!
//! λ, B, g and o are those of LogP as Denis writes it (section 3). A write of L bytes takes λ_net + L / B_net, the next one begins g later,
//! and o is the CPU time of posting. T_reg(L) = λ_reg + L / B_reg (section 2). Bandwidths are bytes per microsecond, which is MB/s.

use superpipe_core::CopyKernel;

use super::distance::Distances;
use super::memory_nodes::MemoryNodes;
use super::paging::Paging;
use super::rate::time_ns;

/// B_copy(L) for data sets up to a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyStep {
    /// Largest data set of this step.
    pub data_bytes_max: u64,
    /// Bytes that a core copies per microsecond.
    pub bytes_per_us: u64,
}

/// Costs of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// B_copy(L) by the size of the data set. The last step holds for all larger ones.
    pub copy: [CopyStep; 4],
    /// The data set of all copies. `None`: the landing buffer, since copies cycle through it.
    pub data_bytes: Option<u64>,
    /// Part of B_net in percent by which a copy is slower while the wire of its host is in use: at most 100 (Denis, section 3). The copy keeps half of its rate at
    /// least, which is an assumption.
    pub contention_percent: u64,
    /// Bytes of CRC32C that a core computes per microsecond.
    pub crc_bytes_per_us: u64,
    /// o: CPU time of preparing and posting one WR.
    pub post_ns: u64,
    /// CPU time of ringing the doorbell.
    pub doorbell_ns: u64,
    /// CPU time of one poll of the CQ.
    pub poll_cq_ns: u64,
    /// CPU time of one poll of a flag or line in memory.
    pub poll_memory_ns: u64,
    /// CPU time between two polls of a loop with a pause.
    pub pause_ns: u64,
    /// Time until another core sees a direct store.
    pub store_ns: u64,
    /// Time until the NIC has fetched a WR that is not inline.
    pub fetch_ns: u64,
    /// λ_net: time from the sender's NIC to the receiver's memory.
    pub latency_ns: u64,
    /// Time until an unanswered WR fails: the acknowledgement timeout with all retries.
    pub retry_ns: u64,
    /// g: time between two WRs.
    pub gap_ns: u64,
    /// B_net.
    pub wire_bytes_per_us: u64,
    /// Payload bytes of a packet.
    pub mtu_bytes: u32,
    /// λ_reg.
    pub register_ns: u64,
    /// B_reg of resident pages.
    pub register_bytes_per_us: u64,
    /// Time of deregistering a page.
    pub deregister_ns: u64,
    /// Time of the first touch of a page that is not resident.
    pub page_fault_ns: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// WRs that a send queue holds.
    pub send_queue: usize,
    /// Most bytes of an inline WR.
    pub inline_bytes: u32,
    /// Bytes of one write become visible in ascending order.
    pub order_inside_write: bool,
    /// The device has write with immediate. Otherwise a SEND follows a write that is to be notified (over iWARP superpipe encloses a short write
    /// in it, which saves a packet: wire.md 10.3).
    pub write_with_immediate: bool,
    /// What copies over shared memory take by kernel, in place of [`copy`](Self::copy): the kernels are then chosen. Direct store only.
    pub distances: Option<Distances>,
    /// Memory nodes of hosts whose core and device are on different ones. Posted writes only. `None`: there is nothing to cross.
    pub memory_nodes: Option<MemoryNodes>,
    /// Pages of the applications' memory, and the system that registers them.
    pub paging: Paging,
}

impl Profile {
    /// 100 Gb/s RoCE with a NIC of the mlx5 family.
    ///
    /// - `latency_ns`: 600 ns for lanes of 25 Gb/s and 200 ns for RoCE, as UCX estimates (openucx/ucx,
    ///   src/uct/ib/base/ib_iface.c, `uct_ib_iface_query`).
    /// - `wire_bytes_per_us`, `mtu_bytes`: ib_write_bw ends at 96.6 Gb/s with packets of 4096 bytes (NVIDIA developer
    ///   forum, thread 273376).
    /// - `gap_ns`: an upper bound. ib_send_bw sent 5.68 million messages of 1024 bytes per second over one QP of an mlx5 NIC, which
    ///   is 176 ns each, 85 ns of them on the wire (linux-rdma/perftest, issue 65).
    /// - `post_ns`, `doorbell_ns`, `poll_cq_ns`, `fetch_ns`: 75 ns per operation through libibverbs, 40 ns per doorbell, 20 ns per
    ///   CQE, 350 ns to fetch a WQE: estimates of UCX's cost model, known second-hand and not measured here.
    /// - `register_ns`, `register_bytes_per_us`: 16 µs and 0.06 ns per byte (UCX, src/uct/ib/base/ib_md.c, MEM_REG_OVERHEAD and
    ///   MEM_REG_GROWTH).
    /// - `deregister_ns`: 15 µs up to 128 KiB (Frey and Alonso, Figure 5; a 10 Gb/s NIC).
    /// - `send_queue`: UCX's default (TX_QUEUE_LEN). `inline_bytes`: a WQE of 256 bytes without its three segments (16, 16
    ///   and 4 bytes), as in UCX's rc_mlx5.
    /// - `copy`, `crc_bytes_per_us`, `page_fault_ns`, `store_ns`: measured on two cores of an AMD EPYC with AVX-512: one core's
    ///   memcpy at 64 KiB, 4 MiB and 64 MiB; CRC32C in three streams; memcpy into untouched memory at 2.9 GB/s, which is
    ///   1.4 µs per page; half a round trip of 8 bytes.
    /// - `retry_ns`: an assumption. NICs wait for seconds. This is longer than every delay, and short enough to occur in
    ///   each run.
    /// - `poll_memory_ns`, `pause_ns`: assumptions: a load that hits the first cache, rounded up, and 140 cycles.
    #[must_use]
    pub const fn roce_100g() -> Self {
        Self {
            copy: [
                CopyStep { data_bytes_max: 32 << 10, bytes_per_us: 128_000 },
                CopyStep { data_bytes_max: 512 << 10, bytes_per_us: 128_000 },
                CopyStep { data_bytes_max: 16 << 20, bytes_per_us: 54_000 },
                CopyStep { data_bytes_max: u64::MAX, bytes_per_us: 23_000 },
            ],
            data_bytes: None,
            contention_percent: 0,
            crc_bytes_per_us: 32_000,
            post_ns: 75,
            doorbell_ns: 40,
            poll_cq_ns: 20,
            poll_memory_ns: 2,
            pause_ns: 40,
            store_ns: 40,
            fetch_ns: 350,
            latency_ns: 800,
            retry_ns: 500_000,
            gap_ns: 91,
            wire_bytes_per_us: 12_075,
            mtu_bytes: 4096,
            register_ns: 16_000,
            register_bytes_per_us: 16_667,
            deregister_ns: 15_000,
            page_fault_ns: 1_350,
            page_bytes: 4096,
            send_queue: 256,
            inline_bytes: 220,
            order_inside_write: true,
            write_with_immediate: true,
            distances: None,
            memory_nodes: None,
            paging: Paging::PLAIN,
        }
    }

    /// Returns the time to copy `bytes` bytes, if the wire is in use for the first `wire_ns` of that, and of the faults in cold buffers. `data_bytes` is the data set unless
    /// [`Profile::data_bytes`] gives one.
    #[must_use]
    pub fn copy_ns(&self, bytes: u64, data_bytes: u64, kernel: CopyKernel, wire_ns: u64) -> u64 {
        let data_bytes = self.data_bytes.unwrap_or(data_bytes);
        let [.., last] = self.copy;
        let fits = |step: &&CopyStep| data_bytes <= step.data_bytes_max;
        let step = match kernel {
            CopyKernel::Plain | CopyKernel::String | CopyKernel::Fetching => {
                self.copy.iter().find(fits).copied().unwrap_or(last)
            }
            CopyKernel::Streaming => last,
        };
        let alone = step.bytes_per_us * 100 / self.paging.percent(data_bytes);
        let faults = self.paging.cold_buffers * self.page_fault_ns * self.paging.percent(data_bytes) / 100;
        let faults_ns = bytes * faults / u64::from(self.page_bytes);
        let lost = self.wire_bytes_per_us * self.contention_percent / 100;
        let beside = alone.saturating_sub(lost).max(alone / 2);
        let copied_beside = beside * wire_ns / 1000;
        let copied_ns = match bytes.checked_sub(copied_beside) {
            Some(left) if wire_ns > 0 => wire_ns + time_ns(left, alone),
            _ => time_ns(bytes, if wire_ns > 0 { beside } else { alone }),
        };
        copied_ns + faults_ns
    }

    /// Returns T_reg(L), with a fault for each page unless the memory is resident.
    #[must_use]
    pub fn registration_ns(&self, bytes: u64, resident: bool) -> u64 {
        let faults_ns = if resident { 0 } else { self.faults_ns(bytes) };
        self.resident_registration_ns(bytes) + faults_ns
    }

    /// Returns T_reg(L) of resident memory.
    pub(crate) fn resident_registration_ns(&self, bytes: u64) -> u64 {
        self.register_ns + time_ns(bytes, self.register_bytes_per_us) * self.paging.percent(bytes) / 100
    }

    /// Returns the time of a fault in each page.
    pub(crate) fn faults_ns(&self, bytes: u64) -> u64 {
        let pages = bytes.div_ceil(u64::from(self.page_bytes));
        pages * self.page_fault_ns * self.paging.percent(bytes) / 100
    }

    /// Returns the time of deregistering.
    pub(crate) fn deregistration_ns(&self, bytes: u64) -> u64 {
        self.deregister_ns + self.paging.more_to_deregister_ns(bytes)
    }

    /// Returns the time on the wire, without λ.
    #[must_use]
    pub fn wire_ns(&self, bytes: u64) -> u64 {
        time_ns(bytes, self.wire_bytes_per_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_equations() {
        let p = Profile::roce_100g();
        assert_eq!(p.copy_ns(64_000, 64_000, CopyKernel::Plain, 0), 500);
        assert_eq!(p.copy_ns(23_000, 1 << 30, CopyKernel::Plain, 0), 1000);
        assert_eq!(p.copy_ns(23_000, 23_000, CopyKernel::Streaming, 0), 1000);
        assert_eq!(p.copy_ns(23_000, 23_000, CopyKernel::Streaming, 5000), 1000, "nothing contends");
        let of_memory = Profile { data_bytes: Some(1 << 30), ..p };
        assert_eq!(of_memory.copy_ns(23_000, 64, CopyKernel::Plain, 0), 1000);
        assert_eq!(p.wire_ns(12_075), 1000);
        assert_eq!(p.registration_ns(8192, true), 16_492);
        assert_eq!(p.registration_ns(8192, false), 16_492 + 2 * 1350);
    }

    #[test]
    fn buffers_of_huge_pages_are_cheaper_and_cold_ones_fault() {
        let paging = Paging { huge_percent: 50, cold_buffers: 2, ..Paging::PLAIN };
        let p = Profile { paging, page_fault_ns: 1000, ..Profile::roce_100g() };
        let copied = |data_bytes| p.copy_ns(4096 * 100, data_bytes, CopyKernel::Streaming, 0);
        assert_eq!(copied(4096 * 100), 17_809 + 200_000);
        assert_eq!(copied(2 << 20), 8905 + 100_000);
        assert_eq!(p.registration_ns(8192, true), 16_492);
        assert_eq!(p.registration_ns(2 << 20, true), 16_000 + 62_913);
        assert_eq!(p.registration_ns(2 << 20, false), 16_000 + 62_913 + 256_000);
        assert_eq!(p.deregistration_ns(1 << 30), 15_000);
    }

    #[test]
    fn a_copy_beside_the_wire_is_slower_for_as_long() {
        let machine = Profile {
            data_bytes: Some(1 << 30),
            contention_percent: 50,
            wire_bytes_per_us: 12_000,
            ..Profile::roce_100g()
        };
        let ns = |wire_ns| machine.copy_ns(46_000, 1, CopyKernel::Plain, wire_ns);
        // 23 bytes a nanosecond alone, and 17 beside the wire.
        assert_eq!([0, 1000, 2706, 9000].map(ns), [2000, 2261, 2706, 2706]);
        let fast = Profile { contention_percent: 100, wire_bytes_per_us: 20_000, ..machine };
        assert_eq!(fast.copy_ns(46_000, 1, CopyKernel::Plain, 9000), 4000, "half of the rate at least");
    }
}
