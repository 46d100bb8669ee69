//! The peers, with the settings that are best for them, and their commands.

use std::process::Command;

use superpipe_bench::failure::Failure;
use superpipe_bench::resident::Resident;

use super::Timing;
use super::environment::Environment;
use super::launch::SECONDS_MAX;
use crate::figures::Kind;
use crate::plan::{Cell, REUSED};

/// Environment variables that differ from a peer's defaults.
type Settings = &'static [(&'static str, &'static str)];

/// One peer with one set of settings.
pub(crate) struct Peer {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) kind: Kind,
    program: &'static str,
    launcher: Launcher,
    settings: Settings,
}

enum Launcher {
    /// it starts its other process itself
    Itself,
    OpenMpi,
    Mpich,
    IntelMpi,
}

/// UCX copies kernel-assisted from 8 KiB on, once. Copying twice through shared memory, which overlaps, is faster here.
const UCX: (&str, &str) = ("UCX_TLS", "posix,sysv,cma,self");
const EAGER: (&str, &str) = ("UCX_RNDV_THRESH", "inf");
const SEGMENT: (&str, &str) = ("UCX_POSIX_SEG_SIZE", "16k");

/// Each with its defaults and, where that is much faster at some size, tuned.
pub(crate) const PEERS: &[Peer] = &[
    peer("ucx", "UCX", "ucx", Launcher::Itself, &[UCX]),
    peer("ucx-eager", "UCX, eager", "ucx", Launcher::Itself, &[UCX, EAGER, SEGMENT]),
    peer(
        "openmpi",
        "Open MPI",
        "openmpi",
        Launcher::OpenMpi,
        &[("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "self,sm")],
    ),
    peer(
        "openmpi-ucx",
        "Open MPI, UCX eager",
        "openmpi",
        Launcher::OpenMpi,
        &[
            ("OMPI_MCA_pml", "ucx"),
            ("OMPI_MCA_pml_ucx_tls", "any"),
            ("OMPI_MCA_pml_ucx_devices", "any"),
            UCX,
            EAGER,
            SEGMENT,
        ],
    ),
    peer("mpich", "MPICH", "mpich", Launcher::Mpich, &[]),
    peer(
        "mpich-ucx",
        "MPICH, UCX eager",
        "mpich",
        Launcher::Mpich,
        &[("MPIR_CVAR_NOLOCAL", "1"), ("MPIR_CVAR_CH4_NETMOD", "ucx"), UCX, EAGER, SEGMENT],
    ),
    peer("impi", "Intel MPI", "impi", Launcher::IntelMpi, &[("I_MPI_FABRICS", "shm"), ("I_MPI_PIN", "0")]),
    peer("iceoryx2", "iceoryx2", "iceoryx2", Launcher::Itself, &[]),
    Peer {
        kind: Kind::Aside,
        ..peer(
            "iceoryx2-zero",
            "iceoryx2, no copies",
            "iceoryx2",
            Launcher::Itself,
            &[("PEER_ZERO_COPY", "1")],
        )
    },
];

const fn peer(
    id: &'static str,
    title: &'static str,
    program: &'static str,
    launcher: Launcher,
    settings: Settings,
) -> Peer {
    Peer { id, title, kind: Kind::Peer, program, launcher, settings }
}

impl Peer {
    /// Returns the settings as in a shell.
    pub(crate) fn settings(&self) -> String {
        let all: Vec<String> = self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        all.join(" ")
    }

    /// Returns the command that runs cells, as a person may repeat it.
    pub(crate) fn command(&self, environment: &Environment, cells: &[Cell], place: &str) -> Command {
        let mut command = self.program(environment);
        command.args(cells.iter().map(|cell| test(cell, place)));
        command
    }

    /// Starts its processes.
    pub(crate) fn start(&self, environment: &Environment) -> Result<Resident, Failure> {
        let control = environment.scratch(&format!("peer-{}", self.id));
        Resident::start(self.title, &mut self.program(environment), &control)
    }

    fn program(&self, environment: &Environment) -> Command {
        let harness = environment.peers.join("bin").join(self.program);
        let own = environment.peers.join(self.program);
        let mut command = match self.launcher {
            Launcher::Itself => Command::new(&harness),
            Launcher::OpenMpi => {
                let mut command = Command::new(own.join("bin/mpirun"));
                command.args(["-n", "2", "--bind-to", "none"]).arg(&harness);
                // It refuses to start as root without both.
                command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
                command
            }
            Launcher::Mpich => {
                let mut command = Command::new(own.join("bin/mpiexec"));
                command.args(["-n", "2", "-bind-to", "none"]).arg(&harness);
                command
            }
            Launcher::IntelMpi => {
                let mut command = Command::new(own.join("bin/mpiexec.hydra"));
                command.args(["-n", "2"]).arg(&harness);
                command.env("I_MPI_ROOT", &own).env("LD_LIBRARY_PATH", own.join("lib"));
                command
            }
        };
        command.envs(self.settings.iter().copied()).env("PEER_ROOT", environment.peers.join("run/"));
        command.args(["--cores", &environment.cores(), "--seconds-max", &SECONDS_MAX.to_string()]);
        command
    }
}

/// Measures cells with a peer that was started.
pub(crate) fn run(resident: &mut Resident, cells: &[Cell], place: &str) -> Result<Vec<Timing>, Failure> {
    cells.iter().map(|cell| Ok(Timing::new(&resident.run(&test(cell, place))?, *cell))).collect()
}

/// The version that a peer prints.
pub(crate) fn version(resident: &Resident) -> String {
    short_version(resident.hello()["version"].as_str().unwrap_or_default())
}

/// A test, as the harness names it.
fn test(cell: &Cell, place: &str) -> String {
    let suffix = if place == REUSED { "" } else { "-fresh" };
    format!("{}{suffix}:{}:{}", cell.test, cell.bytes, cell.messages)
}

/// Returns the words up to the first comma, with single spaces.
fn short_version(version: &str) -> String {
    let words = version.split(',').next().unwrap_or_default().split_whitespace();
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{PEERS, short_version};

    #[test]
    fn versions_are_short() {
        assert_eq!(short_version("MPICH Version:      5.0.2"), "MPICH Version: 5.0.2");
        assert_eq!(short_version("Open MPI v5.0.11, package: Open MPI user@host"), "Open MPI v5.0.11");
    }

    #[test]
    fn every_peer_has_a_name_of_its_own() {
        for (at, peer) in PEERS.iter().enumerate() {
            assert!(PEERS[..at].iter().all(|other| other.id != peer.id && other.title != peer.title));
        }
    }
}
