//! Refuses targets that the memory layouts in docs/wire.md are not written for, with a sentence instead of a
//! page of type errors.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |key: &str| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    let (os, width, endian) = (target("OS"), target("POINTER_WIDTH"), target("ENDIAN"));
    if os != "linux" || width != "64" || endian != "little" {
        println!(
            "cargo::error=superpipe needs 64-bit little-endian Linux, and this target is {width}-bit {endian}-endian {os}"
        );
    }
}
