//! Calls of the operating system that only the tools need: inherited descriptors and signals, and the choice of a core. It has
//! the only unsafe code of this crate.

#[expect(unsafe_code, reason = "runs before main, and duplicates descriptors by number")]
pub mod inherited;
#[expect(unsafe_code, reason = "asks for the action of a signal, which signal-hook does not tell")]
pub mod signals;
#[expect(unsafe_code, reason = "declares trust, as the user says")]
pub mod trust;

pub mod core_choice;
pub mod descriptors;
mod topology;
