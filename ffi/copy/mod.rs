//! Copy kernels.
