//! Calls on the operating system, by rustix where it has them safely and by libc otherwise. Independent of the protocol.
//!
//! Calls fail with an [`OsError`], whose text has what was tried, the system's reason and the remedy. Times are
//! nanoseconds of the monotonic clock; a deadline is such a time, a timeout a difference of two.

pub mod bytes;
pub mod clock;
pub(crate) mod closer;
pub mod cold;
pub(crate) mod descriptors;
pub mod distance;
pub mod epoll;
pub mod error;
pub mod exposed_memory;
pub mod interfaces;
pub mod jobs;
pub mod limits;
pub mod map;
pub mod membarrier;
pub(crate) mod memfd;
pub mod memory_node;
pub(crate) mod mempolicy;
pub mod numa;
pub(crate) mod owner;
pub mod page;
pub mod pidfd;
pub mod pin;
pub mod poll;
pub mod random;
pub mod read_only_mapping;
pub mod resolve;
pub(crate) mod step_time;
pub mod timer;
pub(crate) mod user;
pub mod wakeup;

pub use bytes::Bytes;
pub use clock::monotonic_ns;
pub use error::OsError;
pub use exposed_memory::{ExposedMemory, PeerAccess};
pub use interfaces::interface_addresses;
pub use map::Mapping;
pub use memory_node::{MemoryNode, MemoryNodeParseError, MemoryPlacement};
pub use pidfd::PidFd;
pub use pin::{CoreSet, PinError, allowed_cores, pin_current_thread};
pub use read_only_mapping::ReadOnlyMapping;
pub use resolve::{ResolveError, resolve};
pub use superpipe_core::driver::WaitStrategy;
