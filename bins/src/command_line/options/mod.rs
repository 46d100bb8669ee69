//! Command-line options. Their doc comments are the text of `--help`, the man pages and the completions.

mod crossing;

pub use crossing::{Checksum, Crossing, Routed, Seen, Tuned, Wait};

use crate::command_line::help::after_help;
use crate::files::descriptor::{is_dash, own_descriptor};
use crate::files::distinct::Named;
use crate::files::output::Old;
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

/// Sends a file or standard input to an rrecv, and waits for its verdict
///
/// rsend ends with 0 only when the receiver says that every byte arrived, that the checksum of the whole is the same at
/// both ends (unless one end has --checksum none), and that a file it was to write is on disk under its name. The data go through memory that both processes
/// share, or that the NIC writes from, block by block, while they are being read: nothing is staged, and a file is read
/// straight into that memory.
#[derive(Debug, Clone, Parser)]
#[command(name = "rsend", version, override_usage = "rsend [OPTIONS] ADDR [FILE]", disable_help_subcommand = true, after_help = after_help("\
Examples:
  rsend localhost disk.img             to `rrecv copy.img` on this host
  tar c photos | rsend localhost       what another program writes
  rsend node2 disk.img                 by RDMA, to `rrecv --listen :7471 copy.img`
                                       on node2
  rsend --core 2 --wait spin shm:/run/x.sock disk.img
                                       pinned, for the lowest latency
  rsend --json=log localhost disk.img  with a report for programs"))]
pub struct Send {
    /// Where the receiver listens: HOST:PORT, verbs:HOST:PORT or shm:PATH
    #[arg(
        value_name = "ADDR",
        required_unless_present = "generate",
        value_parser = OsStringValueParser::new().try_map(address)
    )]
    pub address: Option<Address>,

    /// What to send; - or nothing is standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// How long to look for a receiver; the last cause is reported
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    pub connect_timeout: Duration,

    /// Tell the receiver the name, mode and modification time of FILE, for an rrecv with --preserve
    #[arg(long)]
    pub preserve: bool,
    /// Send at most so many bytes a second
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate_limit: Option<NonZeroU64>,

    /// Flips one bit of the byte at this offset on its way, to see that both ends notice
    #[arg(long, value_name = "OFFSET", hide = true, value_parser = quantity::bytes)]
    pub inject_flip: Option<u64>,

    /// What rsend and rrecv have in common.
    #[command(flatten)]
    pub moving: Moving,
}

/// Receives from one rsend, into a file or to standard output
///
/// FILE appears under its name only once it is whole, compared with the sender's checksum, and on disk; an older file of
/// that name stays until then, and stays for good where anything fails; the new one keeps its owner, group, mode, access list
/// and user attributes as far as that is allowed, and else is less open, not more. Long runs of zeros become holes. What goes
/// to standard output is passed on as it arrives: whether it was whole, the exit code says. A pipe or device named by FILE is
/// opened and written as it is (rrecv listens once somebody reads the pipe), and a descriptor (/dev/stdout, /dev/fd/N) is
/// written where it stands.
#[derive(Debug, Clone, Parser)]
#[command(name = "rrecv", version, override_usage = "rrecv [OPTIONS] [FILE]", disable_help_subcommand = true, after_help = after_help("\
Examples:
  rrecv copy.img                       from `rsend localhost disk.img`
  rrecv | tar x                        unpack while it arrives
  rrecv --listen :7471 copy.img        from other hosts as well, by RDMA
  rrecv --core 3 --wait spin --listen shm:/run/x.sock copy.img
                                       pinned, for the lowest latency
  rrecv --accept-timeout 1m copy.img   give up if nobody sends"))]
pub struct Receive {
    /// File or pipe to receive into; - or nothing is standard output, and a terminal only with -
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Fail where FILE is there already, or appears meanwhile, instead of replacing it. A pipe of your own, and a device that
    /// is no disk, are written to
    #[arg(long, conflicts_with = "append")]
    pub no_clobber: bool,

    /// Add to the end of FILE, as the data arrive; what arrived stays there also where the rest fails, as with >> FILE. The
    /// file that has the name when the transfer begins gets the data, and must have it still at the end
    #[arg(long)]
    pub append: bool,

    /// Give FILE the mode and modification time that an rsend with --preserve tells; where FILE is a directory, the file in it
    /// that has the name which rsend tells
    #[arg(long, conflicts_with = "append")]
    pub preserve: bool,

    /// Accept a file although its announced length exceeds the free space, because most of it is zeros, which are stored as
    /// holes. Without this option, exit 8 before any data flow
    #[arg(long)]
    pub sparse: bool,

    /// Where the sender finds it.
    #[command(flatten)]
    pub listening: Listening,

    /// What rsend and rrecv have in common.
    #[command(flatten)]
    pub moving: Moving,
}

impl Receive {
    /// Returns the policy for a FILE that is there already.
    #[must_use]
    pub const fn old(&self) -> Old {
        match (self.no_clobber, self.append) {
            (true, _) => Old::Kept,
            (_, true) => Old::Extended,
            _ => Old::Replaced,
        }
    }
}

/// Where a tool waits for another.
#[derive(Debug, Clone, Args)]
pub struct Listening {
    /// Where to listen: HOST:PORT, verbs:HOST:PORT or shm:PATH
    #[arg(
        long,
        value_name = "ADDR",
        default_value = DEFAULT_ADDRESS,
        value_parser = OsStringValueParser::new().try_map(address)
    )]
    pub listen: Address,

    /// How long to wait for somebody to connect
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = quantity::duration)]
    pub accept_timeout: Duration,
}

/// What rsend and rrecv have in common.
#[derive(Debug, Clone, Args)]
pub struct Moving {
    /// Cost of waiting: spin uses a whole core and has the lowest latency, yield shares the core, sleep uses none
    /// while idle and adds up to 0.1 ms
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Wait::Sleep)]
    pub wait: Wait,

    /// Checksum of the whole stream, compared by both ends: the strongest that either end names, and crc64 if neither names
    /// one. none at one end alone therefore disables it; name crc64 at the other end to prevent that
    #[arg(long, value_enum, value_name = "KIND")]
    pub checksum: Option<Checksum>,

    /// Write start, listening (for port 0), interval (every second) and end events to a file, one JSON object a line;
    /// --json=- is standard error, which then carries nothing else
    #[arg(long, value_name = "FILE", require_equals = true, help_heading = "Reports")]
    pub json: Option<PathBuf>,

    /// What all tools have in common.
    #[command(flatten)]
    pub common: Common,
}

/// What all tools have in common.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Pin to this core: the scheduler then never moves the process. auto takes one near the RDMA device that is used, as far
    /// as the system says which those are, and not core 0 if that can be; without a device any such core. The two ends
    /// take different ones; -v says which
    #[arg(long, value_name = "N|auto", value_parser = core)]
    pub core: Option<Core>,

    /// Longest silence of the peer. A peer that waits for its own pipe or disk is not silent: it sends signs of life. Over
    /// shared memory a peer whose process ended is noticed within 5 s, whatever this says
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    pub idle_timeout: Duration,

    /// Accept only a peer of this user [default: your own; root is no exception]. Needs shm:PATH at both ends: the listener
    /// makes PATH with mode 0600, and then gives the other user access to it (chmod, setfacl). Not for RDMA
    #[arg(long, value_name = "UID")]
    pub peer_uid: Option<u32>,

    /// RDMA device and GID.
    #[command(flatten)]
    pub routed: Routed,

    /// How data cross.
    #[command(flatten)]
    pub tuned: Tuned,

    /// Write the newest 4096 events of the connection (copies in and out, writes, waits, acknowledgements) to a file when
    /// the run ends, also by a failure or a first signal, if there was a connection; for Perfetto or chrome://tracing. It
    /// takes a file, and not -
    #[arg(
        long,
        value_name = "FILE",
        require_equals = true,
        value_parser = PathBufValueParser::new().try_map(no_dash),
        help_heading = "Reports"
    )]
    pub trace: Option<PathBuf>,

    /// Print errors, warnings and remarks only, and the port where --listen names port 0
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Reports")]
    pub quiet: bool,

    /// Also say where the tool listens, and how the connection came out
    #[arg(short, long, help_heading = "Reports")]
    pub verbose: bool,

    /// Prints the man page or a shell's completions
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

impl Moving {
    /// Returns the checksum that this end asks for, if any.
    #[must_use]
    pub fn wished_checksum(&self) -> Option<DigestKind> {
        self.checksum.map(|checksum| match checksum {
            Checksum::Crc64 => DigestKind::Crc64,
            Checksum::Crc32c => DigestKind::Crc32c,
            Checksum::None => DigestKind::None,
        })
    }

    /// Returns every file that a command names, `data` first.
    #[must_use]
    pub fn files<'a>(&'a self, data: Named<'a>) -> Vec<Named<'a>> {
        let json = self.json.as_deref().map(|path| Named::written("--json", path, 2));
        let trace = self.common.trace.as_deref().map(|path| Named::written("--trace", path, 2));
        let messages = (!self.json_to_stderr()).then(Named::messages);
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
    NonZeroU64::new(quantity::bytes(text)?)
        .ok_or_else(|| "nothing would ever be sent: write 1 or more".to_owned())
}

/// Parses a core's number, or auto.
fn core(text: &str) -> Result<Core, &'static str> {
    match text {
        "auto" => Ok(Core::Auto),
        number => number.parse().map(Core::Number).map_err(|_| "write a core's number, or auto"),
    }
}

/// Rejects `-`, the path of a standard stream.
fn no_dash(path: PathBuf) -> Result<PathBuf, &'static str> {
    if is_dash(&path) { Err("it is written at the end, and to a file: name one") } else { Ok(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, ValueEnum};
    use superpipe::{Arrival, RdmaDevice, Tuning};

    #[test]
    fn the_command_lines_are_consistent() {
        Send::command().debug_assert();
        Receive::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_the_manual() {
        let send = Send::try_parse_from(["rsend", "shm:/x"]).unwrap();
        assert_eq!(send.connect_timeout, Duration::from_secs(10));
        assert_eq!(send.moving.common.idle_timeout, Duration::from_secs(30));
        assert_eq!((send.moving.wait, send.moving.checksum, send.file), (Wait::Sleep, None, None));
        let receive = Receive::try_parse_from(["rrecv"]).unwrap();
        assert_eq!(receive.listening.listen.to_string(), DEFAULT_ADDRESS);
    }

    #[test]
    fn rdma_has_its_options() {
        let arguments = ["rrecv", "--device", "rxe0", "--gid-index", "3", "--arrival", "checked-flag"];
        let common = Receive::try_parse_from(arguments).unwrap().moving.common;
        let device = common.routed.rdma_device();
        assert_eq!((device.name.unwrap().as_str(), device.gid_index), ("rxe0", Some(3)));
        assert_eq!(common.tuned.wishes().arrival, Some(Arrival::CheckedFlag));
        let common = Receive::try_parse_from(["rrecv"]).unwrap().moving.common;
        assert_eq!(
            (common.routed.rdma_device(), common.tuned.wishes()),
            (RdmaDevice::default(), Tuning::default())
        );
        for (seen, arrival) in [("flag", Arrival::Flag), ("notify", Arrival::Notify)] {
            let seen = Seen::from_str(seen, false).unwrap();
            assert_eq!(seen.wish(), Some(arrival));
        }
        for wrong in [["--device", "a/b"], ["--gid-index", "-1"], ["--arrival", "never"]] {
            assert!(Receive::try_parse_from([&["rrecv"][..], &wrong].concat()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_core_has_a_number_or_is_found() {
        let core = |text: &str| Receive::try_parse_from(["rrecv", "--core", text]);
        for (text, wished) in [("auto", Core::Auto), ("12", Core::Number(12))] {
            let settings = core(text).unwrap().moving.common.core;
            assert_eq!(settings, Some(wished));
            let json = serde_json::to_string(&settings).unwrap();
            assert_eq!(json.trim_matches('"'), text);
        }
        assert!(core("near").is_err() && core("-1").is_err());
    }

    #[test]
    fn an_address_is_needed_but_for_the_manual() {
        assert!(Send::try_parse_from(["rsend"]).is_err());
        assert!(Send::try_parse_from(["rsend", "--generate", "man"]).is_ok());
        assert!(Send::try_parse_from(["rsend", "-q", "-v", "shm:/x"]).is_err());
        for wrong in
            [&["--json", "shm:/x"][..], &["--json=", "shm:/x"], &["--trace", "x", "shm:/x"], &["--trace=-"]]
        {
            assert!(Send::try_parse_from([&["rsend"][..], wrong].concat()).is_err(), "{wrong:?}");
        }
        let json = Send::try_parse_from(["rsend", "--json=-", "shm:/x", "-"]).unwrap();
        assert!(json.moving.json_to_stderr() && is_dash(&json.file.unwrap()));
    }
}
