//! superpipe: moves data between machines over RDMA and between processes over shared memory at the speed of the wire.

pub mod copy;
pub mod io;
pub mod os;
pub mod shm;
