//! What the two ends may wish for, and how it is settled: core's, by the names that programs use.

pub use superpipe_core::driver::setup::{
    BLOCK_BYTES, Disagreement, LANDING_BYTES, Settled, Terms, Tuning, Wish, arrival_name,
};
