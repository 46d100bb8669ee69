//! Pins threads to cores, with different errors for a core that is missing and one that is forbidden.
//!
//! The allowed cores are those that this process was started with (taskset, numactl, a container's cpuset), as of the
//! first call: pinning a thread to one core does not forbid it the others. The mask of the process is never widened, even
//! if the kernel would allow it.
//!
//! By libc: rustix has sets of 1,024 cores.

use super::error::OsError;
use core::mem::size_of;
use core::{array, error, fmt};
use std::fs;
use std::os::unix::thread::{JoinHandleExt, RawPthread};
use std::sync::OnceLock;
use std::thread::JoinHandle;

/// Words of a set of cores.
const WORDS: usize = 128;
/// Cores that a set has room for: 8192, the most that Linux is built for on x86-64 (NR_CPUS).
const CORES_MAX: usize = WORDS * 64;

/// A set of cores, displayed as ranges: `0-3,8`.
#[derive(Clone, PartialEq, Eq)]
pub struct CoreSet {
    words: [u64; WORDS],
}

/// A failure to pin a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinError {
    /// The machine has no such core, or it is offline.
    NoSuchCore {
        /// the requested core
        core: usize,
        /// the cores that the machine has
        cores: Box<CoreSet>,
    },
    /// The machine has the core, and this process may not use it.
    NotAllowed {
        /// the requested core
        core: usize,
        /// the cores that it may use
        allowed: Box<CoreSet>,
    },
    /// The kernel refused for another reason.
    Os(OsError),
}

/// Pins the calling thread to one core, so that its caches stay its own.
///
/// # Errors
/// The core does not exist, this process may not use it, or the kernel refuses.
pub fn pin_current_thread(core: usize) -> Result<(), PinError> {
    pin_within(core, inherited(), &online())
}

/// Returns the cores that this process may pin its threads to.
#[must_use]
pub fn allowed_cores() -> CoreSet {
    inherited().clone()
}

/// Returns the cores that threads of this process may run on: those of [`allowed_cores`], and those of any thread there is, since the
/// first call may have come from a thread that its program had pinned. Never more than that, as for pinning.
pub(super) fn process_cores() -> CoreSet {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ids = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    // A thread that has ended in between has no cores any more.
    ids.filter_map(affinity_of).fold(allowed_cores(), |all, cores| all.with(&cores))
}

/// Returns the cores that the calling thread may run on.
pub(super) fn current_cores() -> CoreSet {
    affinity().unwrap_or_else(allowed_cores)
}

/// Moves another thread to `cores`.
pub(super) fn move_thread<T>(thread: &JoinHandle<T>, cores: &CoreSet) -> Result<(), OsError> {
    let id: RawPthread = thread.as_pthread_t();
    // SAFETY: the handle has neither been joined nor detached, so the id is valid; the pointer is to as many readable bytes as
    // the length says.
    match unsafe { libc::pthread_setaffinity_np(id, size_of::<CoreSet>(), cores.words.as_ptr().cast()) } {
        0 => Ok(()),
        errno => Err(OsError::new(errno, format!("cannot move a thread to cores {cores}"))),
    }
}

impl CoreSet {
    /// The empty set.
    pub const EMPTY: Self = Self { words: [0; WORDS] };

    /// Parses the kernel's notation, `0-3,8`. None if it is anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut set = Self::EMPTY;
        for range in text.trim().split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= CORES_MAX {
                return None;
            }
            (first..=last).for_each(|core| set.insert(core));
        }
        Some(set)
    }

    /// Returns true if `core` is in the set.
    #[must_use]
    pub fn contains(&self, core: usize) -> bool {
        core < CORES_MAX && self.words[core / 64] >> (core % 64) & 1 != 0
    }

    /// Iterates over the cores, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CORES_MAX).filter(|&core| self.contains(core))
    }

    /// Returns the count of cores.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// Returns the cores of this set that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self { words: array::from_fn(|word| self.words[word] & !other.words[word]) }
    }

    fn with(&self, other: &Self) -> Self {
        Self { words: array::from_fn(|word| self.words[word] | other.words[word]) }
    }

    fn insert(&mut self, core: usize) {
        self.words[core / 64] |= 1 << (core % 64);
    }
}

impl FromIterator<usize> for CoreSet {
    /// Leaves out numbers beyond any machine's.
    fn from_iter<I: IntoIterator<Item = usize>>(cores: I) -> Self {
        let mut set = Self::EMPTY;
        cores.into_iter().filter(|&core| core < CORES_MAX).for_each(|core| set.insert(core));
        set
    }
}

impl fmt::Display for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut core = 0;
        let mut comma = "";
        while core < CORES_MAX {
            if self.contains(core) {
                let first = core;
                while self.contains(core + 1) {
                    core += 1;
                }
                write!(f, "{comma}{first}")?;
                if core > first {
                    write!(f, "-{core}")?;
                }
                comma = ",";
            }
            core += 1;
        }
        if comma.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

impl fmt::Debug for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CoreSet({self})")
    }
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchCore { core, cores } => {
                write!(f, "core {core} does not exist; this machine has cores {cores}")
            }
            Self::NotAllowed { core, allowed } => {
                write!(f, "core {core} is not allowed here; allowed: {allowed}")
            }
            Self::Os(error) => error.fmt(f),
        }
    }
}

impl error::Error for PinError {}

fn pin_within(core: usize, allowed: &CoreSet, online: &CoreSet) -> Result<(), PinError> {
    if !online.contains(core) && !allowed.contains(core) {
        return Err(PinError::NoSuchCore { core, cores: Box::new(online.clone()) });
    }
    if !allowed.contains(core) {
        return Err(PinError::NotAllowed { core, allowed: Box::new(allowed.clone()) });
    }
    set_affinity(&CoreSet::from_iter([core]))
        .map_err(|errno| PinError::Os(OsError::new(errno, format!("cannot pin this thread to core {core}"))))
}

/// Returns the mask of the first thread that called this, before any thread is pinned.
fn inherited() -> &'static CoreSet {
    static INHERITED: OnceLock<CoreSet> = OnceLock::new();
    INHERITED.get_or_init(|| affinity().unwrap_or_else(online))
}

/// Returns the cores that the machine has and that are online.
fn online() -> CoreSet {
    let listed = fs::read_to_string("/sys/devices/system/cpu/online").ok();
    listed.and_then(|text| CoreSet::parse(&text)).filter(|set| !set.is_empty()).unwrap_or_else(|| {
        // SAFETY: sysconf takes an integer and touches no memory of ours.
        let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        (0..usize::try_from(count).unwrap_or(1)).collect()
    })
}

fn affinity() -> Option<CoreSet> {
    affinity_of(0)
}

/// Returns the cores of a thread by its number; 0 is the calling thread.
fn affinity_of(thread: libc::pid_t) -> Option<CoreSet> {
    let mut set = CoreSet::EMPTY;
    // SAFETY: the pointer is to as many bytes of ours as the length says; a cpu_set_t is a bit set of any length.
    let refused =
        unsafe { libc::sched_getaffinity(thread, size_of::<CoreSet>(), set.words.as_mut_ptr().cast()) };
    (refused == 0).then_some(set)
}

fn set_affinity(set: &CoreSet) -> Result<(), i32> {
    // SAFETY: the pointer is to as many readable bytes as the length says.
    let refused = unsafe { libc::sched_setaffinity(0, size_of::<CoreSet>(), set.words.as_ptr().cast()) };
    if refused == 0 { Ok(()) } else { Err(super::error::last_errno()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn sets_have_the_notation_of_the_kernel() {
        for text in ["0", "0-1", "0,2", "0-3,8", "1,3-5,7,63-64,127-128,8191"] {
            assert_eq!(CoreSet::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(CoreSet::parse("0-3,8\n").unwrap().iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(CoreSet::EMPTY.to_string(), "none");
        assert!(CoreSet::parse("").unwrap().is_empty());
        for wrong in ["x", "3-1", "0-", "8192", "-1"] {
            assert_eq!(CoreSet::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_pinned_thread_runs_on_its_core_and_can_be_moved() {
        thread::spawn(|| {
            for core in allowed_cores().iter() {
                pin_current_thread(core).unwrap();
                assert_eq!(affinity().unwrap(), CoreSet::from_iter([core]));
                // SAFETY: sched_getcpu takes nothing and touches no memory of ours.
                assert_eq!(usize::try_from(unsafe { libc::sched_getcpu() }), Ok(core));
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_missing_core_is_not_a_forbidden_one() {
        let (online, allowed) = (CoreSet::parse("0-1").unwrap(), CoreSet::parse("0").unwrap());
        let missing = pin_within(9, &allowed, &online).unwrap_err();
        assert_eq!(missing.to_string(), "core 9 does not exist; this machine has cores 0-1");
        let forbidden = pin_within(1, &allowed, &online).unwrap_err();
        assert_eq!(forbidden.to_string(), "core 1 is not allowed here; allowed: 0");
        assert!(matches!(pin_within(usize::MAX, &allowed, &online), Err(PinError::NoSuchCore { .. })));
    }

    #[test]
    fn a_refusal_of_the_kernel_is_reported() {
        let far = CoreSet::from_iter([CORES_MAX - 1]);
        let refused = pin_within(CORES_MAX - 1, &far, &far).unwrap_err();
        assert_eq!(refused.to_string(), "cannot pin this thread to core 8191: invalid argument");
    }
}
