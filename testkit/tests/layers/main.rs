//! The modules of each crate are in layers: of two modules side by side, one knows the other or neither does, also by way of
//! third ones. A module and those inside it may know each other: they are one thing, in several files.
//!
//! Tests are left out, as is what stands behind `cfg(test)`.

mod graph;
mod sources;

use graph::cycles;
use sources::Crate;
use std::path::Path;

/// Root files of the crates.
const ROOTS: [&str; 7] = [
    "bench/src/lib.rs",
    "bench/src/bin/benchmarks/main.rs",
    "bins/src/lib.rs",
    "core/src/lib.rs",
    "ffi/lib.rs",
    "sim/src/lib.rs",
    "soak/src/main.rs",
];

#[test]
fn modules_side_by_side_do_not_know_each_other_in_circles() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for root in ROOTS {
        let read = Crate::read(&top.join(root));
        assert!(read.modules() > 2, "{root}: few modules were found");
        found.extend(cycles(&read).into_iter().map(|cycle| format!("{root}: {cycle}")));
    }
    assert!(found.is_empty(), "modules know each other in circles:\n{}", found.join("\n"));
}

#[test]
fn a_circle_is_found_by_use_by_path_by_macro_and_by_a_reexport() {
    let texts = |other: &str| {
        Crate::of(&[
            ("", "mod one; mod two; mod three; pub use three::Thing;"),
            ("one", "use crate::two::Two; pub struct One;"),
            ("two", other),
            ("three", "pub struct Thing; mod deep;"),
            ("three::deep", "use crate::one::One; use super::Thing;"),
        ])
    };
    for circle in [
        "use crate::one::One;",
        "pub use super::one::{self};",
        "fn f() { crate::one::g() }",
        "fn f() { println!(\"{}\", crate::one::g()) }",
        "use crate::Thing;",
        "use crate::{Thing as Other};",
        "mod inside { use super::super::one::One; }",
        "fn f() -> super::Thing { todo!() }",
    ] {
        assert_eq!(cycles(&texts(circle)).len(), 1, "{circle}");
    }
    for line in [
        "pub struct Two;",
        "#[cfg(test)] mod tests { use crate::one::One; }",
        "#[cfg(test)] use crate::one::One;",
        "mod inside { use super::Two; } use self::inside::x; pub struct Two;",
        "// crate::one",
    ] {
        assert_eq!(cycles(&texts(line)), Vec::<String>::new(), "{line}");
    }
}
