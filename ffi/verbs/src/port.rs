//! Ports of a device: state, MTU, link layer.

use super::error::Error;
use super::sys::{ibv_mtu, ibv_port_attr, ibv_port_state};
use core::fmt;

/// A port, as it was when it was queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Port {
    /// Number, from 1.
    pub number: u8,
    /// State.
    pub state: PortState,
    /// MTU in use.
    pub active_mtu: Mtu,
    /// Largest MTU of the device.
    pub max_mtu: Mtu,
    /// Link layer.
    pub link_layer: LinkLayer,
    /// Entries of its GID table, most of them empty.
    pub gid_count: u32,
    /// Bytes of the longest message.
    pub message_bytes_max: u32,
}

/// The state of a port, by the header's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortState(pub u32);

/// MTU by the header's number; a larger number is a larger MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mtu(pub u32);

/// Link layer of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE, iWARP.
    Ethernet,
    /// Unspecified, which means InfiniBand on old devices.
    Unknown(u8),
}

impl Port {
    pub(super) fn new(number: u8, attr: &ibv_port_attr) -> Self {
        Self {
            number,
            state: PortState(attr.state.0),
            active_mtu: Mtu(attr.active_mtu.0),
            max_mtu: Mtu(attr.max_mtu.0),
            link_layer: match attr.link_layer {
                1 => LinkLayer::InfiniBand,
                2 => LinkLayer::Ethernet,
                other => LinkLayer::Unknown(other),
            },
            gid_count: u32::try_from(attr.gid_tbl_len).unwrap_or(0),
            message_bytes_max: attr.max_msg_sz,
        }
    }

    /// Checks that the port is active; `device` is the name of its device.
    ///
    /// # Errors
    /// The port is not active: the text has the state and the remedy.
    pub fn check_active(&self, device: &str) -> Result<(), Error> {
        if self.state == PortState::ACTIVE {
            return Ok(());
        }
        let remedy = match self.link_layer {
            LinkLayer::Ethernet => "bring its network interface up: rdma link names it, ip link set NAME up",
            _ => "see whether its cable is in and a subnet manager runs: ibstat",
        };
        Err(Error::PortDown(format!("port {} of {device} is {}; {remedy}", self.number, self.state)))
    }
}

impl PortState {
    /// The port carries data.
    pub const ACTIVE: Self = Self(ibv_port_state::IBV_PORT_ACTIVE.0);
    /// The port has no link.
    pub const DOWN: Self = Self(ibv_port_state::IBV_PORT_DOWN.0);
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 6] = ["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"];
        match NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "in state {}", self.0),
        }
    }
}

impl Mtu {
    /// Returns the bytes of payload in a packet; none for a number that no header names.
    #[must_use]
    pub fn bytes(self) -> Option<u32> {
        (1..=5).contains(&self.0).then(|| 128 << self.0)
    }

    pub(super) fn raw(self) -> ibv_mtu {
        ibv_mtu(self.0)
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes() {
            Some(bytes) => write!(f, "MTU {bytes}"),
            None => write!(f, "MTU number {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(state: PortState, link_layer: u8) -> Port {
        let attr = ibv_port_attr { state: ibv_port_state(state.0), link_layer, ..ibv_port_attr::default() };
        Port::new(1, &attr)
    }

    #[test]
    fn a_port_that_is_down_has_its_state_and_remedy() {
        assert_eq!(port(PortState::ACTIVE, 2).check_active("rxe0"), Ok(()));
        assert_eq!(
            port(PortState::DOWN, 2).check_active("rxe0").unwrap_err().to_string(),
            "port 1 of rxe0 is DOWN; bring its network interface up: rdma link names it, ip link set NAME up"
        );
        assert_eq!(
            port(PortState(2), 1).check_active("mlx5_0").unwrap_err().to_string(),
            "port 1 of mlx5_0 is INIT; see whether its cable is in and a subnet manager runs: ibstat"
        );
        assert_eq!(PortState(17).to_string(), "in state 17");
    }

    #[test]
    fn an_mtu_has_bytes_and_an_order() {
        assert_eq!(Mtu(ibv_mtu::IBV_MTU_256.0).bytes(), Some(256));
        assert_eq!(Mtu(ibv_mtu::IBV_MTU_4096.0).bytes(), Some(4096));
        assert_eq!((Mtu(0).bytes(), Mtu(6).bytes()), (None, None));
        assert_eq!(Mtu(ibv_mtu::IBV_MTU_1024.0).min(Mtu(ibv_mtu::IBV_MTU_4096.0)).to_string(), "MTU 1024");
    }
}
