//! Jobs: long work in short steps, made by a helper thread of the process, or by the caller between its own rounds.
//!
//! ```text
//! begin -> under way --step: More--> under way --step: Done--> over --poll--> taken
//!             \--Ticket dropped--> cancelled: whoever finds it next drops the steps
//! ```
//!
//! - **The helper** is made at the first job. It runs on the process's cores without those that a caller is pinned to: a new thread
//!   inherits the pin of its maker, and would preempt a caller that polls without a pause. It makes one step of each job in turn.
//! - **The caller** makes the steps itself, one per poll, if no core is left for a helper or none can be started. If the helper
//!   exists and makes no progress for some polls, since another thread keeps its core busy, a poll makes the next step.
//! - **Each step is made once.** A step is made under the job's lock, which both ends only try: a poll that finds the helper in a
//!   step returns at once.
//! - A step that panics ends its job with an error.
//! - `poll` never waits, and allocates nothing itself. It reads the clock only around a step that it makes, whose time counts for the
//!   caller's thread (`step_time`).
//!
//! A child of fork has no helper and none of its parent's jobs: [`Jobs::of_process`] makes new ones there, and a ticket of the parent ends
//! with [`JobError::OtherProcess`].

use super::clock::monotonic_ns;
use super::owner::Owner;
use super::pin::{CoreSet, current_cores, move_thread, process_cores};
use super::step_time::timed;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use core::time::Duration;
use core::{array, error, fmt, mem, ptr};
use spin::mutex::SpinMutex;
use std::panic::catch_unwind;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};

/// Limit of jobs that wait for the helper. A connection has few at a time, and a process rarely as many connections that grow at once.
pub const JOBS_MAX: usize = 64;
/// Polls without progress of the helper until the caller makes a step: longer than it takes to wake a thread, tens of microseconds.
const POLLS_UNTIL_STEP: u32 = 256;
/// The same once the caller has made a step, until the helper makes one.
const POLLS_BETWEEN_STEPS: u32 = 16;
/// Pause between two looks at a job whose step is under way.
const PAUSE: Duration = Duration::from_micros(50);

/// Work that can be made in steps, each of them as short as the caller can do without its turn.
pub trait Steps: Send + 'static {
    /// What the work results in.
    type Output: Send;

    /// Makes the next step. It is not called again after [`Step::Done`].
    fn step(&mut self) -> Step<Self::Output>;
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<T> {
    /// There are more steps to make.
    More,
    /// The work is over, with this result.
    Done(T),
}

/// [`JOBS_MAX`] jobs are under way. Gives the steps back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy<S>(pub S);

/// A job that has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobError {
    /// One of its steps panicked.
    Panicked,
    /// It belongs to the process that this one was forked from.
    OtherProcess,
}

/// The jobs of a process, and their helper thread. Dropping it ends the helper after the step under way.
pub struct Jobs {
    table: Arc<Table>,
    helper: Mutex<Option<Helper>>,
    owner: Owner,
    /// Callers make all steps, so that a test's device sees them in its thread.
    #[cfg(test)]
    is_alone: bool,
}

/// The caller's end of a job. Dropping it cancels the job, and does not wait for a step under way.
///
/// | call | changes |
/// |---|---|
/// | `poll` | may make a step; its first result is the last |
/// | `wait` | cancels, and waits until the steps are dropped |
/// | `end` | the same without a deadline, and drops the result as well |
pub struct Ticket<S: Steps> {
    job: Arc<Job<S>>,
    /// None if the caller makes all steps.
    helper: Option<Thread>,
    owner: Owner,
    /// The job's count of steps at the last poll.
    steps_seen: u32,
    idle_polls: u32,
    patience_polls: u32,
}

struct Helper {
    thread: JoinHandle<()>,
    cores: CoreSet,
}

/// The jobs that wait for the helper. A place is locked no longer than it takes to make or copy an `Arc`, and no thread waits for one.
struct Table {
    places: [SpinMutex<Place>; JOBS_MAX],
    /// Set before the helper is woken. It orders nothing else.
    is_closed: AtomicBool,
}

type Place = Option<Arc<dyn Turns>>;

/// A job, whatever its steps are.
trait Turns: Send + Sync {
    /// Makes a step if nobody else is making one, or drops the steps if they are cancelled.
    fn turn(&self) -> Turn;

    /// Returns true if the job is over or cancelled.
    fn is_ended(&self) -> bool;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Another thread makes a step.
    Busy,
    Stepped,
    /// No steps are left: they were dropped.
    Over,
}

struct Job<S: Steps> {
    work: SpinMutex<Work<S>>,
    /// Steps made. Only compared: what a step did is seen under the lock.
    steps: AtomicU32,
    /// Set once `work` is over. Only a hint to take the lock, likewise.
    is_over: AtomicBool,
    /// Set once by the ticket. It orders nothing.
    is_cancelled: AtomicBool,
}

enum Work<S: Steps> {
    UnderWay(S),
    Over(Result<S::Output, JobError>),
    Taken,
}

impl Jobs {
    /// Makes a table of jobs, without a thread.
    #[must_use]
    pub fn new() -> Self {
        let places = array::from_fn(|_| SpinMutex::new(None));
        let table = Arc::new(Table { places, is_closed: AtomicBool::new(false) });
        Self {
            table,
            helper: Mutex::new(None),
            owner: Owner::current(),
            #[cfg(test)]
            is_alone: false,
        }
    }

    /// Makes a table of jobs whose callers make all steps.
    #[cfg(test)]
    pub(crate) fn alone() -> Self {
        let mut jobs = Self::new();
        jobs.is_alone = true;
        jobs
    }

    /// Returns the jobs of this process. They live until it ends.
    #[must_use]
    pub fn of_process() -> &'static Self {
        static JOBS: AtomicPtr<Jobs> = AtomicPtr::new(ptr::null_mut());
        let mut found = JOBS.load(Ordering::Acquire);
        loop {
            // SAFETY: it is null or a leaked box, which nobody changes or frees; Acquire pairs with the Release of the exchange below.
            match unsafe { found.as_ref() } {
                Some(jobs) if jobs.owner.is_current() => return jobs,
                _ => {}
            }
            let made = Box::into_raw(Box::new(Self::new()));
            match JOBS.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: it was just leaked, and is never freed.
                Ok(_) => return unsafe { &*made },
                Err(other) => {
                    // SAFETY: the failed exchange published another one: no other code has the address of this box.
                    drop(unsafe { Box::from_raw(made) });
                    found = other;
                }
            }
        }
    }

    /// Begins a job. The first one makes the helper thread. It allocates, and may wait for another thread that begins one.
    ///
    /// # Errors
    /// [`JOBS_MAX`] jobs are under way.
    pub fn begin<S: Steps>(&self, steps: S) -> Result<Ticket<S>, Busy<S>> {
        let helper = self.helper_beside(&current_cores(), process_cores);
        let job = match &helper {
            Some(helper) => {
                let job = self.table.put(steps)?;
                helper.unpark();
                job
            }
            None => Arc::new(Job::new(steps)),
        };
        let (steps_seen, idle_polls, patience_polls) = (0, 0, POLLS_UNTIL_STEP);
        Ok(Ticket { job, helper, owner: self.owner, steps_seen, idle_polls, patience_polls })
    }

    /// Returns the helper, moved away from the cores of a caller, or None if no core is left for it.
    fn helper_beside(&self, caller: &CoreSet, process: impl Fn() -> CoreSet) -> Option<Thread> {
        #[cfg(test)]
        if self.is_alone {
            return None;
        }
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(helper) = &mut *helper {
            let overlap = helper.cores.without(&helper.cores.without(caller));
            if !overlap.is_empty() {
                let cores = cores_beside(&process(), caller, &helper.cores)?;
                if cores != helper.cores {
                    move_thread(&helper.thread, &cores).ok()?;
                    helper.cores = cores;
                }
            }
            return Some(helper.thread.thread().clone());
        }
        let process = process();
        let made = Helper::make(&self.table, cores_beside(&process, caller, &process)?)?;
        Some(helper.insert(made).thread.thread().clone())
    }
}

impl Default for Jobs {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.table.is_closed.store(true, Ordering::Relaxed);
        let helper = self.helper.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(helper) = helper.as_ref().filter(|_| self.owner.is_current()) {
            helper.thread.thread().unpark();
        }
    }
}

/// Returns the cores of `own` for a helper beside a caller that may run on `caller`. None if the caller leaves none. A caller that may run
/// on all cores of the process is not pinned, and leaves all.
fn cores_beside(process: &CoreSet, caller: &CoreSet, own: &CoreSet) -> Option<CoreSet> {
    if process.without(caller).is_empty() && process.len() > 1 {
        return Some(own.clone());
    }
    Some(own.without(caller)).filter(|left| !left.is_empty())
}

impl Helper {
    fn make(table: &Arc<Table>, cores: CoreSet) -> Option<Self> {
        let table = Arc::clone(table);
        let (moved, is_moved) = sync_channel(1);
        let work = move || {
            // Nothing comes if it cannot be moved from the caller's cores: then it ends.
            if is_moved.recv().is_ok() {
                table.work();
            }
        };
        let thread = thread::Builder::new().name("superpipe-jobs".into()).spawn(work).ok()?;
        move_thread(&thread, &cores).ok()?;
        moved.send(()).ok()?;
        Some(Self { thread, cores })
    }
}

impl Table {
    /// Makes steps until the table is closed.
    fn work(&self) {
        while !self.is_closed.load(Ordering::Relaxed) {
            let mut turns = [Turn::Over; JOBS_MAX];
            for (place, turn) in self.places.iter().zip(&mut turns) {
                // A job whose drop panics must not end the helper of all others.
                *turn = catch_unwind(AssertUnwindSafe(|| round(place))).unwrap_or(Turn::Over);
            }
            if turns.iter().all(|turn| *turn == Turn::Over) {
                thread::park();
            } else if !turns.contains(&Turn::Stepped) {
                // A caller is in a step, which it makes because this thread was late.
                thread::sleep(PAUSE);
            }
        }
    }

    /// Puts a job in a free place, or in one whose job is over or cancelled.
    fn put<S: Steps>(&self, steps: S) -> Result<Arc<Job<S>>, Busy<S>> {
        let find = |is_free: fn(&dyn Turns) -> bool| {
            self.places
                .iter()
                .filter_map(SpinMutex::try_lock)
                .find(|held| held.as_deref().is_none_or(is_free))
        };
        let Some(mut place) = find(|_| false).or_else(|| find(|held| held.is_ended())) else {
            return Err(Busy(steps));
        };
        let job = Arc::new(Job::new(steps));
        let ended = place.replace(Arc::<Job<S>>::clone(&job));
        // It may drop the steps of a cancelled job, which can take long.
        drop(place);
        drop(ended);
        Ok(job)
    }
}

/// Makes a step of the job in a place, and removes a job that is over.
fn round(place: &SpinMutex<Place>) -> Turn {
    let Some(held) = place.try_lock() else { return Turn::Busy };
    let Some(job) = held.clone() else { return Turn::Over };
    drop(held);
    let turn = job.turn();
    if turn == Turn::Over
        && let Some(mut held) = place.try_lock()
    {
        // Another job may be there by now.
        let ended = held.take_if(|held| Arc::ptr_eq(held, &job));
        drop(held);
        drop(ended);
    }
    turn
}

impl<S: Steps> Job<S> {
    fn new(steps: S) -> Self {
        Self {
            work: SpinMutex::new(Work::UnderWay(steps)),
            steps: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
        }
    }
}

impl<S: Steps> Turns for Job<S> {
    fn turn(&self) -> Turn {
        let Some(mut work) = self.work.try_lock() else { return Turn::Busy };
        let Work::UnderWay(steps) = &mut *work else { return Turn::Over };
        let end = if self.is_cancelled.load(Ordering::Relaxed) {
            Work::Taken
        } else {
            let step = catch_unwind(AssertUnwindSafe(|| steps.step()));
            self.steps.fetch_add(1, Ordering::Relaxed);
            match step {
                Ok(Step::More) => return Turn::Stepped,
                Ok(Step::Done(output)) => Work::Over(Ok(output)),
                Err(panic) => {
                    drop_quietly(panic);
                    Work::Over(Err(JobError::Panicked))
                }
            }
        };
        drop_quietly(mem::replace(&mut *work, end));
        self.is_over.store(true, Ordering::Relaxed);
        Turn::Over
    }

    fn is_ended(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// Drops a value whose drop may panic.
fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        mem::forget(panic);
    }
}

impl<S: Steps> Ticket<S> {
    /// Returns the result once there is one; then no more. May make one step; never waits.
    pub fn poll(&mut self) -> Option<Result<S::Output, JobError>> {
        if !self.owner.is_current() {
            return Some(Err(JobError::OtherProcess));
        }
        if !self.is_turn_due() {
            return None;
        }
        let turn = timed(|| self.job.turn());
        self.steps_seen = self.job.steps.load(Ordering::Relaxed);
        if turn != Turn::Over {
            return None;
        }
        match mem::replace(&mut *self.job.work.try_lock()?, Work::Taken) {
            Work::Over(result) => Some(result),
            Work::UnderWay(_) | Work::Taken => None,
        }
    }

    /// Cancels the job, and waits until its steps are dropped: for a caller that is about to free what they use. Returns false if a step
    /// is still under way at `deadline_ns` of the monotonic clock.
    #[must_use]
    pub fn wait(self, deadline_ns: u64) -> bool {
        self.job.is_cancelled.store(true, Ordering::Relaxed);
        while self.owner.is_current() {
            if self.job.turn() == Turn::Over {
                return true;
            }
            if monotonic_ns() >= deadline_ns {
                return false;
            }
            thread::sleep(PAUSE);
        }
        // Nobody makes the steps of a parent's job here, and what they use is the parent's.
        true
    }

    /// Cancels the job, and waits until its steps and its result are dropped, for however long the step under way takes: for a caller that must
    /// not return before.
    pub fn end(self) {
        self.job.is_cancelled.store(true, Ordering::Relaxed);
        while self.owner.is_current() {
            if self.job.turn() == Turn::Over
                && let Some(mut work) = self.job.work.try_lock()
            {
                return drop_quietly(mem::replace(&mut *work, Work::Taken));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Returns true if this poll is to take the job's lock: for the result, or for a step that the helper has not made.
    fn is_turn_due(&mut self) -> bool {
        if self.helper.is_none() || self.job.is_over.load(Ordering::Relaxed) {
            return true;
        }
        let steps = self.job.steps.load(Ordering::Relaxed);
        if steps != self.steps_seen {
            (self.steps_seen, self.idle_polls, self.patience_polls) = (steps, 0, POLLS_UNTIL_STEP);
            return false;
        }
        self.idle_polls += 1;
        if self.idle_polls < self.patience_polls {
            return false;
        }
        (self.idle_polls, self.patience_polls) = (0, POLLS_BETWEEN_STEPS);
        true
    }
}

impl<S: Steps> Drop for Ticket<S> {
    fn drop(&mut self) {
        self.job.is_cancelled.store(true, Ordering::Relaxed);
        if let Some(helper) = self.helper.as_ref().filter(|_| self.owner.is_current()) {
            helper.unpark();
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panicked => "a step of a job panicked",
            Self::OtherProcess => "the job belongs to the process that this one was forked from",
        })
    }
}

impl error::Error for JobError {}

#[cfg(test)]
mod tests;
