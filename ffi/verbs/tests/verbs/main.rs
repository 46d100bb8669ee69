//! The verbs layer over whatever devices there are, by its public items alone.
//!
//! SUPERPIPE_RDMA names addresses of this host that have an RDMA device, separated by spaces. Where it is not set, what
//! needs a device is left out. The first and the last are of two devices.

mod counting;
mod end;
mod failures;
mod transfers;

use core::net::IpAddr;
use std::env;
use superpipe_verbs::{DeviceList, Error};

/// The addresses to test at.
fn addresses() -> Vec<IpAddr> {
    let named = env::var("SUPERPIPE_RDMA").unwrap_or_default();
    if named.is_empty() {
        eprintln!("NOT CHECKED: SUPERPIPE_RDMA names no address of an RDMA device");
    }
    named.split_whitespace().map(|address| address.parse().expect("SUPERPIPE_RDMA holds addresses")).collect()
}

#[test]
fn a_missing_device_is_reported_with_its_remedy() {
    let error = match DeviceList::get() {
        Ok(list) => list.find("superpipe-none").err().expect("nobody names a device so"),
        Err(error) => error,
    };
    let text = error.to_string();
    match error {
        Error::Library(_) => assert!(text.contains("install libibverbs1"), "{text}"),
        Error::NoDevice => assert!(text.contains("rdma link add rxe0 type rxe netdev eth0"), "{text}"),
        Error::NoSuchDevice { present, .. } => assert!(text.contains(&present[0]), "{text}"),
        error => panic!("{error}"),
    }
}
