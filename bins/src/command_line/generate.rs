//! Man pages and completions, generated from the same definition as `--help`.

use crate::command_line::command;
use crate::command_line::options::Generated;
use crate::exit::{Code, explain};
use crate::stderr::{ToolName, print_line};
use clap::Command;
use clap_complete::Shell;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints what `--generate` asks for.
#[must_use]
pub fn print(tool: impl Into<ToolName>, kind: Generated, command: Command) -> ExitCode {
    match text(kind, command) {
        Ok(text) => command::print(tool, &text),
        Err(error) => {
            print_line(tool, &explain("cannot generate the man page or completions", &error));
            Code::LocalIo.into()
        }
    }
}

fn text(kind: Generated, mut command: Command) -> io::Result<Vec<u8>> {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    let shell = match kind {
        Generated::Man => {
            man(command, &mut text)?;
            return Ok(text);
        }
        Generated::Bash => Shell::Bash,
        Generated::Zsh => Shell::Zsh,
        Generated::Fish => Shell::Fish,
    };
    clap_complete::generate(shell, &mut command, name, &mut text);
    Ok(text)
}

/// Writes the man page. The text after the options in `--help` becomes separate sections, with the same lines.
fn man(command: Command, out: &mut Vec<u8>) -> io::Result<()> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let parts: Vec<_> = command.get_subcommands().cloned().collect();
    let page = clap_mangen::Man::new(command.after_help(None::<&str>));
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    for part in parts {
        let mut section = Vec::new();
        let name = part.get_name().to_uppercase();
        clap_mangen::Man::new(part).render_options_section(&mut section)?;
        // the sections of the subcommand's page become subsections here
        let section =
            String::from_utf8_lossy(&section).replacen(".SH OPTIONS", "", 1).replace(".SH ", ".SS ");
        writeln!(out, ".SH \"OPTIONS OF {name}\"\n{}", section.trim_start())?;
    }
    for paragraph in after.split("\n\n") {
        // an indented paragraph continues the section
        let lines = match paragraph.split_once(":\n") {
            Some((heading, lines)) if !heading.starts_with(' ') => {
                writeln!(out, ".SH \"{}\"", heading.to_uppercase())?;
                lines
            }
            _ => {
                writeln!(out, ".PP")?;
                paragraph
            }
        };
        writeln!(out, ".nf")?;
        for line in lines.lines() {
            // the zero-width character `\&` prevents a line that begins with a dot or quote from being a roff request
            writeln!(out, "\\&{}", line.replace('\\', "\\e").replace('-', "\\-"))?;
        }
        writeln!(out, ".fi")?;
    }
    page.render_version_section(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::options::{Receive, Send};
    use crate::rperf::options::Perf;
    use crate::top::options::Top;
    use clap::CommandFactory;
    use clap::ValueEnum;

    #[test]
    fn every_kind_names_every_option_that_help_names() {
        for command in [Send::command(), Receive::command(), Perf::command(), Top::command()] {
            for &kind in Generated::value_variants() {
                let text = String::from_utf8(text(kind, command.clone()).unwrap()).unwrap();
                let text = text.replace("\\-", "-");
                let arguments = command.get_subcommands().chain([&command]).flat_map(Command::get_arguments);
                for argument in arguments.filter(|argument| !argument.is_hide_set()) {
                    if let Some(long) = argument.get_long() {
                        assert!(text.contains(long), "{kind:?} of {} lacks {long}", command.get_name());
                    }
                }
                assert!(kind != Generated::Man || text.contains(".SH \"EXIT CODES\""));
            }
        }
    }
}
