//! Environment of a measurement: programs, cores, and the distance between the cores.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, io};

use superpipe::os::distance::{ProbeError, one_way_ns};
use superpipe_bench::failure::Failure;
use superpipe_bench::options::Cores;
use superpipe_bench::probe::Distance;

/// Probes until a core that other programs keep busy has answered.
const PROBES_MAX: u32 = 10;

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
    /// directory of sockets and pipes, removed at the end
    scratch: PathBuf,
}

/// The time of 8 bytes from core to core, and what it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) ns: f64,
    pub(crate) distance: Distance,
}

impl Environment {
    /// Finds the programs in the directory of this one, in a target directory. rperf is there as well, unless it is in `tools`.
    pub(crate) fn new(cores: Cores, is_quick: bool, tools: Option<&Path>) -> Result<Self, Failure> {
        let own = env::current_exe().map_err(|error| Failure::Os("find this program", error))?;
        let programs = own.parent().map(PathBuf::from).unwrap_or_default();
        let peers = programs.parent().map(|target| target.join("peers")).unwrap_or_default();
        let tools = tools.unwrap_or(&programs).to_owned();
        let scratch = env::temp_dir().join(format!("superpipe-benchmarks-{}", process::id()));
        fs::create_dir_all(&scratch).map_err(|error| Failure::Os("make a directory", error))?;
        Ok(Self { programs, tools, peers, cores, is_quick, scratch })
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

    /// Returns the path of a socket or pipe.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// Probes the distance of the cores, as `rperf --distance` does.
    pub(crate) fn probe(&self) -> Result<Probe, Failure> {
        let mut outcome = Err(ProbeError::Timeout);
        for _ in 0..PROBES_MAX {
            outcome = one_way_ns([self.cores.client, self.cores.server]);
            if outcome != Err(ProbeError::Timeout) {
                break;
            }
        }
        let ns = outcome.map_err(|error| Failure::Usage(format!("cannot probe the cores: {error}")))?;
        Ok(Probe { ns: (ns * 10.0).round() / 10.0, distance: Distance::of(ns) })
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

impl Drop for Environment {
    fn drop(&mut self) {
        // It is temporary.
        let _ = fs::remove_dir_all(&self.scratch);
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

/// The machine's load average over a minute.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
}
