//! iceoryx2, by the harness of `bench/peers`: its two processes do the same work, with the same messages, in samples.

use std::io;
use std::path::Path;
use std::process::{self, Command};
use std::{env, fs};

use superpipe_bench::failure::Failure;
use superpipe_bench::options::Cores;
use superpipe_bench::resident::Resident;

/// Seconds of a slice after which the kernel ends the harness.
const SECONDS_MAX: &str = "60";

/// The harness, which stays from slice to slice.
pub(crate) struct Iceoryx2(Resident);

impl Iceoryx2 {
    pub(crate) fn start(program: &Path, cores: Cores) -> Result<Self, Failure> {
        if !fs::exists(program).unwrap_or(false) {
            let missing = format!("{} is not there; type: scripts/peers.sh", program.display());
            return Err(Failure::Os("run a peer", io::Error::other(missing)));
        }
        let run = program.ancestors().nth(2).unwrap_or(Path::new(".")).join("run/");
        let control = env::temp_dir().join(format!("superpipe-loans-{}", process::id()));
        let mut command = Command::new(program);
        command.args([
            "--cores",
            &format!("{},{}", cores.client, cores.server),
            "--seconds-max",
            SECONDS_MAX,
        ]);
        command.env("PEER_IN_PLACE", "1").env("PEER_ROOT", run);
        Ok(Self(Resident::start("iceoryx2", &mut command, &control)?))
    }

    /// Receives so many messages. Returns the microseconds of one.
    pub(crate) fn slice(&mut self, bytes: usize, count: usize) -> Result<f64, Failure> {
        let result = self.0.run(&format!("stream:{bytes}:{count}"))?;
        result["avg_us"].as_f64().ok_or_else(|| Failure::Usage(format!("iceoryx2 printed {result}")))
    }
}
