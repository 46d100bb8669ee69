//! Reading the command line: help that cannot be printed is a failure, and a value without its equals sign is named.

use crate::descriptor::duplicate;
use crate::exit::{Code, Failure};
use crate::protocol::Role;
use crate::session::complain;
use clap::Parser;
use clap::error::{ContextKind, ContextValue};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// An option whose value is optional, which is therefore only known by its equals sign, and what the value can be.
pub type Optional = (&'static str, fn(&str) -> bool);

/// Reads the command line; `optional` are its options whose value is optional. Where there is nothing to be done, what was asked for or is wrong is printed.
///
/// # Errors
/// The exit code: of help that was printed or could not be, or of a command that cannot be followed.
pub fn parse<P: Parser>(role: Role, optional: &[Optional]) -> Result<P, ExitCode> {
    P::try_parse().map_err(|error| {
        if error.use_stderr() {
            // nobody can be told that standard error is gone
            let _ = error.print();
            if let Some(remedy) = remedy(&error, optional, std::env::args_os()) {
                complain(role, &remedy);
            }
            return Code::Usage.into();
        }
        print(role, error.render().to_string().as_bytes())
    })
}

/// Prints what a person or a script asked for. A reader that has had enough is no failure.
#[must_use]
pub fn print(role: Role, text: &[u8]) -> ExitCode {
    let written = duplicate(1).and_then(|mut out| out.write_all(text));
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let failure = Failure::local_io("cannot write to standard output", &error);
            complain(role, &failure.text);
            failure.code.into()
        }
        _ => Code::Done.into(),
    }
}

/// Names the spelling that is meant where an argument is too many and one follows an option whose value is optional.
fn remedy(
    error: &clap::Error,
    optional: &[Optional],
    arguments: impl Iterator<Item = OsString>,
) -> Option<String> {
    let named = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand].map(|kind| error.get(kind));
    let is_odd = |value: &str| {
        named.iter().flatten().any(|named| matches!(named, ContextValue::String(named) if named == value))
    };
    let arguments: Vec<_> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    arguments.windows(2).find_map(|pair| {
        let (option, can_be) = optional.iter().find(|(option, _)| pair[0] == *option)?;
        let value = &pair[1];
        let is_meant = can_be(value) || is_odd(value);
        is_meant.then(|| format!("if {value} is the value of {option}, write {option}={value}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rperf::options::{OPTIONAL, Perf};

    #[test]
    fn a_value_without_its_equals_sign_is_named() {
        let remedy = |arguments: &[&str]| {
            let error = Perf::try_parse_from(arguments).unwrap_err();
            remedy(&error, &OPTIONAL, arguments.iter().map(OsString::from))
        };
        assert_eq!(
            remedy(&["rperf", "localhost", "--fresh", "plain"]).unwrap(),
            "if plain is the value of --fresh, write --fresh=plain"
        );
        assert!(
            remedy(&["rperf", "localhost", "--reconnect", "3"]).unwrap().ends_with("write --reconnect=3")
        );
        assert!(
            remedy(&["rperf", "--fresh", "plain", "localhost"]).unwrap().ends_with("write --fresh=plain")
        );
        assert!(remedy(&["rperf", "localhost", "--fresh", "cold"]).unwrap().ends_with("write --fresh=cold"));
        assert_eq!(remedy(&["rperf", "localhost", "elsewhere", "--fresh"]), None);
        assert_eq!(remedy(&["rperf", "--fresh", "localhost", "elsewhere"]), None);
        assert_eq!(remedy(&["rperf", "localhost", "--fresh=cold"]), None);
    }
}
