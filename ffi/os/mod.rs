//! The operating system, by libc: what is here knows nothing of the protocol.
//!
//! Everything fails with an [`OsError`] that says what was tried, what the system answered and what to do. Times are
//! nanoseconds of the monotonic clock; a deadline is such a time, a timeout a difference of two.

pub mod bytes;
pub mod clock;
pub(crate) mod closer;
pub mod cold;
pub(crate) mod descriptors;
pub mod error;
pub mod interfaces;
pub mod map;
pub mod membarrier;
pub mod near;
pub(crate) mod owner;
pub mod page;
pub mod pidfd;
pub mod pin;
pub mod poll;
pub mod random;
pub mod resolve;
pub mod signals;
pub mod stdio;
pub(crate) mod user;

pub use bytes::Bytes;
pub use clock::monotonic_ns;
pub use error::OsError;
pub use interfaces::interface_addresses;
pub use map::Mapping;
pub use near::{Side, choose_core};
pub use pidfd::PidFd;
pub use pin::{CoreSet, PinError, allowed_cores, pin_current_thread};
pub use resolve::{ResolveError, resolve};
pub use superpipe_core::driver::WaitStrategy;
