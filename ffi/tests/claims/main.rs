//! The claims of the buffer provisioning document over the library's own fabrics: the devices, drivers and memory that a program has. A
//! test per claim, by its number. core/tests/protocol/claims has them in memory of the test; docs/claims.md says where each of them
//! holds.
//!
//! SUPERPIPE_RDMA names addresses of this host that have an RDMA device, separated by spaces. If it is not set, the tests over RDMA check
//! nothing, and print so. One test at a time: what the kernel counts is the process's.

mod events;
mod observed;
mod receiving;
mod sending;
mod shm;
mod story;

#[cfg(feature = "verbs")]
mod rdma;

/// Makes a test of each function over shared memory, and one over each RDMA device in each arrival mode.
macro_rules! on_each_fabric {
    ($($test:ident)*) => {
        mod over_shm {
            $(#[test] fn $test() { crate::shm::play(super::$test::<superpipe::fabric::shm::fabric::Shm>); })*
        }
        #[cfg(feature = "verbs")]
        mod over_rdma {
            $(#[test] fn $test() { crate::rdma::play(super::$test::<superpipe::fabric::rdma::Rdma>); })*
        }
    };
}
use on_each_fabric;
