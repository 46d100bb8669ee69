//! Environment of a measurement: programs, cores, and the distance between the cores.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

use superpipe_bench::failure::Failure;
use superpipe_bench::options::Cores;

use super::launch;
use crate::figures::Distance;

/// The time of 8 bytes from core to core above which they share no cache: some 30 ns in the same cluster, 200 in others.
const OTHER_CLUSTER_NS: f64 = 100.0;
const PROBE: &[&str] = &[
    "--slots",
    "64",
    "--stride",
    "128",
    "--pause",
    "yes",
    "--rounds",
    "1",
    "--seconds-per-config",
    "0.01",
    "--json",
];

/// Environment of every contestant.
pub(crate) struct Environment {
    /// directory of the programs of this package
    pub(crate) programs: PathBuf,
    /// directory of rperf
    pub(crate) tools: PathBuf,
    /// directory of the peers, made by scripts/peers.sh
    pub(crate) peers: PathBuf,
    pub(crate) cores: Cores,
    pub(crate) is_quick: bool,
}

impl Environment {
    /// Finds the programs in the directory of this one, in a target directory. rperf is there as well, unless it is in `tools`.
    pub(crate) fn new(cores: Cores, is_quick: bool, tools: Option<&Path>) -> Result<Self, Failure> {
        let own = env::current_exe().map_err(|error| Failure::Os("find this program", error))?;
        let programs = own.parent().map(PathBuf::from).unwrap_or_default();
        let peers = programs.parent().map(|target| target.join("peers")).unwrap_or_default();
        let tools = tools.unwrap_or(&programs).to_owned();
        Ok(Self { programs, tools, peers, cores, is_quick })
    }

    /// Returns the command of a program of this package.
    pub(crate) fn program(&self, name: &str) -> Result<Command, Failure> {
        command(&self.programs, name)
    }

    /// Returns the command of rperf.
    pub(crate) fn rperf(&self) -> Result<Command, Failure> {
        command(&self.tools, "rperf")
    }

    /// The cores in the form of the options of limits and peers.
    pub(crate) fn cores(&self) -> String {
        format!("{},{}", self.cores.client, self.cores.server)
    }

    /// Probes the time of 8 bytes from core to core.
    pub(crate) fn distance_ns(&self) -> Result<f64, Failure> {
        let mut command = self.program("limit_lines")?;
        command.args(PROBE).args(["--cores", &self.cores()]);
        let distance_us = launch::objects(&mut command)?.last().and_then(|object| object["p50_us"].as_f64());
        let distance_us = distance_us.ok_or_else(|| Failure::Usage("the probe printed nothing".into()))?;
        Ok((distance_us * 1e4).round() / 10.0)
    }

    /// Returns a command as the page shows it, without this machine's paths.
    pub(crate) fn shown(&self, command: &Command) -> String {
        let words = [command.get_program()].into_iter().chain(command.get_args());
        let words: Vec<String> = words.map(|word| self.without_paths(&word.to_string_lossy())).collect();
        words.join(" ")
    }

    fn without_paths(&self, word: &str) -> String {
        let target = self.programs.parent().unwrap_or(Path::new("/"));
        word.replace(&*target.to_string_lossy(), "target")
            .replace(&*env::temp_dir().to_string_lossy(), "$TMPDIR")
    }
}

fn command(directory: &Path, name: &str) -> Result<Command, Failure> {
    let path = directory.join(name);
    if path.exists() {
        return Ok(Command::new(path));
    }
    let missing = io::Error::other(format!("{name} is not in {}; type: make bench", directory.display()));
    Err(Failure::Os("run a program", missing))
}

/// Returns the distance during a round, from the times before and after it.
pub(crate) fn distance(before_ns: f64, after_ns: f64) -> Distance {
    match (before_ns > OTHER_CLUSTER_NS, after_ns > OTHER_CLUSTER_NS) {
        (false, false) => Distance::SameCluster,
        (true, true) => Distance::OtherCluster,
        _ => Distance::Mixed,
    }
}

/// The machine's load average over a minute.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::{Distance, distance};

    #[test]
    fn a_round_is_of_one_kind_only_if_nothing_changed() {
        assert_eq!(distance(30.0, 48.0), Distance::SameCluster);
        assert_eq!(distance(190.0, 230.0), Distance::OtherCluster);
        assert_eq!([distance(30.0, 200.0), distance(200.0, 30.0)], [Distance::Mixed; 2]);
    }
}
