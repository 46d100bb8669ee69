//! What can go wrong with RDMA, each with one line that a person acts on.

use super::cm_event_kind::{CmEventKind, CmFailure};
use super::library::LoadError;
use super::remedy::MAKE_A_DEVICE;
use crate::os::OsError;
use core::{error, fmt};

/// Why something of RDMA failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A library is missing or too old.
    Library(LoadError),
    /// There is no RDMA device.
    NoDevice,
    /// There is none of this name.
    NoSuchDevice {
        /// the one that was asked for
        name: String,
        /// those that are there
        present: Vec<String>,
    },
    /// A port that carries nothing.
    PortDown(String),
    /// A GID index that names no usable GID, told with those that there are.
    BadGid(String),
    /// A verb failed: its name, what it was to do, the system's words, the remedy.
    Verb(OsError),
    /// The same, where a limit of this process or machine was met.
    Limit(OsError),
    /// No connection came about, or it ended.
    Connection(CmFailure),
    /// Another event came than the one that was due.
    Unexpected {
        /// what was due
        due: CmEventKind,
        /// what came
        came: CmEventKind,
    },
    /// Two objects of different devices, or an object of another kind than is needed.
    Mismatch(&'static str),
    /// More private data than fits.
    PrivateData {
        /// bytes that were given
        bytes: usize,
        /// bytes that fit
        max: usize,
    },
    /// The deadline passed.
    TimedOut,
    /// A signal arrived, or might have: look at your flags, then call again with the same deadline.
    Interrupted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(error) => error.fmt(f),
            Self::NoDevice => write!(f, "this host has no RDMA device; {MAKE_A_DEVICE}"),
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

impl From<OsError> for Error {
    fn from(error: OsError) -> Self {
        Self::Verb(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_a_device_is_told_how_to_make_one() {
        assert_eq!(
            Error::NoDevice.to_string(),
            "this host has no RDMA device; Linux makes one of an Ethernet card; as root: modprobe rdma_rxe; rdma link \
             add rxe0 type rxe netdev eth0"
        );
    }

    #[test]
    fn a_wrong_name_is_told_with_the_right_ones() {
        let error =
            Error::NoSuchDevice { name: "mlx5_0".into(), present: vec!["rxe0".into(), "siw0".into()] };
        assert_eq!(error.to_string(), "there is no RDMA device \"mlx5_0\"; there is rxe0, siw0");
    }
}
