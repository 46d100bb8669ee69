//! Refuses targets that the memory layouts in docs/wire.md are not written for, with a sentence instead of a
//! page of type errors. Says which bindings to rdma-core are compiled: those that are committed, or with the feature
//! `bindgen` those of this host's headers, where it has them.

#[cfg(feature = "bindgen")]
#[path = "build/bindgen.rs"]
mod from_headers;

use std::env;

/// What bindgen made of Debian's rdma-core 44; scripts/bindings.sh makes it again.
const SNAPSHOT: &str = "ffi/verbs/snapshot.rs";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    check_target();
    if env::var_os("CARGO_FEATURE_VERBS").is_some() {
        println!("cargo::rustc-env=SUPERPIPE_RDMA_BINDINGS={}", from_headers().unwrap_or_else(snapshot));
    }
}

fn check_target() {
    let target = |key: &str| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    let (os, width, endian) = (target("OS"), target("POINTER_WIDTH"), target("ENDIAN"));
    if os != "linux" || width != "64" || endian != "little" {
        println!(
            "cargo::error=superpipe needs 64-bit little-endian Linux, and this target is {width}-bit {endian}-endian {os}"
        );
    }
}

fn snapshot() -> String {
    format!("{}/{SNAPSHOT}", env::var("CARGO_MANIFEST_DIR").unwrap_or_default())
}

#[cfg(not(feature = "bindgen"))]
fn from_headers() -> Option<String> {
    None
}

/// The path of what this host's headers say; none, with a warning, where it has none or builds for another.
#[cfg(feature = "bindgen")]
fn from_headers() -> Option<String> {
    println!("cargo::rerun-if-changed=/usr/include/infiniband/verbs.h");
    let path = format!("{}/rdma.rs", env::var("OUT_DIR").unwrap_or_default());
    let made = if env::var("HOST") == env::var("TARGET") {
        from_headers::bindings()
    } else {
        Err("this builds for another host".to_owned())
    };
    let written =
        made.and_then(|text| std::fs::write(&path, text).map_err(|error| format!("{path}: {error}")));
    written
        .map(|()| path)
        .inspect_err(|why| println!("cargo::warning=the committed bindings are used: {why}"))
        .ok()
}
