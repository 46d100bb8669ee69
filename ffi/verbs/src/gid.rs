//! GIDs: the addresses of a port. On Ethernet each is made of an address of the interface.

use super::sys::{ibv_gid, ibv_gid_type};
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// An address of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gid(pub [u8; 16]);

/// An entry of the GID table of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GidEntry {
    /// Index in the table.
    pub index: u32,
    /// Address.
    pub gid: Gid,
    /// Protocol that carries it.
    pub kind: GidKind,
}

/// Protocol that carries packets of a GID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GidKind {
    /// InfiniBand, or RoCE version 1, which no router forwards: the library gives them one number on some ports.
    InfiniBand,
    /// RoCE version 1.
    RoceV1,
    /// RoCE version 2, over UDP.
    RoceV2,
    /// Unknown: libraries before rdma-core 31 do not report it.
    Unknown,
}

impl Gid {
    pub(super) fn new(raw: ibv_gid) -> Self {
        // SAFETY: both members of the union are 16 bytes, for which every value is one.
        Self(unsafe { raw.raw })
    }

    /// Returns true if the entry is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == [0; 16]
    }

    /// Returns the address of the interface that it was made of, on Ethernet.
    #[must_use]
    pub fn ip(self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(self.0)).to_canonical()
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip().fmt(f)
    }
}

impl GidKind {
    pub(super) fn of(number: u32) -> Self {
        match ibv_gid_type(number) {
            ibv_gid_type::IBV_GID_TYPE_IB => Self::InfiniBand,
            ibv_gid_type::IBV_GID_TYPE_ROCE_V1 => Self::RoceV1,
            ibv_gid_type::IBV_GID_TYPE_ROCE_V2 => Self::RoceV2,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfiniBand => "InfiniBand",
            Self::RoceV1 => "RoCE v1",
            Self::RoceV2 => "RoCE v2",
            Self::Unknown => "unknown kind",
        })
    }
}

impl fmt::Display for GidEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.index, self.gid, self.kind)
    }
}

/// Text about an `index` that has no GID.
pub(super) fn not_usable(index: u32, port: u8, device: &str, present: &[GidEntry]) -> String {
    let present: Vec<_> = present.iter().map(ToString::to_string).collect();
    let choice = match present.len() {
        0 => "it has none: give its network interface an address".to_owned(),
        _ => format!("choose of {}", present.join(", ")),
    };
    format!("port {port} of {device} has no GID at index {index}; {choice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: Gid = Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 77, 1, 1]);
    const LINK_LOCAL: Gid = Gid([0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    #[test]
    fn a_gid_reads_as_its_address() {
        assert_eq!(V4.to_string(), "10.77.1.1");
        assert_eq!(LINK_LOCAL.to_string(), "fe80::1");
        assert!(Gid([0; 16]).is_empty() && !V4.is_empty());
    }

    #[test]
    fn an_unknown_index_is_reported_with_the_known_ones() {
        let entry = |index, gid| GidEntry { index, gid, kind: GidKind::of(2) };
        let present = [entry(0, LINK_LOCAL), entry(1, V4)];
        assert_eq!(
            not_usable(7, 1, "rxe0", &present),
            "port 1 of rxe0 has no GID at index 7; choose of 0: fe80::1 (RoCE v2), 1: 10.77.1.1 (RoCE v2)"
        );
        assert_eq!(
            not_usable(0, 1, "rxe0", &[]),
            "port 1 of rxe0 has no GID at index 0; it has none: give its network interface an address"
        );
    }
}
