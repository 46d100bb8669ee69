//! Facts about the machine that the figures depend on.

use std::fs;
use std::process::Command;

use super::environment::Environment;
use super::launch;

/// Returns all facts, as `unknown` where one cannot be read.
pub(crate) fn describe(environment: &Environment) -> Vec<(String, String)> {
    let fact =
        |name: &str, value: Option<String>| (name.to_owned(), value.unwrap_or_else(|| "unknown".to_owned()));
    vec![
        fact("superpipe", Some(commit())),
        fact("processor", field("/proc/cpuinfo", "model name")),
        fact("processors", field("/proc/cpuinfo", "siblings").map(|count| format!("{count} in a package"))),
        fact(
            "cores used",
            Some(format!("client {}, server {}", environment.cores.client, environment.cores.server)),
        ),
        fact("hypervisor", hypervisor()),
        fact("memory", field("/proc/meminfo", "MemTotal")),
        fact("huge pages on request", file("/sys/kernel/mm/transparent_hugepage/enabled")),
        fact("kernel", file("/proc/sys/kernel/osrelease")),
        fact("system", field("/etc/os-release", "PRETTY_NAME")),
        fact("Rust", said("rustc", &["--version"])),
        fact("C compiler of the peers' harness", said("cc", &["--version"])),
        fact("date", said("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
    ]
}

/// superpipe's version and commit.
fn commit() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let commit = said("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
    commit.map_or_else(|| version.to_owned(), |commit| format!("{version}, commit {commit}"))
}

fn hypervisor() -> Option<String> {
    let is_guest = field("/proc/cpuinfo", "flags")?.split(' ').any(|flag| flag == "hypervisor");
    Some(if is_guest { "yes, a virtual machine" } else { "no" }.to_owned())
}

/// Returns the first line that a command prints.
fn said(program: &str, args: &[&str]) -> Option<String> {
    let text = launch::output(Command::new(program).args(args)).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

fn file(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Returns the value in a file of lines `name: value` or `name="value"`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    let (_, value) = line.split_once([':', '='])?;
    Some(value.trim().trim_matches('"').to_owned())
}
