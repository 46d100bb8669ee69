//! Errors of RDMA, each in one line with its remedy.

use super::cm_event_kind::{CmEventKind, CmFailure};
use super::library::LoadError;
use super::remedy::SOFTWARE_DEVICE;
use crate::verb_error::VerbError;
use core::{error, fmt};

/// Error of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A library is missing or too old.
    Library(LoadError),
    /// This host has no RDMA device.
    NoDevice,
    /// No device has this name.
    NoSuchDevice {
        /// Name that was given.
        name: String,
        /// Names of the devices of this host.
        present: Vec<String>,
    },
    /// A port is not active.
    PortDown(String),
    /// A GID index names no usable GID; the text lists those that are.
    BadGid(String),
    /// A verb failed.
    Verb(VerbError),
    /// A verb failed because of a limit of this process or machine.
    Limit(VerbError),
    /// A connection was not established, or ended.
    Connection(CmFailure),
    /// An event of another kind came than was due.
    Unexpected {
        /// Kind that was due.
        due: CmEventKind,
        /// Kind that came.
        came: CmEventKind,
    },
    /// Two objects are of different devices, or an object lacks an operation.
    Mismatch(&'static str),
    /// The private data is too long.
    PrivateData {
        /// Bytes that were given.
        bytes: usize,
        /// Bytes that fit.
        max: usize,
    },
    /// The deadline passed.
    TimedOut,
    /// A signal arrived, or may have: check your flags, then call again with the same deadline.
    Interrupted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(error) => error.fmt(f),
            Self::NoDevice => write!(f, "this host has no RDMA device; {SOFTWARE_DEVICE}"),
            Self::NoSuchDevice { name, present } => {
                write!(f, "there is no RDMA device {name:?}; there is {}", present.join(", "))
            }
            Self::PortDown(text) | Self::BadGid(text) => f.write_str(text),
            Self::Verb(error) | Self::Limit(error) => error.fmt(f),
            Self::Connection(failure) => failure.fmt(f),
            Self::Unexpected { due, came } => write!(f, "{came} came while {due} was due"),
            Self::Mismatch(what) => f.write_str(what),
            Self::PrivateData { bytes, max } => {
                write!(f, "{bytes} bytes of private data are more than the {max} that fit")
            }
            Self::TimedOut => f.write_str("the deadline passed"),
            Self::Interrupted => f.write_str("interrupted by a signal"),
        }
    }
}

impl error::Error for Error {}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        Self::Library(error)
    }
}

impl From<VerbError> for Error {
    fn from(error: VerbError) -> Self {
        Self::Verb(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_device_the_error_says_how_to_make_one() {
        assert_eq!(
            Error::NoDevice.to_string(),
            "this host has no RDMA device; Linux makes one of an Ethernet card; as root: modprobe rdma_rxe; rdma link \
             add rxe0 type rxe netdev eth0"
        );
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_known_ones() {
        let error =
            Error::NoSuchDevice { name: "mlx5_0".into(), present: vec!["rxe0".into(), "siw0".into()] };
        assert_eq!(error.to_string(), "there is no RDMA device \"mlx5_0\"; there is rxe0, siw0");
    }
}
