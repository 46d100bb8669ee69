//! The RDMA fabric over whatever devices there are, by its public items and by the std API.
//!
//! SUPERPIPE_RDMA names addresses of this host that have an RDMA device, separated by spaces. Where it is not set, what
//! needs a device is left out.

mod api;
mod crowds;
mod end;
mod halves;
mod handshakes;
mod limits;
mod mail;
mod refusals;
mod sleeping;
mod strangers;
mod tools;
mod transfers;

use core::net::IpAddr;
use std::env;

/// The addresses to test at.
fn addresses() -> Vec<IpAddr> {
    let named = env::var("SUPERPIPE_RDMA").unwrap_or_default();
    if named.is_empty() {
        eprintln!("NOT CHECKED: SUPERPIPE_RDMA names no address of an RDMA device");
    }
    named.split_whitespace().map(|address| address.parse().expect("SUPERPIPE_RDMA holds addresses")).collect()
}

/// One address of each device, for what does not depend on the family.
fn devices() -> Vec<IpAddr> {
    let (all, is_v4) = (addresses(), |ip: &IpAddr| ip.is_ipv4());
    if all.iter().any(is_v4) { all.into_iter().filter(is_v4).collect() } else { all }
}
