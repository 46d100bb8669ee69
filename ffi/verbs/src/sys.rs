//! Bindings: types, constants, and a struct of function pointers per library, as bindgen wrote them.
//!
//! build.rs decides whether they come from the committed snapshot or from this host's headers. Sizes and offsets
//! are asserted when this is compiled.

#![allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    unreachable_pub,
    unused_qualifications,
    clippy::missing_safety_doc,
    clippy::undocumented_unsafe_blocks,
    clippy::std_instead_of_core,
    clippy::use_self,
    clippy::pedantic,
    reason = "written by bindgen, in C's names"
)]

use libc::{pthread_cond_t, pthread_mutex_t, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};

include!(env!("SUPERPIPE_RDMA_BINDINGS"));

#[cfg(any(test, feature = "fake"))]
#[path = "fake/mod.rs"]
pub mod fake;
