//! Bug of a fabric that can be planted on purpose, beside those of core (`core/src/planted.rs`).

/// Returns true if a landing buffer that is provisioned holds what its place held before, which breaks the contract of a fabric.
#[cfg(superpipe_planted)]
pub(crate) fn reuses_unzeroed() -> bool {
    use superpipe_core::planted::{Bug, is_planted};

    is_planted(Bug::EpochUnzeroed)
}

/// Returns false: no bug is planted in this build.
#[cfg(not(superpipe_planted))]
pub(crate) const fn reuses_unzeroed() -> bool {
    false
}
