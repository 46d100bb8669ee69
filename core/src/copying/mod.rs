//! Choice of the kernels that copy payload into blocks and out of them, and of the window, by what copies take while data flow.
//!
//! Which kernel is best depends on the machine, on how far apart the two cores are, and on how long messages are (docs/performance.md, "The bare
//! ring at each distance"); and the distance changes under a running program. So each end times one block in some, tries the other kernels
//! in such blocks only, and takes the best. A sender adds what its peer's copy out of the same block took. All of it is pure: measurements in,
//! choices out. wire.md 4.12.
//!
//! A wrong measurement, of this end's clock or of the peer, leads to a slower kernel or window at worst.

mod chooser;
mod cost;
mod decider;
mod kernel;
mod samples;
mod series;
mod size_class;
mod watch;
mod window;
mod windows;
mod wish;

pub(crate) use chooser::{KernelChooser, Plan, TRIAL_EVERY};
pub(crate) use cost::{NS_MAX, cost_of};
pub use kernel::{CopyKernel, KernelSet};
pub(crate) use size_class::SizeClass;
pub use size_class::{SIZE_CLASSES, size_class_bytes};
pub(crate) use window::WindowChooser;
pub use wish::WindowReason;
pub(crate) use wish::{LapNow, Wish};
