//! The peer's process: this test program, started once more.

use core::sync::atomic::{AtomicBool, Ordering};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use crate::PHASES;
use crate::case::{Case, PATIENCE};
use crate::peer::play::Player;
use crate::peer::script::{Place, Role, Step};

/// Environment variables that make this program the peer: the case, the place to meet, and the process that waits for it.
const CASE: &str = "SUPERPIPE_SCRIPTED_CASE";
const SOCKET: &str = "SUPERPIPE_SCRIPTED_SOCKET";
const ADDRESS: &str = "SUPERPIPE_SCRIPTED_ADDRESS";
const PARENT: &str = "SUPERPIPE_SCRIPTED_PARENT";

/// A line of the peer's output that is for this end.
const SAYS: &str = "peer says: ";
const LISTENS: &str = "listens";
const CUE: &str = "cue";
const HEARD: &str = "heard";

/// The running peer, as its parent sees it. Dropped, it is killed.
pub(crate) struct Peer {
    child: Child,
    tell: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
    script: &'static [Step],
}

impl Peer {
    /// Starts it. One that listens does so when this returns.
    pub(crate) fn start(name: &str, case: &Case, place: &Place) -> Self {
        let (variable, place) = match place {
            Place::Shm(path) => (SOCKET, path.clone().into_os_string()),
            Place::Rdma(address) => (ADDRESS, address.to_string().into()),
        };
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["peer::the_other_process", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(CASE, name)
            .env(variable, place)
            .env(PARENT, std::process::id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, says) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut peer = Self { child, tell, says, script: case.script };
        if case.role == Role::Listens {
            peer.hear(LISTENS);
        }
        peer
    }

    /// Waits until the script has come to its cue, if it has one.
    pub(crate) fn await_cue(&mut self) {
        if self.script.iter().any(|step| matches!(step, Step::Cue)) {
            self.hear(CUE);
        }
    }

    /// Waits until the peer has seen a sign of life.
    pub(crate) fn await_life(&mut self) {
        self.hear(HEARD);
    }

    fn hear(&mut self, word: &str) {
        loop {
            let mut line = String::new();
            assert!(self.says.read_line(&mut line).unwrap() > 0, "the peer ended before it said {word:?}");
            if line.split_once(SAYS).is_some_and(|(_, said)| said.trim_end() == word) {
                return;
            }
        }
    }

    /// Ends the script's `Await`.
    pub(crate) fn tell(&mut self) {
        self.tell.as_mut().unwrap().write_all(b"x").unwrap();
    }

    /// Waits until a peer whose script kills it is dead.
    pub(crate) fn await_death(&mut self) {
        self.child.wait().unwrap();
    }

    /// Ends it. A script that could not go on fails the case.
    pub(crate) fn end(mut self) {
        let dies = dies(self.script);
        let ended = if dies { Some(self.child.wait().unwrap()) } else { self.child.try_wait().unwrap() };
        let is_well = ended.is_none_or(|status| dies && status.signal() == Some(libc::SIGKILL));
        assert!(is_well, "the script went wrong: {ended:?}");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dies(script: &[Step]) -> bool {
    script.iter().any(|step| matches!(step, Step::Die))
}

/// The script of this process ends by its death.
static DIES: AtomicBool = AtomicBool::new(false);

/// Ends the script, as at its end: the other end has gone, whose result tells.
pub(super) fn give_up() -> ! {
    if DIES.load(Ordering::Relaxed) {
        die();
    }
    loop {
        thread::sleep(PATIENCE);
    }
}

pub(super) fn die() {
    // SAFETY: the calls take integers only.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// Plays the peer if this is the peer's process.
pub(super) fn run() {
    let Ok(name) = env::var(CASE) else { return };
    let parent: i32 = env::var(PARENT).unwrap().parse().unwrap();
    // SAFETY: both calls take integers only.
    let is_orphan = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::getppid() != parent
    };
    if is_orphan {
        return;
    }
    let mut parts = name.rsplit("::");
    let (case, _, phase) = (parts.next().unwrap(), parts.next(), parts.next().unwrap());
    let (_, table) = PHASES.iter().find(|(name, _)| *name == phase).unwrap();
    let (_, case) = table.iter().find(|(name, _)| *name == case).unwrap();
    let place = match env::var(ADDRESS) {
        Ok(address) => Place::Rdma(address.parse().unwrap()),
        Err(_) => Place::Shm(PathBuf::from(env::var(SOCKET).unwrap())),
    };
    DIES.store(dies(case.script), Ordering::Relaxed);
    Player::new(case.role, place).play(case.script);
}

pub(super) fn say_listens() {
    say(LISTENS);
}

pub(super) fn say_cue() {
    say(CUE);
}

pub(super) fn say_heard() {
    say(HEARD);
}

fn say(word: &str) {
    println!("{SAYS}{word}");
    std::io::stdout().flush().unwrap();
}
