//! docs/api has the exported API of each library, one line per item, so that a review sees every change to it.
//!
//! `UPDATE=1 cargo test -p superpipe-testkit --test source` writes the texts again. They leave out items behind `internals`.

mod list;
mod text;

use crate::sources::Crate;
use list::{List, is_left_out, list};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Libraries, and their root files.
const LIBRARIES: [(&str, &str); 4] = [
    ("superpipe", "ffi/lib.rs"),
    ("superpipe_core", "core/src/lib.rs"),
    ("superpipe_tokio", "async/src/lib.rs"),
    ("superpipe_verbs", "ffi/verbs/src/lib.rs"),
];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn of(name: &str) -> List {
    let (_, root) = LIBRARIES.into_iter().find(|(library, _)| *library == name).expect("a library");
    list(name, &Crate::read(&top().join(root), is_left_out))
}

#[test]
fn the_exported_api_is_what_the_text_says() {
    let mut changes = Vec::new();
    for (name, _) in LIBRARIES {
        let path = top().join(format!("docs/api/{name}.txt"));
        let text = of(name).lines.join("\n") + "\n";
        if env::var_os("UPDATE").is_some_and(|value| value == "1") {
            fs::write(&path, &text).expect("a file that can be written");
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        let gone = written.lines().filter(|line| !text.lines().any(|new| new == *line));
        changes.extend(gone.map(|line| format!("- {line}")));
        let new = text.lines().filter(|line| !written.lines().any(|old| old == *line));
        changes.extend(new.map(|line| format!("+ {line}")));
    }
    assert!(
        changes.is_empty(),
        "the exported API has changed; if that is meant, write it down with UPDATE=1 cargo test -p superpipe-testkit --test source:\n{}",
        changes.join("\n")
    );
}

#[test]
fn types_of_public_signatures_can_be_named() {
    for (name, _) in LIBRARIES {
        let unnamed = of(name).unnamed;
        assert!(unnamed.is_empty(), "{name}: types that no user can name:\n{}", unnamed.join("\n"));
    }
}

#[test]
fn items_are_listed_by_the_path_a_user_writes() {
    let texts = [
        ("", "mod a; pub mod b; pub use a::{Thing, f as g}; pub use other::X; pub const N: u8 = 1; fn private() {}"),
        (
            "a",
            "#[derive(Clone)] pub struct Thing { pub x: u8, y: u8 } pub fn f(a: &mut [&[u8]]) -> Result<(), Hidden> {}
             impl Thing { pub fn get<'a>(&'a self) -> &'a u8 {} fn private(&self) {} }
             impl core::fmt::Debug for Thing {} pub struct Hidden; #[cfg(test)] mod tests { pub fn t() {} }
             #[cfg(feature = \"internals\")] pub fn internal() {}",
        ),
        ("b", "pub enum E { #[doc = \"x\"] One, Two { a: u8 } } #[cfg(feature = \"x\")] pub trait T { fn m(&self) {} type A; }"),
    ];
    let List { lines, unnamed } = list("lib", &Crate::of(&texts, is_left_out));
    let expected = [
        "impl core::fmt::Debug for lib::Thing",
        "pub const lib::N: u8 = 1",
        "#[derive(Clone)] pub struct lib::Thing { .. }",
        "pub lib::Thing::x: u8",
        "pub fn lib::Thing::get<'a>(&'a self) -> &'a u8",
        "pub use lib::X: other::X",
        "pub enum lib::b::E",
        "pub lib::b::E::One",
        "pub lib::b::E::Two { a: u8 }",
        "#[cfg(feature = \"x\")] pub trait lib::b::T",
        "#[cfg(feature = \"x\")] pub fn lib::b::T::m(&self) { .. }",
        "#[cfg(feature = \"x\")] pub type lib::b::T::A",
        "pub mod lib::b",
        "pub fn lib::g(a: &mut [&[u8]]) -> Result<(), Hidden>",
    ];
    for line in expected {
        assert!(lines.iter().any(|listed| listed == line), "{line} is not in\n{}", lines.join("\n"));
    }
    assert_eq!(lines.len(), expected.len(), "{}", lines.join("\n"));
    assert_eq!(unnamed.len(), 1, "{unnamed:?}");
}
