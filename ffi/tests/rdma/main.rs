//! The RDMA fabric over the devices of this host, by its public items and by the std API.
//!
//! SUPERPIPE_RDMA names addresses of this host that have an RDMA device, separated by spaces. If it is not set, tests that
//! need a device check nothing, and print so.

mod api;
mod crowds;
mod end;
mod foreign_peers;
mod halves;
mod handshakes;
mod limits;
mod on_demand;
mod refusals;
mod remote_writes;
mod sleeping;
mod tools;
mod transfers;
mod violations;

use core::net::IpAddr;
use std::env;

/// Returns the addresses to test at.
fn addresses() -> Vec<IpAddr> {
    let named = env::var("SUPERPIPE_RDMA").unwrap_or_default();
    if named.is_empty() {
        eprintln!("NOT CHECKED: SUPERPIPE_RDMA names no address of an RDMA device");
    }
    named.split_whitespace().map(|address| address.parse().expect("SUPERPIPE_RDMA holds addresses")).collect()
}

/// Returns one address of each device, for tests that do not depend on the address family.
fn devices() -> Vec<IpAddr> {
    let (all, is_v4) = (addresses(), |ip: &IpAddr| ip.is_ipv4());
    if all.iter().any(is_v4) { all.into_iter().filter(is_v4).collect() } else { all }
}
