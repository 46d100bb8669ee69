//! The device of a connection: the one that routes to the peer, unless the user names another.
//!
//! rdma_cm finds a device by the address to connect from or to listen at. So a device is chosen by one of its addresses, and a GID by
//! the address that it was made of.

use super::error::ConnectError;
use crate::os::interface_addresses;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;
use core::time::Duration;
use std::time::Instant;
use superpipe_verbs::{CmEventKind, CmId, Context, Error, EventChannel, Transport};

/// RDMA device and GID that a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RdmaDevice {
    /// Device; by default the one that routes to the peer.
    pub name: Option<DeviceName>,
    /// Index of the GID in the table of the device's port; by default that of the address that routes to the peer.
    pub gid_index: Option<u32>,
}

/// Bytes of a name, with its NUL at most (IBV_SYSFS_NAME_MAX).
const NAME_BYTES_MAX: usize = 64;

/// Name of a device: `mlx5_0`, `rxe0`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DeviceName {
    bytes: [u8; NAME_BYTES_MAX],
    len: u8,
}

/// Error of a text that is no device name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceNameParseError(String);

impl DeviceName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl FromStr for DeviceName {
    type Err = DeviceNameParseError;

    fn from_str(text: &str) -> Result<Self, DeviceNameParseError> {
        let good = |c: u8| c.is_ascii_alphanumeric() || b"_-.".contains(&c);
        if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(good) {
            return Err(DeviceNameParseError(format!(
                "{text:?} is no RDMA device's name; rdma link lists them"
            )));
        }
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Self { bytes, len: u8::try_from(text.len()).unwrap_or(0) })
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for DeviceNameParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for DeviceNameParseError {}

impl RdmaDevice {
    /// Returns the address to connect from, towards `to`. None leaves it to rdma_cm.
    ///
    /// # Errors
    /// The device or the GID is not there, or has no address of that kind.
    pub(super) fn source(&self, to: IpAddr) -> Result<Option<SocketAddr>, ConnectError> {
        match (self.name, self.gid_index) {
            (None, None) => Ok(None),
            (Some(name), None) => Ok(Some(address_of(name, to)?)),
            (name, Some(index)) => {
                let device = match name {
                    Some(name) => name,
                    None => device_towards(to)?,
                };
                let context = Context::open(device.as_str())?;
                Ok(Some(SocketAddr::new(gid_ip(&context, index)?, 0)))
            }
        }
    }

    /// Refuses a connection that came over another device.
    pub(super) fn check(&self, found: &str) -> Result<(), ConnectError> {
        match self.name {
            Some(name) if name.as_str() != found => Err(ConnectError::NotFound(format!(
                "the route to the peer is over {found}, not over {name}; leave the device out, or give {name}'s network \
                 interface an address of its own"
            ))),
            _ => Ok(()),
        }
    }
}

/// Finds an address of this device, of the family and scope of `like`.
fn address_of(name: DeviceName, like: IpAddr) -> Result<SocketAddr, ConnectError> {
    // The name first: the error of an unknown one lists those that exist.
    drop(Context::open(name.as_str())?);
    let channel = EventChannel::create()?;
    let all = interface_addresses().map_err(ConnectError::Os)?;
    first_of(name, like, &all, |address| device_at(&channel, address))
}

/// Returns the first address of the device, of the family and scope of `like`.
fn first_of(
    name: DeviceName,
    like: IpAddr,
    all: &[SocketAddr],
    device_at: impl Fn(SocketAddr) -> Option<DeviceName>,
) -> Result<SocketAddr, ConnectError> {
    let mut alike = all.iter().filter(|address| reaches(address.ip(), like));
    let found = alike.find(|address| device_at(**address) == Some(name));
    found.copied().ok_or_else(|| {
        let kind = if like.is_ipv4() { "IPv4" } else { "IPv6" };
        ConnectError::NotFound(format!(
            "device {name} has no {kind} address to reach {like} from; give its network interface one"
        ))
    })
}

/// Finds the device that has this address, by binding to it.
fn device_at(channel: &EventChannel, address: SocketAddr) -> Option<DeviceName> {
    let mut id = CmId::create(channel).ok()?;
    id.bind(address).ok()?;
    id.context()?.name().parse().ok()
}

/// Finds the device that rdma_cm would use.
fn device_towards(to: IpAddr) -> Result<DeviceName, ConnectError> {
    /// rdma_cm resolves a neighbour, which takes milliseconds unless packets are lost.
    const TIMEOUT_MS: u32 = 2000;
    let channel = EventChannel::create()?;
    let mut id = CmId::create(&channel)?;
    id.resolve_addr(None, SocketAddr::new(to, 1), TIMEOUT_MS)?;
    let deadline = Instant::now() + 2 * Duration::from_millis(TIMEOUT_MS.into());
    loop {
        match channel.expect(CmEventKind::ADDR_RESOLVED, deadline) {
            Err(Error::Interrupted) => {}
            event => break drop(event?),
        };
    }
    let name = id.context().map_or_else(String::new, |context| context.name());
    name.parse().map_err(|error: DeviceNameParseError| ConnectError::NotFound(error.to_string()))
}

/// Returns the address that a GID of the first active port was made of.
fn gid_ip(context: &Context, index: u32) -> Result<IpAddr, ConnectError> {
    let name = context.name();
    if context.transport() == Transport::Iwarp {
        let text = format!("{name} speaks iWARP, which has no GIDs to choose from: leave the GID index out");
        return Err(Error::BadGid(text).into());
    }
    let ports = context.limits()?.ports;
    let active = |number: &u8| context.port(*number).is_ok_and(|port| port.check_active(&name).is_ok());
    let port = (1..=ports).find(active).unwrap_or(1);
    Ok(context.gid(port, index)?.gid.ip())
}

/// Returns true if `from` is of the family and scope of `to`.
fn reaches(from: IpAddr, to: IpAddr) -> bool {
    from.is_ipv4() == to.is_ipv4() && is_link_local(from) == is_link_local(to)
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_kept() {
        let name: DeviceName = "mlx5_0".parse().unwrap();
        assert_eq!(name.to_string(), "mlx5_0");
        let longest = "x".repeat(64);
        assert_eq!(longest.parse::<DeviceName>().map(|name| name.to_string()), Ok(longest));
        for text in ["", "a/b", "rxe 0", &"x".repeat(65)] {
            let error = text.parse::<DeviceName>().unwrap_err().to_string();
            assert!(error.ends_with("is no RDMA device's name; rdma link lists them"), "{error}");
        }
    }

    #[test]
    fn any_device_is_accepted_if_none_is_named() {
        assert_eq!(RdmaDevice::default().source("10.0.0.1".parse().unwrap()), Ok(None));
        assert_eq!(RdmaDevice::default().check("rxe0"), Ok(()));
        let wish = RdmaDevice { name: Some("rxe1".parse().unwrap()), gid_index: None };
        let error = wish.check("rxe0").unwrap_err().to_string();
        assert!(error.starts_with("the route to the peer is over rxe0, not over rxe1"), "{error}");
    }

    #[test]
    fn a_device_is_found_by_its_first_address_of_that_kind() {
        let all = ["10.0.0.1", "fd00::1", "10.0.0.2", "fd00::2", "10.0.0.3"];
        let all = all.map(|ip| SocketAddr::new(ip.parse().unwrap(), 0));
        let names = ["rxe0", "rxe1"].map(|name| name.parse::<DeviceName>().unwrap());
        let device_at = |address: SocketAddr| match all.iter().position(|it| *it == address) {
            Some(0) => Some(names[0]),
            Some(1) => None,
            _ => Some(names[1]),
        };
        let found = |name, like: &str| first_of(name, like.parse().unwrap(), &all, device_at);
        assert_eq!(found(names[0], "10.0.0.9"), Ok(all[0]));
        assert_eq!(found(names[1], "10.0.0.9"), Ok(all[2]));
        assert_eq!(found(names[1], "fd00::9"), Ok(all[3]));
        assert_eq!(
            found(names[0], "fd00::9").unwrap_err().to_string(),
            "device rxe0 has no IPv6 address to reach fd00::9 from; give its network interface one"
        );
        let text = found("rxe2".parse().unwrap(), "10.0.0.9").unwrap_err().to_string();
        assert!(text.starts_with("device rxe2 has no IPv4 address"), "{text}");
    }

    #[test]
    fn only_an_address_of_the_same_kind_reaches() {
        let kinds = ["10.0.0.1", "fd00::1", "fe80::1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        for from in kinds {
            for to in kinds {
                assert_eq!(reaches(from, to), from == to, "{from} {to}");
            }
        }
        let [v4, global, _] = kinds;
        assert!(
            reaches("169.254.0.1".parse().unwrap(), v4) && reaches("2001:db8::1".parse().unwrap(), global)
        );
    }
}
