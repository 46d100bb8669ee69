//! Chooses the bindings to rdma-core that are compiled: those that are committed, or with the feature `bindgen` those of
//! this host's headers, if it has them.

#[cfg(feature = "bindgen")]
#[path = "build/bindgen.rs"]
mod from_headers;

use std::env;

/// Bindings that bindgen made from the headers of Debian's rdma-core 44; scripts/bindings.sh makes them again.
const SNAPSHOT: &str = "src/snapshot.rs";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rustc-env=SUPERPIPE_RDMA_BINDINGS={}", from_headers().unwrap_or_else(snapshot));
}

fn snapshot() -> String {
    format!("{}/{SNAPSHOT}", env::var("CARGO_MANIFEST_DIR").unwrap_or_default())
}

#[cfg(not(feature = "bindgen"))]
fn from_headers() -> Option<String> {
    None
}

/// Returns the path of bindings made from this host's headers; none, with a warning, if it has none or builds for another host.
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
