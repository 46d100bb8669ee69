//! Command-line options. Their doc comments are the text of `--help`, the man pages and the completions.

mod memory;
mod tuning;

pub use memory::{MemoryOptions, with_memory_flags};
pub use tuning::{
    ArrivalOption, Checksum, KernelOption, LandingOption, ProtocolOption, RouteOptions, Switch,
    TuningOptions, Wait,
};

use crate::command_line::help::after_help;
use crate::files::descriptor::{is_dash, own_descriptor};
use crate::files::distinct::NamedFile;
use crate::files::name;
use crate::files::output::IfExists;
use crate::quantity;
use clap::builder::{OsStringValueParser, PathBufValueParser, TypedValueParser};
use clap::{Args, Parser, ValueEnum};
use core::num::NonZeroU64;
use core::time::Duration;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use superpipe::io::DigestKind;
use superpipe::{Address, AddressParseError};

/// Default address of `rrecv --listen`. The port is superpipe's own.
pub const DEFAULT_ADDRESS: &str = "localhost:7471";

/// Send a file or standard input to rrecv, and wait for its confirmation
///
/// rsend exits with 0 only if the receiver confirms that every byte arrived, that both ends computed the same checksum (unless
/// they use none), and that a file, if it writes one, is on disk under its name. rsend reads the data, block by block, directly
/// into memory that both processes share or that the NIC writes from.
#[derive(Debug, Clone, Parser)]
#[command(name = "rsend", version, override_usage = "rsend [OPTIONS] ADDR [FILE]", disable_help_subcommand = true, after_help = after_help("\
Examples:
  rsend localhost disk.img             to `rrecv copy.img` on this host
  tar c photos | rsend localhost       the output of another program
  rsend node2 disk.img                 by RDMA, to `rrecv --listen :7471 copy.img`
                                       on node2
  rsend --core 2 --wait spin shm:/run/x.sock disk.img
                                       pinned, for the lowest latency
  rsend --json=log localhost disk.img  with a report for programs"))]
pub struct Send {
    /// Address of the receiver: HOST:PORT, verbs:HOST:PORT or shm:PATH
    #[arg(
        value_name = "ADDR",
        required_unless_present = "generate",
        value_parser = OsStringValueParser::new().try_map(address)
    )]
    pub address: Option<Address>,

    /// File to send; standard input if FILE is - or absent
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Retry for this time until a receiver accepts, then fail with the last error
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    pub connect_timeout: Duration,

    /// Send the name, mode and modification time of FILE, for an rrecv with --preserve
    #[arg(long)]
    pub preserve: bool,

    /// Name for an rrecv with --keep, which stores the data in a file of that name [default: the name of FILE, without its directory]
    #[arg(long, value_name = "NAME", value_parser = OsStringValueParser::new().try_map(name::parse))]
    pub name: Option<OsString>,

    /// Send at most this many bytes per second
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate_limit: Option<NonZeroU64>,

    /// Flip one bit of the byte at this offset in transit, to test that both ends detect it
    #[arg(long, value_name = "OFFSET", hide = true, value_parser = quantity::bytes)]
    pub inject_flip: Option<u64>,

    /// Options of rsend and rrecv.
    #[command(flatten)]
    pub transfer: TransferOptions,
}

/// Receive from one rsend, into a file or to standard output, or from many into a directory
///
/// FILE gets its name only when it is complete, matches the sender's checksum, and is on disk. Until then, and after any failure, an
/// existing FILE stays unchanged. The new file takes over its owner, group, mode, access list and user attributes as far as that is
/// permitted; otherwise the new file is less accessible, never more. Long runs of zeros become holes. Standard output gets the data as
/// they arrive; only the exit code shows that they are complete. A FILE that is a pipe or device is opened and written directly (rrecv
/// listens once a process reads the pipe), and a descriptor (/dev/stdout, /dev/fd/N) is written at its current offset.
///
/// With --keep DIR, rrecv serves many senders, at once and one after another, until a signal, --count or --accept-timeout ends it. Each sends one
/// file, which gets its name in DIR likewise. A sender that fails harms no other one.
#[derive(Debug, Clone, Parser)]
#[command(name = "rrecv", version, override_usage = "rrecv [OPTIONS] [FILE]", disable_help_subcommand = true, after_help = after_help("\
Examples:
  rrecv copy.img                       from `rsend localhost disk.img`
  rrecv | tar x                        unpack while the data arrive
  rrecv --listen :7471 copy.img        from other hosts as well, by RDMA
  rrecv --core 3 --wait spin --listen shm:/run/x.sock copy.img
                                       pinned, for the lowest latency
  rrecv --accept-timeout 1m copy.img   give up if nobody connects
  rrecv --keep inbox                   the files of many senders, by their names,
                                       from `rsend localhost disk.img`"))]
pub struct Receive {
    /// File or pipe to write; standard output if FILE is - or absent. If that is a terminal, - is required
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Fail if FILE exists, or appears meanwhile, instead of replacing it. A pipe of your own, and a device other than a disk, are
    /// written nevertheless
    #[arg(long, conflicts_with = "append")]
    pub no_clobber: bool,

    /// Serve many senders, and store what each sends in this directory, by the name that it sends (rsend --name). A name that is taken is refused,
    /// and so is one that contains / or control characters, or is . or ..
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "no_clobber", "append", "trace"])]
    pub keep: Option<PathBuf>,

    /// With --keep: replace a file whose name is taken, once the new one is complete
    #[arg(long, requires = "keep")]
    pub overwrite: bool,

    /// With --keep: end once this many transfers are complete, and those that are under way then have ended
    #[arg(long, value_name = "N", requires = "keep", value_parser = |text: &str| quantity::count(text, 1..=u64::MAX))]
    pub count: Option<u64>,

    /// With --keep: serve at most this many senders at once; further ones wait [default: 128]. Each takes about 1M of memory and some five
    /// descriptors (ulimit -n). While all places are taken, a sender that has sent nothing for --idle-timeout loses its place
    #[arg(long, value_name = "N", requires = "keep", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub connections_max: Option<u32>,

    /// Append to FILE while the data arrive. As with >> FILE, appended data stay even if the transfer fails. The data go to the
    /// file that has this name when the transfer begins; rrecv fails if another file has the name at the end
    #[arg(long)]
    pub append: bool,

    /// Set the mode and modification time that an rsend with --preserve sends. If FILE is a directory, write a file in it, with the
    /// name that rsend sends
    #[arg(long, conflicts_with = "append")]
    pub preserve: bool,

    /// Accept a file whose announced length exceeds the free space, because most of it is zeros, which are stored as holes.
    /// Without this option rrecv then exits with 8 before it receives data
    #[arg(long)]
    pub sparse: bool,

    /// Address and timeout of the listener.
    #[command(flatten)]
    pub listening: Listening,

    /// Options of rsend and rrecv.
    #[command(flatten)]
    pub transfer: TransferOptions,
}

impl Receive {
    /// Returns the policy for a FILE that is there already.
    #[must_use]
    pub const fn if_exists(&self) -> IfExists {
        match (self.no_clobber, self.append) {
            (true, _) => IfExists::Fail,
            (_, true) => IfExists::Append,
            _ => IfExists::Replace,
        }
    }
}

/// Options of a tool that listens.
#[derive(Debug, Clone, Args)]
pub struct Listening {
    /// Address to listen at: HOST:PORT, verbs:HOST:PORT or shm:PATH
    #[arg(
        long,
        value_name = "ADDR",
        default_value = DEFAULT_ADDRESS,
        value_parser = OsStringValueParser::new().try_map(address)
    )]
    pub listen: Address,

    /// Fail if no peer connects within this time. With rrecv --keep it is the time without any sender after which rrecv ends
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = quantity::duration)]
    pub accept_timeout: Duration,
}

/// Options of rsend and rrecv.
#[derive(Debug, Clone, Args)]
pub struct TransferOptions {
    /// Wait strategy: spin has the lowest latency and occupies a core, yield lets other threads run on the core, sleep uses no CPU
    /// while idle and adds up to 0.1 ms of latency
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Wait::Sleep)]
    pub wait: Wait,

    /// Checksum of the whole stream, which both ends compute and compare: the stronger of those that the two ends request, and
    /// crc64 if neither requests one. none at one end disables it, unless the other end requests one
    #[arg(long, value_enum, value_name = "KIND")]
    pub checksum: Option<Checksum>,

    /// Write events to a file, one JSON object per line: start, listening (for port 0), interval (every second), transfer (with rrecv --keep)
    /// and end.
    /// --json=- writes them to standard error, which then carries nothing else
    #[arg(long, value_name = "FILE", require_equals = true, help_heading = "Reports")]
    pub json: Option<PathBuf>,

    /// Options of all tools.
    #[command(flatten)]
    pub common: Common,
}

/// Options of all tools.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Pin the process to this core. auto chooses a core near the RDMA device in use, if the system reports which cores those are,
    /// otherwise any allowed core. Over shared memory it chooses one that shares a cache with the core of the other end, if that has one. -v
    /// prints the choice, and with two pinned ends what their distance costs
    #[arg(long, value_name = "N|auto", value_parser = core)]
    pub core: Option<Core>,

    /// Longest silence of the peer. A peer that waits for its own pipe or disk is not silent: it sends keepalives. Over shared
    /// memory a tool detects the end of the peer's process within 5 s, even if this time is longer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    pub idle_timeout: Duration,

    /// Accept only a peer of this user [default: your own, also if you are root]. Requires shm:PATH at both ends: the listening
    /// end creates PATH with mode 0600, and you then give the other user access (chmod, setfacl). Not for RDMA
    #[arg(long, value_name = "UID")]
    pub peer_uid: Option<u32>,

    /// RDMA device and GID.
    #[command(flatten)]
    pub route: RouteOptions,

    /// Protocol, layout and arrival mode.
    #[command(flatten)]
    pub tuning: TuningOptions,

    /// Limits of registered and of shared memory.
    #[command(flatten)]
    pub memory: MemoryOptions,

    /// Write the newest 4096 events of the connection (copies in and out, writes, waits, acknowledgements) to a file, for Perfetto or
    /// chrome://tracing. The file is written when the run ends, also after a failure or one signal, if there was a connection. It
    /// cannot be -
    #[arg(
        long,
        value_name = "FILE",
        require_equals = true,
        value_parser = PathBufValueParser::new().try_map(no_dash),
        help_heading = "Reports"
    )]
    pub trace: Option<PathBuf>,

    /// Let superpipe-top, and other programs of this user, read the counters of the connections of this process
    #[arg(long, help_heading = "Reports")]
    pub metrics: bool,

    /// Print only errors and warnings, and the port if --listen names port 0
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Reports")]
    pub quiet: bool,

    /// Also print the address of the listener and the properties of the connection
    #[arg(short, long, help_heading = "Reports")]
    pub verbose: bool,

    /// Print the man page or the completions of a shell
    #[arg(long, value_enum, value_name = "KIND", hide = true, exclusive = true)]
    pub generate: Option<Generated>,
}

/// `--core`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Core {
    /// near the device
    Auto,
    /// this one
    #[serde(untagged)]
    Number(usize),
}

/// `--generate`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Generated {
    /// the man page, section 1
    Man,
    /// completions for bash
    Bash,
    /// completions for zsh
    Zsh,
    /// completions for fish
    Fish,
}

impl TransferOptions {
    /// Returns the checksum that this end asks for, if any.
    #[must_use]
    pub fn requested_checksum(&self) -> Option<DigestKind> {
        self.checksum.map(|checksum| match checksum {
            Checksum::Crc64 => DigestKind::Crc64,
            Checksum::Crc32c => DigestKind::Crc32c,
            Checksum::None => DigestKind::None,
        })
    }

    /// Returns every file that a command names, `data` first.
    #[must_use]
    pub fn files<'a>(&'a self, data: NamedFile<'a>) -> Vec<NamedFile<'a>> {
        let json = self.json.as_deref().map(|path| NamedFile::written("--json", path, 2));
        let trace = self.common.trace.as_deref().map(|path| NamedFile::written("--trace", path, 2));
        let messages = (!self.json_to_stderr()).then(NamedFile::messages);
        [Some(data), json, trace, messages].into_iter().flatten().collect()
    }

    /// Returns true if events go to standard error, which then carries nothing else.
    #[must_use]
    pub fn json_to_stderr(&self) -> bool {
        self.json.as_deref().is_some_and(|path| is_dash(path) || own_descriptor(path) == Some(2))
    }
}

/// Parses an address, whose path need not be UTF-8.
pub(crate) fn address(text: OsString) -> Result<Address, AddressParseError> {
    match (text.to_str(), text.as_bytes().strip_prefix(b"shm:")) {
        (None, Some(path)) => Ok(Address::Shm(OsStr::from_bytes(path).into())),
        // the parser rejects an invalid host, and names it
        _ => text.to_string_lossy().parse(),
    }
}

/// Parses a rate in bytes per second, at least 1.
fn rate(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(quantity::bytes(text)?).ok_or_else(|| "the rate must be at least 1".to_owned())
}

/// Parses a core's number, or auto.
fn core(text: &str) -> Result<Core, &'static str> {
    match text {
        "auto" => Ok(Core::Auto),
        number => number.parse().map(Core::Number).map_err(|_| "expected the number of a core, or auto"),
    }
}

/// Rejects `-`, the path of a standard stream.
fn no_dash(path: PathBuf) -> Result<PathBuf, &'static str> {
    if is_dash(&path) {
        Err("the trace is written when the run ends, and only to a file; name one")
    } else {
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, ValueEnum};
    use superpipe::{AckTimeout, Arrival, MemoryNode, RdmaDevice, Tuning};

    #[test]
    fn the_command_lines_are_consistent() {
        Send::command().debug_assert();
        Receive::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_the_manual() {
        let send = Send::try_parse_from(["rsend", "shm:/x"]).unwrap();
        assert_eq!(send.connect_timeout, Duration::from_secs(10));
        assert_eq!(send.transfer.common.idle_timeout, Duration::from_secs(30));
        assert_eq!((send.transfer.wait, send.transfer.checksum, send.file), (Wait::Sleep, None, None));
        let receive = Receive::try_parse_from(["rrecv"]).unwrap();
        assert_eq!(receive.listening.listen.to_string(), DEFAULT_ADDRESS);
    }

    #[test]
    fn rdma_has_its_options() {
        let arguments = [
            "rrecv",
            "--device",
            "rxe0",
            "--gid-index",
            "3",
            "--arrival",
            "checked-flag",
            "--ack-timeout",
            "2s",
        ];
        let common = Receive::try_parse_from(arguments).unwrap().transfer.common;
        let device = common.route.rdma_device();
        assert_eq!((device.name.unwrap().as_str(), device.gid_index), ("rxe0", Some(3)));
        assert_eq!(common.route.rdma_ack_timeout(), AckTimeout::at_least(Duration::from_secs(2)));
        assert!(Receive::try_parse_from(["rrecv", "--ack-timeout", "3h"]).is_err());
        assert_eq!(common.tuning.tuning().arrival, Some(Arrival::CheckedFlag));
        let common = Receive::try_parse_from(["rrecv"]).unwrap().transfer.common;
        assert_eq!(
            (common.route.rdma_device(), common.route.rdma_ack_timeout(), common.tuning.tuning()),
            (RdmaDevice::default(), AckTimeout::default(), Tuning::default())
        );
        for (option, arrival) in [("flag", Arrival::Flag), ("notify", Arrival::Notify)] {
            let option = ArrivalOption::from_str(option, false).unwrap();
            assert_eq!(option.arrival(), Some(arrival));
        }
        for wrong in [["--device", "a/b"], ["--gid-index", "-1"], ["--arrival", "never"]] {
            assert!(Receive::try_parse_from([&["rrecv"][..], &wrong].concat()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_limits_of_memory_are_sizes() {
        let memory = |arguments: &[&str]| {
            let arguments = [&["rsend", "shm:/x"][..], arguments].concat();
            Send::try_parse_from(arguments).map(|send| send.transfer.common.memory)
        };
        let MemoryOptions { pinned_max, shared_max, memory_node } = memory(&[]).unwrap();
        assert_eq!((pinned_max, shared_max, memory_node), (None, None, MemoryNode::Auto));
        let MemoryOptions { pinned_max, shared_max, .. } =
            memory(&["--pinned-max", "8M", "--shared-max=1.5G"]).unwrap();
        assert_eq!((pinned_max, shared_max), (Some(8 << 20), Some(3 << 29)));
        for (text, node) in
            [("core", MemoryNode::Core), ("device", MemoryNode::Device), ("1", MemoryNode::Number(1))]
        {
            assert_eq!(memory(&["--memory-node", text]).unwrap().memory_node, node);
        }
        for wrong in [["--pinned-max", "8Q"], ["--shared-max", "-1"], ["--memory-node", "near"]] {
            assert!(memory(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_core_is_a_number_or_auto() {
        let core = |text: &str| Receive::try_parse_from(["rrecv", "--core", text]);
        for (text, expected) in [("auto", Core::Auto), ("12", Core::Number(12))] {
            let settings = core(text).unwrap().transfer.common.core;
            assert_eq!(settings, Some(expected));
            let json = serde_json::to_string(&settings).unwrap();
            assert_eq!(json.trim_matches('"'), text);
        }
        assert!(core("near").is_err() && core("-1").is_err());
    }

    #[test]
    fn an_address_is_required_except_for_generate() {
        assert!(Send::try_parse_from(["rsend"]).is_err());
        assert!(Send::try_parse_from(["rsend", "--generate", "man"]).is_ok());
        assert!(Send::try_parse_from(["rsend", "-q", "-v", "shm:/x"]).is_err());
        for wrong in
            [&["--json", "shm:/x"][..], &["--json=", "shm:/x"], &["--trace", "x", "shm:/x"], &["--trace=-"]]
        {
            assert!(Send::try_parse_from([&["rsend"][..], wrong].concat()).is_err(), "{wrong:?}");
        }
        let json = Send::try_parse_from(["rsend", "--json=-", "shm:/x", "-"]).unwrap();
        assert!(json.transfer.json_to_stderr() && is_dash(&json.file.unwrap()));
    }
}
