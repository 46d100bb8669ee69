//! Fabrics of this operating system: what the blocking shells need of one, what fabrics share, shared memory and RDMA.

mod concurrent_sleeps;
mod host_fabric;
mod observers;
#[cfg(feature = "verbs")]
pub mod rdma;
mod recent_buffers;
mod registered_memory;
#[cfg(feature = "verbs")]
mod registrations;
mod shards;
pub mod shm;
mod span;
mod trusted_memory;

pub(crate) use concurrent_sleeps::ConcurrentSleeps;
pub use host_fabric::{HostFabric, LossCause, Registered, SleepEnd, Way};
pub use registered_memory::RegisteredMemory;
#[cfg(feature = "verbs")]
pub(crate) use registrations::Registrations;
pub use shards::Shards;
pub(crate) use span::Span;
pub use trusted_memory::TrustedMemory;
