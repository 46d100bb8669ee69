//! Options of route, protocol, arrival, waiting and checksum, and their conversion to the library's types.

use crate::quantity;
use clap::{Args, ValueEnum};
use serde::Serialize;
use superpipe::WaitStrategy;
use superpipe::{Arrival, DeviceName, Protocol, RdmaDevice, Tuning};

/// RDMA device and GID.
#[derive(Debug, Clone, Args)]
pub struct Routed {
    /// Use this RDMA device [default: the one that has the way to the other end]; `rdma link` lists them
    #[arg(long, value_name = "NAME", help_heading = "RDMA")]
    pub device: Option<DeviceName>,

    /// Use the GID of this index in the table of the device's port [default: that of the address in use]; `ibv_devinfo -v`
    /// lists them. iWARP has none
    #[arg(long, value_name = "N", help_heading = "RDMA")]
    pub gid_index: Option<u32>,
}

/// Protocol and arrival of a connection, as the command line has them.
#[derive(Debug, Clone, Args)]
pub struct Tuned {
    /// Protocol of transfers [default: superpipeline]. This and the next three are given at one end, or equal at both, and
    /// change speed and nothing else
    #[arg(long, value_enum, value_name = "NAME", help_heading = "Tuning")]
    pub protocol: Option<Crossing>,

    /// Bytes of a block, the unit that is flagged: a multiple of 64, 128 to 1M [default: 16K]
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes_32, help_heading = "Tuning")]
    pub block_bytes: Option<u32>,

    /// Bytes of the largest chunk, the unit that is written and acknowledged: at most 1G [default: 64K of a pipeline; a
    /// superpipeline's grow as far as --folds allows]
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes_32, help_heading = "Tuning")]
    pub chunk_bytes: Option<u32>,

    /// Chunks that the landing buffer holds at least [default: 3]
    #[arg(long, value_name = "N", help_heading = "Tuning")]
    pub folds: Option<u8>,

    /// Detection of what has arrived: by a flag in each block (flag), by one that holds a checksum of the block
    /// (checked-flag), or by the device's notification of each write (notify, RDMA only). auto takes flag where both devices
    /// promise order inside a write, as shared memory does, else checked-flag where both ends compute checksums much faster
    /// than they copy, else notify; -v says why. Without that promise flag must be asked for at both ends, whose word it is then
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Seen::Auto, help_heading = "Tuning")]
    pub arrival: Seen,
}

/// `--wait`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// never give the core away
    Spin,
    /// spin, then let others have the core between looks
    Yield,
    /// spin, then yield, then sleep until woken
    Sleep,
}

/// `--checksum`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Checksum {
    /// CRC-64/NVME
    Crc64,
    /// CRC-32C
    Crc32c,
    /// count the bytes only
    None,
}

/// `--protocol`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Crossing {
    /// chunks as soon as there is room, without rendezvous
    Eager,
    /// rendezvous, then one copy, one write, one copy
    Copy,
    /// chunks of one size, each copied out once it is whole
    Pipeline,
    /// growing chunks, copied out block by block as they arrive
    Superpipeline,
}

/// `--arrival`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// what the devices promise, at least cost
    Auto,
    /// a flag in each block
    Flag,
    /// a flag that holds a checksum of the block
    CheckedFlag,
    /// the device's notification of each write
    Notify,
}

impl Routed {
    /// Converts the options to the library's choice of a device.
    #[must_use]
    pub const fn rdma_device(&self) -> RdmaDevice {
        RdmaDevice { name: self.device, gid_index: self.gid_index }
    }
}

impl Seen {
    /// Returns the library's arrival mode; `None` for auto.
    #[must_use]
    pub const fn wish(self) -> Option<Arrival> {
        match self {
            Self::Auto => None,
            Self::Flag => Some(Arrival::Flag),
            Self::CheckedFlag => Some(Arrival::CheckedFlag),
            Self::Notify => Some(Arrival::Notify),
        }
    }
}

impl Tuned {
    /// Converts the options to the library's tuning.
    #[must_use]
    pub fn wishes(&self) -> Tuning {
        Tuning {
            protocol: self.protocol.map(Crossing::library),
            block_bytes: self.block_bytes,
            chunk_bytes: self.chunk_bytes,
            folds: self.folds,
            arrival: self.arrival.wish(),
            ..Tuning::default()
        }
    }
}

impl Wait {
    /// Returns the library's wait strategy.
    #[must_use]
    pub const fn strategy(self) -> WaitStrategy {
        match self {
            Self::Spin => WaitStrategy::Spin,
            Self::Yield => WaitStrategy::Yield,
            Self::Sleep => WaitStrategy::Sleep,
        }
    }
}

impl Crossing {
    fn library(self) -> Protocol {
        match self {
            Self::Eager => Protocol::Eager,
            Self::Copy => Protocol::Copy,
            Self::Pipeline => Protocol::Pipeline,
            Self::Superpipeline => Protocol::Superpipeline,
        }
    }
}
