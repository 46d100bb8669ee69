//! The machines of the papers and of current NICs. Each value is *from the text*, or *fitted* to what a text reports, or *chosen* inside what a text allows, or
//! *assumed*, as the docs of each machine say.

use super::profile::{CopyStep, Profile};
use super::registration::{Deregistration, Registration};

/// A named machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// For reports.
    pub name: &'static str,
    /// Costs of machine and fabric.
    pub profile: Profile,
}

/// Returns the steps of B_copy: data sets up to three sizes, and larger ones, with the bandwidth of each.
const fn copy_steps(data_bytes_max: [u64; 3], bytes_per_ns: [f64; 4]) -> [CopyStep; 4] {
    let [first, second, third] = data_bytes_max;
    let [a, b, c, d] = bytes_per_ns;
    [
        CopyStep { data_bytes_max: first, bytes_per_ns: a },
        CopyStep { data_bytes_max: second, bytes_per_ns: b },
        CopyStep { data_bytes_max: third, bytes_per_ns: c },
        CopyStep { data_bytes_max: u64::MAX, bytes_per_ns: d },
    ]
}

const T3_REGISTRATION: Registration = Registration {
    latency_ns: 20_000.0,
    bytes_per_ns: 20.48,
    fault_ns: 2150.0,
    faults_at_once: 1,
    huge_factor: 0.6,
    device_share: 0.325,
    deregistration: Deregistration { latency_ns: 15_000.0, short_bytes_max: 128 << 10, bytes_per_ns: 93.1 },
};

impl Machine {
    /// Cluster `graphene` of Denis: ConnectX DDR, Intel Xeon X3440 with four cores.
    ///
    /// - From the text: λ_reg = 68 µs, B_reg = 20 GB/s (section 2).
    /// - Fitted: B_net = 2.0 GB/s (91 % with registration), B_copy of memory = 5.4 GB/s (57 % with two copies).
    /// - Chosen: g = 0.25 µs, with which 16 KB lose the 15 % of section 5; λ = 1.27 µs; any from 0.74 to 1.48 µs gives a C0 of the rendezvous of 8 to 16 KB. A copy beside the wire is slower by all of B_net, the most that
    ///   section 3 allows.
    /// - Assumed: o = 0.2 µs ("the same order of magnitude" as g); 10, 9 and 8 GB/s in data sets of 32 KiB, 256 KiB and 8 MiB, the caches of this processor;
    ///   faults, deregistration, huge pages, also of faults, and the share of the device are those of the T3.
    pub const GRAPHENE: Self = Self {
        name: "graphene",
        profile: Profile {
            latency_ns: 1270.0,
            net_bytes_per_ns: 2.0,
            gap_ns: 250.0,
            overhead_ns: 200.0,
            copy: copy_steps([32 << 10, 256 << 10, 8 << 20], [10.0, 9.0, 8.0, 5.4]),
            contention: 1.0,
            registration: Registration { latency_ns: 68_000.0, bytes_per_ns: 20.0, ..T3_REGISTRATION },
        },
    };

    /// Cluster `infini` of Denis: ConnectX2 QDR, Intel Xeon X5570. The text has no number of it; registration is of the same order of magnitude as on `graphene`
    /// (section 2). All is assumed: B_net = 3.2 GB/s (QDR behind PCIe 2.0), λ = 1.2 µs, copies a quarter faster than on `graphene`.
    pub const INFINI: Self = Self {
        name: "infini",
        profile: Profile {
            latency_ns: 1200.0,
            net_bytes_per_ns: 3.2,
            copy: copy_steps([32 << 10, 256 << 10, 8 << 20], [12.5, 11.25, 10.0, 6.75]),
            ..Self::GRAPHENE.profile
        },
    };

    /// The Chelsio T3 of Frey and Alonso: 10 Gb/s iWARP, Intel Xeon of 2.33 GHz with four cores, 32 KiB of L1 and 4 MB of L2.
    ///
    /// - From the text: a round trip of 25 µs (section 3.2); deregistration 15 µs up to 128 KB (section 3.3); huge pages up to 40 % cheaper (section 3.3).
    /// - Fitted: λ_reg = 20 µs, 0.05 µs for 1 KB and 2.15 µs for a fault give the critical sizes of 256 KB, and 32 KB cold, 64 KB and 8 KB inside a round trip, and
    ///   almost ten times as long cold at 2 MB. Deregistration above 128 KB: 1 MB inside a round trip. B_copy = 8 GB/s at 256 KB (the critical size), 1.9 at
    ///   4 MB (almost ten times the registration). The device has 32.5 % of the time of registering and deregistering, the middle of what a CPU load of 60 % to 75 % leaves
    ///   (section 4.1).
    /// - Assumed: where in between copies become slower; one fault at a time ("almost as expensive", section 4.4); B_net = 1.16 GB/s of payload; g = o = 0.3 µs,
    ///   since writes saturate the wire above 4 KB (section 5); a copy beside the wire is as fast as alone.
    pub const CHELSIO_T3: Self = Self {
        name: "t3",
        profile: Profile {
            latency_ns: 12_500.0,
            net_bytes_per_ns: 1.16,
            gap_ns: 300.0,
            overhead_ns: 300.0,
            copy: copy_steps([32 << 10, 1 << 20, 2 << 20], [8.0, 8.0, 4.0, 1.9]),
            contention: 0.0,
            registration: T3_REGISTRATION,
        },
    };

    /// Two cores of one host, and shared memory between them: what is written is read by the other one. All is assumed, from measurements on an AMD EPYC (docs/performance.md): λ
    /// and g are those of a line between distant cores, B_net is that of an L3. Registering is mapping.
    pub const SHARED_MEMORY: Self = Self {
        name: "shared-memory",
        profile: Profile {
            latency_ns: 100.0,
            net_bytes_per_ns: 50.0,
            gap_ns: 50.0,
            overhead_ns: 20.0,
            copy: copy_steps([256 << 10, 1 << 20, 16 << 20], [20.0, 17.0, 12.0, 8.0]),
            contention: 0.0,
            ..Self::NIC_100G.profile
        },
    };

    /// A NIC of 100 Gb/s, with the costs that `Profile::roce_100g` of the simulator has, where their sources are: B_net is measured, g an upper bound, λ and
    /// registration are UCX's estimates, o = 75 ns is second-hand, copies and faults are those of one core of an AMD EPYC with AVX-512. Assumed: a copy beside the
    /// wire is as fast as alone; deregistration, huge pages and one fault at a time as on the T3.
    pub const NIC_100G: Self = Self {
        name: "100g",
        profile: Profile {
            latency_ns: 800.0,
            net_bytes_per_ns: 12.075,
            gap_ns: 91.0,
            overhead_ns: 75.0,
            copy: copy_steps([32 << 10, 512 << 10, 16 << 20], [128.0, 128.0, 54.0, 23.0]),
            contention: 0.0,
            registration: Registration {
                latency_ns: 16_000.0,
                bytes_per_ns: 16.667,
                fault_ns: 1350.0,
                ..T3_REGISTRATION
            },
        },
    };

    /// A NIC of 200 Gb/s: twice the wire of [`NIC_100G`](Self::NIC_100G), all else assumed the same. One core copies out of memory a little more slowly than
    /// it sends.
    pub const NIC_200G: Self =
        Self { name: "200g", profile: Profile { net_bytes_per_ns: 24.15, ..Self::NIC_100G.profile } };

    /// A NIC of 400 Gb/s: four times the wire of [`NIC_100G`](Self::NIC_100G), all else assumed the same. One core copies out of memory at less than half
    /// of its rate.
    pub const NIC_400G: Self =
        Self { name: "400g", profile: Profile { net_bytes_per_ns: 48.3, ..Self::NIC_100G.profile } };

    /// Every machine, those with a NIC first.
    pub const ALL: [Self; 7] = [
        Self::GRAPHENE,
        Self::INFINI,
        Self::CHELSIO_T3,
        Self::NIC_100G,
        Self::NIC_200G,
        Self::NIC_400G,
        Self::SHARED_MEMORY,
    ];
}
