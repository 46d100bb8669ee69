//! Exit codes, which all tools share, and failures, each with one line for its cause.

use crate::protocol::one_line;
use std::fmt;
use std::io;
use std::process::ExitCode;
use superpipe::Reason;
use superpipe::os::OsError;

/// Offset between a signal's number and the exit code of a tool that the signal ended.
pub(crate) const SIGNAL_CODE_BASE: u8 = 128;

/// Exit codes. 101 is a panic, a bug of the tool. A tool that a signal ends dies by that signal, which a shell shows as 128 plus
/// the signal's number: see [`crate::signals::end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The work is complete; for rsend, the receiver has confirmed it.
    Done = 0,
    /// The command line is invalid, or does not fit that of the peer.
    Usage = 2,
    /// No connection was established.
    Connect = 3,
    /// The peer was silent for longer than the idle timeout.
    Timeout = 4,
    /// The peer ended before the transfer was complete.
    PeerLost = 5,
    /// The received data differ from the sent data.
    Integrity = 6,
    /// The peer uses another version or protocol, or is not authorized.
    Protocol = 7,
    /// A file, pipe or disk failed, at this end or at the other.
    LocalIo = 8,
    /// A device failed, or a limit was reached.
    Device = 9,
    /// Ended by SIGHUP.
    HungUp = 129,
    /// Ended by SIGINT.
    Interrupted = 130,
    /// Ended by SIGTERM.
    Terminated = 143,
}

/// A failure that ends a tool before its work is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// exit code of the process
    pub code: Code,
    /// one line: the cause, then the remedy, if there is one
    pub text: String,
}

impl Code {
    /// Every code, in order.
    pub const ALL: [Self; 12] = [
        Self::Done,
        Self::Usage,
        Self::Connect,
        Self::Timeout,
        Self::PeerLost,
        Self::Integrity,
        Self::Protocol,
        Self::LocalIo,
        Self::Device,
        Self::HungUp,
        Self::Interrupted,
        Self::Terminated,
    ];

    /// Returns the code as a number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the meaning of the code at the other end, for a peer that sends no text.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "success",
            Self::Usage => "its options are invalid, or do not fit those of this end",
            Self::Connect => "no connection",
            Self::Timeout => "this end was silent for longer than its idle timeout",
            Self::PeerLost => "it lost the connection to this end",
            Self::Integrity => "the received data differ from the sent data",
            Self::Protocol => "wrong protocol, version or user",
            Self::LocalIo => "a file, pipe or disk failed there",
            Self::Device => "a device failed there, or a limit was reached",
            Self::HungUp => "ended by SIGHUP",
            Self::Interrupted => "ended by SIGINT",
            Self::Terminated => "ended by SIGTERM",
        }
    }

    /// Returns true if a signal ended the tool.
    #[must_use]
    pub const fn is_signal(self) -> bool {
        self.number() > SIGNAL_CODE_BASE
    }

    /// Returns the code with this number, which a peer sent.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|code| u32::from(code.number()) == number)
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

impl From<Code> for Reason {
    fn from(code: Code) -> Self {
        Self(code.number().into())
    }
}

impl Failure {
    /// Creates a failure with its line, for people and for `--json`: see [`one_line`].
    pub fn new(code: Code, text: impl AsRef<str>) -> Self {
        Self { code, text: one_line(text.as_ref()) }
    }

    /// Creates the failure for an error of a local file, pipe or disk. `doing` begins the text: "cannot read x".
    pub fn local_io(doing: impl Into<String>, error: &io::Error) -> Self {
        let is_limit = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
        Self::new(if is_limit { Code::Device } else { Code::LocalIo }, explain(doing, error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Formats `doing` and the system's text for the error, in the style of the library.
pub fn explain(doing: impl Into<String>, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => OsError::new(errno, doing.into()).to_string(),
        None => format!("{}: {error}", doing.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_manual() {
        let numbers = Code::ALL.map(Code::number);
        assert_eq!(numbers, [0, 2, 3, 4, 5, 6, 7, 8, 9, 129, 130, 143]);
        for code in Code::ALL {
            assert_eq!(Code::from_number(code.number().into()), Some(code));
        }
        let by_signal = Code::ALL.into_iter().filter(|code| code.is_signal());
        assert!(by_signal.eq([Code::HungUp, Code::Interrupted, Code::Terminated]));
        assert_eq!(Code::from_number(1), None);
        assert_eq!(Code::from_number(256 + 8), None);
    }

    #[test]
    fn error_texts_have_no_numbers() {
        let error = io::Error::from_raw_os_error(28);
        assert_eq!(
            Failure::local_io("cannot write x", &error).text,
            "cannot write x: no space left on device"
        );
        let error = io::Error::other("odd");
        assert_eq!(Failure::local_io("cannot write x", &error).text, "cannot write x: odd");
        let turned = Failure::local_io("cannot write \u{202E}gnp.exe\n\u{9b}2J", &error);
        assert_eq!(turned.text, "cannot write ?gnp.exe??2J: odd");
    }
}
