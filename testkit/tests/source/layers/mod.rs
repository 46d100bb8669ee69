//! The modules of each crate are in layers: of two sibling modules at most one knows the other, directly or indirectly. A module and those
//! inside it may know each other, since they are one thing in several files.
//!
//! Tests and code behind `cfg(test)` are left out.

mod cycles;

use crate::sources::{Crate, is_for_tests};
use cycles::cycles;
use std::path::Path;

/// Root files of the crates.
const ROOTS: [&str; 13] = [
    "bench/src/lib.rs",
    "bench/src/bin/benchmarks/main.rs",
    "bench/src/bin/limit_blocks/main.rs",
    "bench/src/bin/limit_one_copy/main.rs",
    "bench/src/bin/waiting/main.rs",
    "bins/src/lib.rs",
    "core/src/lib.rs",
    "ffi/lib.rs",
    "ffi/verbs/src/lib.rs",
    "sim/src/lib.rs",
    "sim/src/main.rs",
    "soak/src/main.rs",
    "testkit/src/lib.rs",
];

#[test]
fn sibling_modules_have_no_cycles() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for root in ROOTS {
        let read = Crate::read(&top.join(root), is_for_tests);
        assert!(read.modules.len() > 2, "{root}: too few modules");
        found.extend(cycles(&read).into_iter().map(|cycle| format!("{root}: {cycle}")));
    }
    assert!(found.is_empty(), "modules in cycles:\n{}", found.join("\n"));
}

#[test]
fn a_cycle_by_use_path_macro_or_reexport_is_found() {
    let texts = |other: &str| {
        let texts = [
            ("", "mod one; mod two; mod three; pub use three::Thing;"),
            ("one", "use crate::two::Two; pub struct One;"),
            ("two", other),
            ("three", "pub struct Thing; mod deep;"),
            ("three::deep", "use crate::one::One; use super::Thing;"),
        ];
        Crate::of(&texts, is_for_tests)
    };
    for cycle in [
        "use crate::one::One;",
        "pub use super::one::{self};",
        "fn f() { crate::one::g() }",
        "fn f() { println!(\"{}\", crate::one::g()) }",
        "fn f() { crate::one::generated!() }",
        "use crate::Thing;",
        "use crate::{Thing as Other};",
        "mod inside { use super::super::one::One; }",
        "fn f(_: super::Thing) {}",
        "fn f() { use crate::one::One; }",
        "use super::*; fn f() { one::g() }",
        "fn f() { use super as up; up::one::g() }",
        "use super::*; fn f(_: &Thing) {}",
        "#[cfg(any(test, unix))] use crate::one::One;",
    ] {
        assert_eq!(cycles(&texts(cycle)).len(), 1, "{cycle}");
    }
    for line in [
        "pub struct Two;",
        "#[cfg(test)] mod tests { use crate::one::One; }",
        "#[cfg(test)] use crate::one::One;",
        "#[cfg(any(test, feature = \"fake\"))] use crate::one::One;",
        "#[cfg(all(feature = \"a\", test))] use crate::one::One;",
        "mod inside { use super::Two; } use self::inside::x; pub struct Two;",
        "// crate::one",
    ] {
        assert_eq!(cycles(&texts(line)), Vec::<String>::new(), "{line}");
    }
}

/// A module that exports all of a child, which imports all of its parent, is ordinary Rust.
#[test]
fn a_parent_and_a_child_may_import_all_of_each_other() {
    let texts = [
        ("", "mod one;"),
        ("one", "mod deep; pub use deep::*;"),
        ("one::deep", "use super::*; pub fn f(_: Vec<u8>) {}"),
    ];
    assert_eq!(cycles(&Crate::of(&texts, is_for_tests)), Vec::<String>::new());
}
