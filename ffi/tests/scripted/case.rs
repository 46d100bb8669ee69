//! A case, and how it is judged.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use superpipe::{Address, Connection, Error, ErrorKind, Listener, Options, Protocol, StreamError, Tuning};

use crate::held::{Held, cpu_time};
use crate::peer::process::Peer;
use crate::peer::script::{Place, Role, Script};
use crate::us::Us;

/// Cases of a phase, by name.
pub(crate) type Table = &'static [(&'static str, &'static Case)];

/// A call may take ten times its deadline.
const LATE: u32 = 10;
/// For what has no deadline of its own: a peer that starts, a good-bye, a descriptor that is closed elsewhere.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The deadline that a dropped connection has for its good-bye.
pub(crate) const GOODBYE: Duration = Duration::from_secs(1);

/// Looked at by every wait of a case that asks for it.
static INTERRUPT: AtomicBool = AtomicBool::new(false);

/// One misbehaviour, and what must come of it.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) role: Role,
    pub(crate) script: Script,
    pub(crate) options: fn() -> Options,
    pub(crate) call: Call,
    /// The deadline of the call.
    pub(crate) limit: Duration,
    /// Results that the call may return, and a part of the error's text.
    pub(crate) want: &'static [Result<(), ErrorKind>],
    pub(crate) text: &'static str,
    /// The call only waits, and must sleep meanwhile.
    pub(crate) is_idle: bool,
}

/// A call that is tried at this end.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// To connect or accept, with the deadline.
    Meet,
    /// To connect or accept, until the interrupt flag is set after the deadline's time.
    MeetInterrupted,
    /// To accept, again and again, until a connection is made.
    MeetAtLast,
    /// Something on a connection that was made and warmed up before.
    With(fn(&mut Us) -> Seen),
}

/// The result of a call.
pub(crate) type Seen = Result<(), Failed>;

/// An error of any call.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) kind: ErrorKind,
    text: String,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { kind: error.kind(), text: error.to_string() }
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        let text = error.to_string();
        let inner = error.into_inner().and_then(|inner| inner.downcast::<Error>().ok());
        let Some(error) = inner else { panic!("no error of the connection: {text}") };
        (*error).into()
    }
}

impl From<StreamError> for Failed {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Connection(error) => error.into(),
            StreamError::Local(error) => panic!("an error of this end: {error}"),
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.text)
    }
}

/// A short handshake, where only its time-out ends it.
pub(crate) fn brief() -> Options {
    Options { handshake_timeout: Duration::from_millis(300), ..Options::default() }
}

/// With the flag that [`Us::interrupted`] sets.
pub(crate) fn interruptible() -> Options {
    Options { interrupt: Some(&INTERRUPT), handshake_timeout: PATIENCE, ..Options::default() }
}

/// As [`interruptible`], with a short idle timeout.
pub(crate) fn impatient() -> Options {
    Options { idle_timeout: Duration::from_millis(300), ..interruptible() }
}

/// As [`interruptible`], of an end that maps no memory of its peer.
pub(crate) fn unmapping() -> Options {
    let tuning = Tuning { protocol: Some(Protocol::Superpipeline), ..Tuning::default() };
    Options { tuning, ..interruptible() }
}

/// Deadline of a call that only its deadline ends.
pub(crate) const SOON: Duration = Duration::from_millis(100);

/// Deadline of a call that the idle timeout ends, of 300 ms at most. On a busy host that is told later: 50 ms of silence are counted at a time.
pub(crate) const SILENT: Duration = Duration::from_secs(3);

/// Defaults of a case: a deadline that no call comes to, any text, CPU time is not looked at.
pub(crate) const CASE: Case = Case {
    role: Role::Connects,
    script: &[],
    options: interruptible,
    call: Call::Meet,
    limit: Duration::from_secs(15),
    want: &[],
    text: "",
    is_idle: false,
};

/// Notes it in [`MISSED`] unless `work` returns within ten times `limit`. Fails if that is a hang.
pub(crate) fn bounded<T>(what: &str, limit: Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work();
    let elapsed = begun.elapsed();
    let took = format!("{what} took {elapsed:?}, its deadline was {limit:?}");
    println!("{took}");
    assert!(elapsed < hang(limit), "{took}");
    if elapsed >= limit * LATE {
        *missed() = Some(took);
    }
    result
}

/// Returns the time that no busy host explains, of a call with this deadline.
fn hang(limit: Duration) -> Duration {
    PATIENCE.max(limit * LATE)
}

/// Plays of a case until one of them is within its bounds. A busy host delays a call. CPU time counts what a hypervisor, or an emulator,
/// takes from this machine for others, too. An end that is late, or spins, is so in all of them.
const PLAYS: u32 = 3;

/// A bound that was missed in the current play: of time, or of the CPU time of a wait that was to sleep.
static MISSED: Mutex<Option<String>> = Mutex::new(None);

fn missed() -> MutexGuard<'static, Option<String>> {
    MISSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does the same as [`bounded`], and notes it in [`MISSED`] if a wait which is to sleep spends more than one `idle_share`-th of its time on a CPU.
pub(crate) fn bounded_idle<T>(limit: Duration, idle_share: Option<u32>, work: impl FnOnce() -> T) -> T {
    let (begun, spent) = (Instant::now(), cpu_time());
    let result = bounded("the call", limit, work);
    let (elapsed, spent) = (begun.elapsed(), cpu_time().saturating_sub(spent));
    if idle_share.is_some_and(|share| spent >= elapsed / share) {
        *missed() = Some(format!("a wait of {elapsed:?} spent {spent:?} of CPU time"));
    }
    result
}

/// Sets the interrupt flag after this time, if `call` still runs.
pub(crate) fn interrupted<T>(after: Duration, call: impl FnOnce() -> T) -> T {
    let (runs, ends) = channel::<()>();
    let interrupter = thread::spawn(move || {
        if ends.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
            INTERRUPT.store(true, Ordering::Relaxed);
        }
    });
    let result = call();
    drop(runs);
    interrupter.join().unwrap();
    result
}

/// Fabric that a case is played over.
#[derive(Clone, Copy)]
pub(crate) enum Ground {
    Shm,
    /// RDMA, at this address.
    Rdma(IpAddr),
}

impl Ground {
    /// Factor for every deadline and timeout of a case: an emulated CPU takes its time.
    const fn slowness(self) -> u32 {
        match self {
            Self::Shm => 1,
            Self::Rdma(_) => 4,
        }
    }

    /// Divisor of the time that a wait may spend on a CPU. A wait that sleeps spends a fiftieth. On an emulated CPU the time in which
    /// other processes hold it up counts as well.
    fn idle_share(self, case: &Case) -> Option<u32> {
        let share = match self {
            Self::Shm => 4,
            Self::Rdma(_) => 2,
        };
        case.is_idle.then_some(share)
    }

    fn options(self, case: &Case) -> Options {
        let options = (case.options)();
        let slowness = self.slowness();
        Options {
            handshake_timeout: options.handshake_timeout * slowness,
            idle_timeout: options.idle_timeout * slowness,
            linger: options.linger / slowness,
            ..options
        }
    }

    /// A new place, where a peer of this role listens, or this end.
    fn place(self, path: &SocketPath) -> Place {
        static NEXT: AtomicU16 = AtomicU16::new(FIRST_PORT);
        match self {
            Self::Shm => Place::Shm(path.0.clone()),
            Self::Rdma(ip) => Place::Rdma(SocketAddr::new(ip, NEXT.fetch_add(1, Ordering::Relaxed))),
        }
    }
}

/// Of as many as there are cases, none of which another program is likely to have.
const FIRST_PORT: u16 = 21_000;

/// A path for a socket. Dropped, nothing is there.
struct SocketPath(PathBuf);

impl SocketPath {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("superpipe-scripted-{}-{number}.sock", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        // A listener here has taken it away already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Plays a case over shared memory.
pub(crate) fn play(name: &str, case: &Case) {
    play_on(Ground::Shm, name, case);
}

/// Plays a case, again while it misses a bound.
pub(crate) fn play_on(ground: Ground, name: &str, case: &Case) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut misses = Vec::new();
    for _ in 0..PLAYS {
        *missed() = None;
        play_once(ground, name, case);
        match missed().take() {
            Some(miss) => misses.push(miss),
            None => return,
        }
    }
    panic!("{name} misses a bound in each play: {misses:?}");
}

fn play_once(ground: Ground, name: &str, case: &Case) {
    INTERRUPT.store(false, Ordering::Relaxed);
    let held = Held::now();
    let path = SocketPath::new();
    let place = ground.place(&path);
    let address = match &place {
        Place::Shm(path) => Address::Shm(path.clone()),
        Place::Rdma(at) => Address::Rdma { host: at.ip().to_string(), port: at.port() },
    };
    let (options, limit) = (ground.options(case), case.limit * ground.slowness());
    let idle_share = ground.idle_share(case);
    let mut listener = (case.role == Role::Connects).then(|| Listener::bind(&address, options).unwrap());
    let mut peer = Peer::start(name, case, &place);
    let meet = |deadline: Duration, listener: &mut Option<Listener>| match listener {
        Some(listener) => listener.accept(deadline),
        None => Connection::connect(&address, options, deadline),
    };
    let seen = match case.call {
        Call::Meet => {
            peer.await_cue();
            let met = bounded_idle(limit, idle_share, || meet(limit, &mut listener));
            let seen = met.as_ref().map(|_| ()).map_err(|error| error.clone().into());
            bounded("drop", GOODBYE, || drop(met));
            seen
        }
        Call::MeetInterrupted => {
            peer.await_cue();
            let met =
                interrupted(limit, || bounded_idle(limit, idle_share, || meet(PATIENCE, &mut listener)));
            met.map(drop).map_err(Failed::from)
        }
        Call::MeetAtLast => {
            peer.await_cue();
            let begun = Instant::now();
            let met = bounded("the first connection", limit, || {
                loop {
                    match meet(PATIENCE, &mut listener) {
                        Err(error) if begun.elapsed() < hang(limit) => println!("{error}"),
                        met => break met,
                    }
                }
            });
            met.map(drop).map_err(Failed::from)
        }
        Call::With(call) => {
            let connection = meet(PATIENCE, &mut listener).unwrap();
            let mut us = Us::new(connection, &mut peer, limit, idle_share);
            us.peer().await_cue();
            call(&mut us)
        }
    };
    if let Some(listener) = listener {
        drop(listener);
    }
    peer.end();
    let kind = seen.as_ref().copied().map_err(|failed: &Failed| failed.kind);
    let text = seen.map_or_else(|failed| failed.to_string(), |()| "Ok".into());
    assert!(case.want.contains(&kind), "{name}: {text}, expected one of {:?}", case.want);
    assert!(kind.is_ok() || text.contains(case.text), "{name}: {text:?} does not say {:?}", case.text);
    held.await_again(PATIENCE);
}

/// Makes a test of each case, and the table that the peer finds its script in.
macro_rules! cases {
    ($($(#[$attribute:meta])* $name:ident: $case:expr;)*) => {
        /// The cases of this phase.
        pub(crate) const CASES: $crate::case::Table = &[$((stringify!($name), &$case)),*];

        mod cases {
            $(
                #[test]
                $(#[$attribute])*
                fn $name() {
                    let (_, case) = super::CASES.iter().find(|(name, _)| *name == stringify!($name)).unwrap();
                    $crate::case::play(concat!(module_path!(), "::", stringify!($name)), case);
                }
            )*
        }
    };
}
