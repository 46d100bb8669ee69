//! Many connections between two processes, within a budget that is much too small for their landing buffers at once.
//!
//! Half of the connections send from one process, half from the other, each as fast as it can, messages of 8 B to 64 MiB. Each process
//! drives all of its connections from one thread.

mod connections;
mod link;
mod memory;
mod message;
mod options;

pub(crate) use options::CrowdOptions;

use core::time::Duration;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::{Child, Command, id};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Signal, set_parent_process_death_signal};
use superpipe::Budget;

use crate::PrivateDirectory;
use link::{Link, Role};
use memory::Memory;
use message::Pool;

/// Longest time without progress of a connection, and longest wait for the other process.
const HANG_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause of a turn in which no connection moved.
const PAUSE: Duration = Duration::from_micros(20);
/// Interval of the comparisons with the kernel's figures.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Runs both processes, and prints what was measured.
pub(crate) fn run(options: &CrowdOptions) -> Result<(), String> {
    if let (Some(socket), Some(parent)) = (&options.socket, options.parent) {
        return run_child(options, socket, parent);
    }
    let seed = options.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::from(now.subsec_nanos()) << 16 ^ now.as_secs()
    });
    println!(
        "crowd: {} connections, {} MiB of shared memory for each process, {} s, seed {seed}",
        options.connections, options.budget_mib, options.seconds
    );
    let directory =
        PrivateDirectory::new().map_err(|error| format!("cannot make a private directory: {error}"))?;
    let socket = directory.0.join("socket");
    let mut child = OtherProcess::start(options, seed, &socket)?;
    let links = {
        set_budget(options);
        connections::accept(options, &socket)
    };
    let played = links.and_then(|links| play(links, Role::Parent, options, seed));
    let ended = child.finish();
    let report = played?;
    ended?;
    println!("{report}");
    Ok(())
}

fn run_child(options: &CrowdOptions, socket: &Path, parent: u32) -> Result<(), String> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("set the parent death signal: {error}"))?;
    if parent_id() != parent {
        return Err("the parent process has ended".into());
    }
    set_budget(options);
    let links = connections::connect(options, socket).map_err(|error| format!("other process: {error}"))?;
    let seed = options.seed.unwrap_or_default();
    let report =
        play(links, Role::Child, options, seed).map_err(|error| format!("other process: {error}"))?;
    println!("{report}");
    Ok(())
}

fn set_budget(options: &CrowdOptions) {
    Budget::set_shared_max(options.budget_bytes());
}

/// Drives all connections until every one has sent and received its last message.
fn play(mut links: Vec<Link>, role: Role, options: &CrowdOptions, seed: u64) -> Result<String, String> {
    let pool = Pool::new(seed);
    let begun = Instant::now();
    let end = begun + Duration::from_secs(options.seconds);
    let mut memory = Memory::new(options.budget_bytes());
    let mut large = 0;
    let (mut now, mut checked) = (begun, begun);
    loop {
        let mut has_moved = false;
        for link in &mut links {
            has_moved |= link.turn(&pool, &mut large, now, now >= end)?;
            memory.check_budget()?;
        }
        if links.iter().all(Link::is_over) {
            break;
        }
        if !has_moved {
            thread::sleep(PAUSE);
        }
        now = Instant::now();
        if now - checked > CHECK_INTERVAL {
            memory.check_kernel()?;
            checked = now;
        }
    }
    let report = connections::report(&links, role, begun.elapsed(), &memory);
    for link in links {
        link.close()?;
    }
    memory.check_end()?;
    Ok(report)
}

/// The other process. Dropping kills it.
struct OtherProcess(Child);

impl OtherProcess {
    fn start(options: &CrowdOptions, seed: u64, socket: &Path) -> Result<Self, String> {
        let started = std::env::current_exe().and_then(|program| {
            Command::new(program)
                .arg("crowd")
                .arg("--socket")
                .arg(socket)
                .args(["--parent", &id().to_string(), "--seed", &seed.to_string()])
                .args(options.to_arguments())
                .spawn()
        });
        started.map(Self).map_err(|error| format!("cannot start the other process: {error}"))
    }

    /// Waits for its end.
    fn finish(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("the other process ended with {status}")),
                Ok(None) if begun.elapsed() < HANG_TIMEOUT => thread::sleep(Duration::from_millis(10)),
                Ok(None) => return Err("the other process does not end".into()),
                Err(error) => return Err(format!("cannot wait for the other process: {error}")),
            }
        }
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
