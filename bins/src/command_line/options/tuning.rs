//! Options of route, protocol, arrival, waiting and checksum, and their conversion to the library's types.

use crate::quantity;
use clap::{Args, ValueEnum};
use serde::Serialize;
use superpipe::WaitStrategy;
use superpipe::{
    AckTimeout, Arrival, CopyKernel, DeviceName, FirstChunk, LandingMode, Protocol, RdmaDevice, Tuning,
};

/// RDMA device and GID.
#[derive(Debug, Clone, Args)]
pub struct RouteOptions {
    /// Use this RDMA device [default: the device of the route to the other end]; `rdma link` lists the devices
    #[arg(long, value_name = "NAME", help_heading = "RDMA")]
    pub device: Option<DeviceName>,

    /// Use the GID with this index in the table of the device's port [default: the GID of the address in use]; `ibv_devinfo -v`
    /// lists the GIDs. iWARP has no GIDs
    #[arg(long, value_name = "N", help_heading = "RDMA")]
    pub gid_index: Option<u32>,

    /// Send again what the other end's device has not acknowledged for this time, rounded up to 4.096 us times a power of two [default:
    /// 67ms]. A longer one bears a network that answers late; a shorter one finds a lost packet or peer earlier. iWARP and
    /// shared memory have none
    #[arg(long, value_name = "TIME", value_parser = ack_timeout, help_heading = "RDMA")]
    pub ack_timeout: Option<AckTimeout>,

    /// Trust the other end: with --protocol register-cached, it keeps the right to write to the buffers that its messages are received
    /// into. Over RDMA that saves their registration for each message, over shared memory it lets both ends copy a message at once (rperf).
    /// A peer with a defect or ill will can then change them at any time
    #[arg(long, help_heading = "Tuning")]
    pub trust_peer: bool,
}

/// Protocol, layout and arrival mode of a connection.
#[derive(Debug, Clone, Args)]
pub struct TuningOptions {
    /// Protocol of transfers [default: auto]. Give this and the next three options at one end, or equally at both ends;
    /// they affect only the speed
    #[arg(long, value_enum, value_name = "NAME", help_heading = "Tuning")]
    pub protocol: Option<ProtocolOption>,

    /// Size of a block, what a short message takes: a multiple of 64, from 128 to 1M; over shared memory 16K of smaller blocks have one
    /// flag together [default: 4K over shared memory, 16K over RDMA]
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes_32, help_heading = "Tuning")]
    pub block_bytes: Option<u32>,

    /// Size of the largest chunk, the unit that is written at once: at most 1G [default: for a pipeline by the length of the message; the
    /// chunks of a superpipeline grow as far as --folds allows]
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes_32, help_heading = "Tuning")]
    pub chunk_bytes: Option<u32>,

    /// Least number of chunks that the landing buffer holds [default: 3]
    #[arg(long, value_name = "N", help_heading = "Tuning")]
    pub folds: Option<u8>,

    /// C0, the bytes of the first chunk, which leave before the other end has answered; a message up to this size needs no answer: at
    /// most 1M [default: 64K]
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes_32, help_heading = "Superpipeline")]
    pub c0: Option<u32>,

    /// How many times as large each chunk is as the one before: 1 to 4 [default: 1.5; over RDMA by --protocol auto a planner chooses]
    #[arg(long, value_name = "Q", value_parser = growth, help_heading = "Superpipeline")]
    pub growth: Option<u32>,

    /// Copy chunks out block by block while they arrive, or, if off, once they are whole [default: on]
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "Superpipeline")]
    pub sub_blocks: Option<Switch>,

    /// Copy the first chunk before the other end has answered. Off: it is copied and sent after the answer, whatever --optimistic says
    /// [default: on]
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "Superpipeline")]
    pub overlap: Option<Switch>,

    /// Send the first chunk without waiting for an answer. Off: it is copied meanwhile, as --overlap says, and sent after the answer
    /// [default: on]
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "Superpipeline")]
    pub optimistic: Option<Switch>,

    /// Wait for the acknowledgement of the last chunk but one before each chunk, and not for free blocks [default: off]
    #[arg(long, value_enum, value_name = "SWITCH", help_heading = "Superpipeline")]
    pub triple_buffer: Option<Switch>,

    /// Arrival mode, by which the receiver detects data: a flag in each block or group of blocks (flag), one that holds a checksum of
    /// what it covers (checked-flag), or the device's notification of each write (notify, RDMA only). auto chooses flag if both devices guarantee
    /// the order of the bytes of a write, as shared memory does; else checked-flag if both ends compute checksums much faster than
    /// they copy; else notify. -v prints the reason. If a device does not guarantee that order, flag must be requested at both ends,
    /// which then rely on it
    #[arg(long, value_enum, value_name = "HOW", default_value_t = ArrivalOption::Auto, help_heading = "Tuning")]
    pub arrival: ArrivalOption,

    /// When landing buffers are provisioned [default: at-connect; with --protocol provision always on-demand]. An idle connection whose
    /// landing is on demand costs one page at each end, and about 16K over RDMA; its landing buffers grow with what is sent, and
    /// shrink again when idle. Give it at one end, or equally at both
    #[arg(long, value_enum, value_name = "WHEN", help_heading = "Tuning")]
    pub landing: Option<LandingOption>,

    /// Size of the small landing buffer with which a connection by --protocol provision begins: 100 to 2000, rounded down to blocks of
    /// 128 bytes, at least 2 [default: 1024]. Give this and --threshold at one end, or equally at both
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes_32, help_heading = "Tuning")]
    pub small_buffer: Option<u32>,

    /// With --protocol provision, provision a larger landing buffer for messages above this size, or with a part above it: at least
    /// 40, at most what the small landing buffer holds [default: what it holds, 904 of 1024 bytes]
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes_32, help_heading = "Tuning")]
    pub threshold: Option<u32>,

    /// How this end copies into the other end's landing buffer over shared memory, in messages of 4 KiB and more [default: chosen while
    /// data flow, by what copies take; -v prints the choice]
    #[arg(long, value_enum, value_name = "KERNEL", help_heading = "Tuning")]
    pub copy_in: Option<KernelOption>,

    /// How this end copies out of its own landing buffer [default: chosen, as --copy-in]
    #[arg(long, value_enum, value_name = "KERNEL", help_heading = "Tuning")]
    pub copy_out: Option<KernelOption>,

    /// Bytes of the other end's landing buffer that this end cycles through over shared memory, in whole blocks: fewer stay in smaller
    /// caches; at least 68K with blocks of 4K. auto: chosen while data flow among all, a quarter, a sixteenth and so on, 128K at least; -v
    /// prints the choice [default: all]
    #[arg(long, value_name = "SIZE|auto", value_parser = window, help_heading = "Tuning")]
    pub window: Option<WindowOption>,
}

/// A switch of the superpipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// with it
    On,
    /// without it
    Off,
}

impl Switch {
    /// Returns true for on.
    #[must_use]
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// Parses `--ack-timeout`.
fn ack_timeout(text: &str) -> Result<AckTimeout, String> {
    let time = quantity::duration(text)?;
    if time <= AckTimeout::MAX.duration() {
        Ok(AckTimeout::at_least(time))
    } else {
        Err("no device waits for longer than 2.4h".to_owned())
    }
}

/// Parses the value of `--growth`, in 1/256.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 4, times 256")]
fn growth(text: &str) -> Result<u32, String> {
    match text.parse::<f64>() {
        Ok(growth) if (1.0..=4.0).contains(&growth) => Ok((growth * 256.0).round() as u32),
        Ok(_) | Err(_) => Err("must be a number from 1 to 4, such as 1.5".to_owned()),
    }
}

/// `--window`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowOption {
    /// It is chosen while data flow.
    Auto,
    /// It has this many bytes.
    Bytes(u32),
}

impl WindowOption {
    /// Converts the option to the library's value.
    #[must_use]
    pub const fn bytes(self) -> Option<u32> {
        match self {
            Self::Auto => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// Parses the value of `--window`.
fn window(text: &str) -> Result<WindowOption, String> {
    if text == "auto" {
        return Ok(WindowOption::Auto);
    }
    quantity::bytes_32(text).map(WindowOption::Bytes)
}

/// `--copy-in`, `--copy-out`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KernelOption {
    /// memcpy, through the caches
    Plain,
    /// the processor's string instruction
    String,
    /// memcpy in pieces whose lines are fetched for writing first
    Fetching,
    /// stores that bypass the caches
    Streaming,
}

impl KernelOption {
    /// Converts the option to the library's type.
    #[must_use]
    pub const fn kernel(self) -> CopyKernel {
        match self {
            Self::Plain => CopyKernel::Plain,
            Self::String => CopyKernel::String,
            Self::Fetching => CopyKernel::Fetching,
            Self::Streaming => CopyKernel::Streaming,
        }
    }
}

/// `--wait`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// poll without pause
    Spin,
    /// spin, then let other threads run between two polls
    Yield,
    /// spin, then yield, then sleep until data arrive
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
    /// no checksum; only the number of bytes is compared
    None,
}

/// `--protocol`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProtocolOption {
    /// over RDMA for each message above 64K the one that a cost model and what messages took expect to be fastest; over shared memory superpipeline, and one copy out of
    /// registered buffers
    Auto,
    /// chunks as soon as there is room, without a rendezvous
    Eager,
    /// rendezvous, then one copy in, one write, one copy out
    Copy,
    /// chunks of one size, each copied out when it has arrived completely
    Pipeline,
    /// growing chunks, copied out block by block while they arrive
    Superpipeline,
    /// a small landing buffer, and a larger one before what is larger is sent
    Provision,
    /// messages above 64K are written straight into memory that is registered for each; RDMA only
    Register,
    /// messages out of buffers that stay registered, which only rperf uses: written straight into memory over RDMA, copied once over shared
    /// memory
    RegisterCached,
}

/// `--arrival`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalOption {
    /// flag, checked-flag or notify, depending on what the devices guarantee
    Auto,
    /// a flag in each block or group of blocks
    Flag,
    /// a flag that holds a checksum of what it covers
    CheckedFlag,
    /// the device's notification of each write
    Notify,
}

/// `--landing`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LandingOption {
    /// while connecting, for as long as the connection lives
    AtConnect,
    /// when more is sent than fits in a page, and released when idle
    OnDemand,
}

impl LandingOption {
    /// Converts the option to the library's type.
    #[must_use]
    pub const fn landing(self) -> LandingMode {
        match self {
            Self::AtConnect => LandingMode::AtConnect,
            Self::OnDemand => LandingMode::OnDemand,
        }
    }
}

impl RouteOptions {
    /// Converts the options to the library's choice of a device.
    #[must_use]
    pub const fn rdma_device(&self) -> RdmaDevice {
        RdmaDevice { name: self.device, gid_index: self.gid_index }
    }

    /// Returns the library's timeout.
    #[must_use]
    pub fn rdma_ack_timeout(&self) -> AckTimeout {
        self.ack_timeout.unwrap_or_default()
    }
}

impl ArrivalOption {
    /// Returns the library's arrival mode; `None` for auto.
    #[must_use]
    pub const fn arrival(self) -> Option<Arrival> {
        match self {
            Self::Auto => None,
            Self::Flag => Some(Arrival::Flag),
            Self::CheckedFlag => Some(Arrival::CheckedFlag),
            Self::Notify => Some(Arrival::Notify),
        }
    }
}

impl TuningOptions {
    /// Returns when the first chunk is sent, by `--overlap` and `--optimistic`. What is not copied before the answer is not sent before it either.
    const fn first_chunk(&self) -> Option<FirstChunk> {
        match (self.overlap, self.optimistic) {
            (Some(Switch::Off), _) => Some(FirstChunk::AfterCts),
            (_, Some(Switch::Off)) => Some(FirstChunk::DuringRendezvous),
            (_, Some(Switch::On)) => Some(FirstChunk::WithRts),
            (Some(Switch::On) | None, None) => None,
        }
    }

    /// Converts the options to the library's type.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        Tuning {
            protocol: self.protocol.map(ProtocolOption::protocol),
            block_bytes: self.block_bytes,
            chunk_bytes: self.chunk_bytes,
            folds: self.folds,
            c0_bytes: self.c0,
            growth_q8: self.growth,
            first_chunk: self.first_chunk(),
            sub_blocks: self.sub_blocks.map(Switch::is_on),
            triple_buffer: self.triple_buffer.map(Switch::is_on),
            arrival: self.arrival.arrival(),
            landing: self.landing.map(LandingOption::landing),
            small_buffer_bytes: self.small_buffer,
            threshold_bytes: self.threshold,
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

impl ProtocolOption {
    fn protocol(self) -> Protocol {
        match self {
            Self::Auto => Protocol::Auto,
            Self::Eager => Protocol::Eager,
            Self::Copy => Protocol::Copy,
            Self::Pipeline => Protocol::Pipeline,
            Self::Superpipeline => Protocol::Superpipeline,
            Self::Provision => Protocol::Provision,
            Self::Register => Protocol::Register,
            Self::RegisterCached => Protocol::RegisterCached,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        tuning: TuningOptions,
    }

    fn tuning(options: &str) -> Tuning {
        Options::parse_from(["tool"].into_iter().chain(options.split_whitespace())).tuning.tuning()
    }

    fn refusal(options: &str) -> String {
        let parsed = Options::try_parse_from(["tool"].into_iter().chain(options.split_whitespace()));
        parsed.err().unwrap().to_string()
    }

    #[test]
    fn options_of_the_superpipeline_become_proposals() {
        let none = tuning("");
        let values = (none.c0_bytes, none.growth_q8, none.first_chunk, none.sub_blocks, none.triple_buffer);
        assert_eq!(values, (None, None, None, None, None));
        let all = tuning("--c0 12K --growth 1.5 --sub-blocks off --overlap off --triple-buffer on");
        assert_eq!((all.c0_bytes, all.growth_q8), (Some(12 << 10), Some(384)));
        assert_eq!((all.sub_blocks, all.triple_buffer), (Some(false), Some(true)));
        assert_eq!(all.first_chunk, Some(FirstChunk::AfterCts));
    }

    #[test]
    fn overlap_and_optimistic_say_when_the_first_chunk_is_sent() {
        for (options, first_chunk) in [
            ("--overlap on", None),
            ("--overlap off", Some(FirstChunk::AfterCts)),
            ("--overlap off --optimistic on", Some(FirstChunk::AfterCts)),
            ("--overlap off --optimistic off", Some(FirstChunk::AfterCts)),
            ("--optimistic off", Some(FirstChunk::DuringRendezvous)),
            ("--optimistic off --overlap on", Some(FirstChunk::DuringRendezvous)),
            ("--optimistic on", Some(FirstChunk::WithRts)),
            ("--optimistic on --overlap on", Some(FirstChunk::WithRts)),
        ] {
            assert_eq!(tuning(options).first_chunk, first_chunk, "{options}");
        }
    }

    #[test]
    fn growth_is_a_number_from_1_to_4() {
        for (text, growth_q8) in [("1", 256), ("1.5", 384), ("1.001", 256), ("1.002", 257), ("4", 1024)] {
            assert_eq!(growth(text), Ok(growth_q8), "{text}");
        }
        for text in ["0.999", "4.001", "-2", "NaN", "inf", "", "two", "1,5"] {
            assert_eq!(growth(text), Err("must be a number from 1 to 4, such as 1.5".to_owned()), "{text}");
        }
        assert!(refusal("--growth 5").contains("--growth <Q>': must be a number from 1 to 4, such as 1.5"));
        assert!(refusal("--sub-blocks maybe").contains("[possible values: on, off]"));
    }
}
