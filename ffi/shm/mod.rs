//! Shared memory.
