//! Paths of the tools.

use std::env;

/// Returns the path of a tool: in the directory that SUPERPIPE_BIN names, for tools as they ship, or as cargo has built it for these tests.
pub(crate) fn program(name: &'static str) -> String {
    let built = match name {
        "rsend" => env!("CARGO_BIN_EXE_rsend"),
        "rrecv" => env!("CARGO_BIN_EXE_rrecv"),
        "rperf" => env!("CARGO_BIN_EXE_rperf"),
        "superpipe-top" => env!("CARGO_BIN_EXE_superpipe-top"),
        _ => panic!("there is no tool {name}"),
    };
    env::var("SUPERPIPE_BIN").map_or_else(|_| built.to_owned(), |directory| format!("{directory}/{name}"))
}
