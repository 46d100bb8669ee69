//! Paths of the tools.

use std::env;
use std::path::Path;

/// Returns the path of a tool: in the directory that SUPERPIPE_TESTED names, where scripts/test-tools.sh has built what ships, or as cargo has built it for these tests.
pub(crate) fn program(name: &'static str) -> String {
    let built = match name {
        "rsend" => env!("CARGO_BIN_EXE_rsend"),
        "rrecv" => env!("CARGO_BIN_EXE_rrecv"),
        "rperf" => env!("CARGO_BIN_EXE_rperf"),
        "superpipe-top" => env!("CARGO_BIN_EXE_superpipe-top"),
        _ => panic!("there is no tool {name}"),
    };
    let Some(directory) = env::var_os("SUPERPIPE_TESTED") else { return built.to_owned() };
    let program = Path::new(&directory).join(name);
    assert!(
        program.is_absolute() && program.is_file(),
        "SUPERPIPE_TESTED is an absolute directory with {name}"
    );
    program.into_os_string().into_string().unwrap()
}
