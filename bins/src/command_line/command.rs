//! Parsing of the command line. Help that cannot be printed is a failure, and a value without its equals sign gets a hint.

use crate::exit::{Code, Failure};
use crate::files::descriptor::duplicate;
use crate::stderr::{ToolName, print_line};
use clap::Parser;
use clap::error::{ContextKind, ContextValue};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// An option with an optional value, which must therefore follow an equals sign, and a test for possible values.
pub type Optional = (&'static str, fn(&str) -> bool);

/// Parses the command line; `optional` lists the options with an optional value. Prints the help or version that was asked for,
/// or the usage error.
///
/// # Errors
/// The exit code, if help was printed or could not be printed, or if the command line is invalid.
pub fn parse<P: Parser>(tool: impl Into<ToolName>, optional: &[Optional]) -> Result<P, ExitCode> {
    let tool = tool.into();
    P::try_parse().map_err(|error| {
        if error.use_stderr() {
            // an error of standard error can be reported nowhere
            let _ = error.print();
            if let Some(remedy) = remedy(&error, optional, std::env::args_os()) {
                print_line(tool, &remedy);
            }
            return Code::Usage.into();
        }
        print(tool, error.render().to_string().as_bytes())
    })
}

/// Prints a requested text to standard output. A reader that closes the pipe early is no failure.
#[must_use]
pub fn print(tool: impl Into<ToolName>, text: &[u8]) -> ExitCode {
    let written = duplicate(1).and_then(|mut out| out.write_all(text));
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let failure = Failure::local_io("cannot write to standard output", &error);
            print_line(tool, &failure.text);
            failure.code.into()
        }
        _ => Code::Done.into(),
    }
}

/// Suggests `--option=value` if an option with an optional value precedes an argument that is such a value, or is unexpected.
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
    fn a_value_without_its_equals_sign_gets_a_hint() {
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
