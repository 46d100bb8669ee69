//! The claims of the buffer provisioning document, a test each, on both in-memory fabrics. docs/claims.md says where each of them holds,
//! and which of their parts are hardware.

mod receiving;
mod refused;
mod sending;
mod sizes;
mod story;

/// Makes a test of each function on both fabrics.
macro_rules! on_both {
    ($($test:ident)*) => {
        mod direct {
            $(#[test] fn $test() { super::$test::<superpipe_testkit::Direct>() })*
        }
        mod posted {
            $(#[test] fn $test() { super::$test::<superpipe_testkit::Posted>() })*
        }
    };
}
use on_both;
