//! The connections that are compared.

use superpipe::{Address, Options, Protocol, Tuning};
use superpipe_bench::connection::polling;

/// Protocols of the connections: the first one plans, the others have one way each.
pub(crate) fn contestants(address: &Address) -> Vec<Protocol> {
    let mut all = vec![
        Protocol::Auto,
        Protocol::Superpipeline,
        Protocol::Pipeline,
        Protocol::Eager,
        Protocol::RegisterCached,
    ];
    if !matches!(address, Address::Shm(_)) {
        all.push(Protocol::Register);
    }
    all
}

/// Options of both ends.
pub(crate) fn options(protocol: Protocol) -> Options {
    Options { tuning: Tuning { protocol: Some(protocol), ..Tuning::default() }, ..polling() }
}
