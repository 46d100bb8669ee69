//! Jobs: who makes their steps and where, cancelling, panics, the limit, and children of fork.

use super::*;
use crate::os::pin::pin_current_thread;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::ThreadId;

/// Ten times what a second of work takes, on a machine that is busy.
const HANG: Duration = Duration::from_secs(20);

fn hang_ns() -> u64 {
    monotonic_ns() + u64::try_from(HANG.as_nanos()).unwrap()
}

/// A job of `left` steps, each of which sends where it ran.
struct Tells {
    left: u32,
    told: Sender<(ThreadId, CoreSet)>,
}

impl Steps for Tells {
    type Output = u32;

    fn step(&mut self) -> Step<u32> {
        self.left -= 1;
        self.told.send((thread::current().id(), current_cores())).unwrap();
        if self.left == 0 { Step::Done(7) } else { Step::More }
    }
}

fn telling(left: u32) -> (Tells, Receiver<(ThreadId, CoreSet)>) {
    let (told, steps) = channel();
    (Tells { left, told }, steps)
}

/// A job whose first step waits until it is let go, and which tells when it is dropped.
struct Stuck {
    entered: Sender<()>,
    go: Receiver<()>,
    _dropped: Sender<()>,
}

impl Steps for Stuck {
    type Output = ();

    fn step(&mut self) -> Step<()> {
        // After the first step nobody asks.
        if self.entered.send(()).is_ok() {
            let _ = self.go.recv_timeout(HANG);
        }
        Step::More
    }
}

struct Grip {
    go: Sender<()>,
    dropped: Receiver<()>,
    ticket: Ticket<Stuck>,
}

/// Begins a job in whose first step the helper then is. None if there is only one core, and so no helper.
fn stuck(jobs: &Jobs) -> Option<Grip> {
    let ((entered, is_in), (go, may_go), (alive, dropped)) = (channel(), channel(), channel());
    let ticket = begin(jobs, Stuck { entered, go: may_go, _dropped: alive });
    if ticket.helper.is_none() {
        println!("only one core here");
        return None;
    }
    is_in.recv_timeout(HANG).unwrap();
    Some(Grip { go, dropped, ticket })
}

fn begin<S: Steps>(jobs: &Jobs, steps: S) -> Ticket<S> {
    let Ok(ticket) = jobs.begin(steps) else { panic!("the table is full") };
    ticket
}

/// Polls as an idle caller would.
fn finish<S: Steps>(ticket: &mut Ticket<S>) -> Result<S::Output, JobError> {
    let end_ns = hang_ns();
    loop {
        if let Some(result) = ticket.poll() {
            return result;
        }
        assert!(monotonic_ns() < end_ns, "it hangs");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a test in a thread of its own, which it may pin.
fn in_a_thread(test: impl FnOnce() + Send + 'static) {
    thread::spawn(test).join().unwrap();
}

fn set(text: &str) -> CoreSet {
    CoreSet::parse(text).unwrap()
}

#[test]
fn a_helper_gets_the_cores_beside_its_callers() {
    let beside = |process, caller, own| cores_beside(&set(process), &set(caller), &set(own));
    assert_eq!(beside("0-3", "1", "0-3"), Some(set("0,2-3")));
    assert_eq!(beside("0-3", "0-1", "0,2-3"), Some(set("2-3")));
    assert_eq!(beside("0-3", "0-3", "0-3"), Some(set("0-3")), "not pinned");
    assert_eq!(beside("0-3", "0-3", "2"), Some(set("2")), "not pinned, and others are");
    assert_eq!(beside("0-3", "2", "2"), None, "the last one");
    assert_eq!(beside("0", "0", "0"), None, "there is only one");
}

#[test]
fn a_pinned_caller_keeps_its_core() {
    in_a_thread(|| {
        let process = process_cores();
        let own = process.iter().next().unwrap();
        pin_current_thread(own).unwrap();
        let jobs = Jobs::new();
        let (steps, told) = telling(3);
        let mut ticket = begin(&jobs, steps);
        let rest = process.without(&CoreSet::from_iter([own]));
        assert_eq!(ticket.helper.is_some(), !rest.is_empty());
        if rest.is_empty() {
            println!("only one core here");
            return;
        }
        // Without a poll: so the helper makes all steps.
        let places: Vec<_> = (0..3).map(|_| told.recv_timeout(HANG).unwrap()).collect();
        for (thread, cores) in places {
            assert_ne!(thread, thread::current().id());
            assert_eq!(cores, rest);
        }
        assert_eq!(finish(&mut ticket), Ok(7));
        assert_eq!(ticket.poll(), None, "a result is taken once");
    });
}

#[test]
fn without_a_core_the_caller_makes_one_step_per_poll() {
    in_a_thread(|| {
        let jobs = Jobs::new();
        let cores: Vec<_> = process_cores().iter().collect();
        // Each of these leaves one core less; the last one leaves none.
        let mut tickets: Vec<_> = cores
            .iter()
            .map(|core| {
                pin_current_thread(*core).unwrap();
                let (steps, told) = telling(2);
                (begin(&jobs, steps), told)
            })
            .collect();
        let (mut ticket, told) = tickets.pop().unwrap();
        assert!(ticket.helper.is_none());
        assert!(told.try_recv().is_err());
        assert_eq!(ticket.poll(), None);
        assert_eq!(told.try_iter().count(), 1);
        assert_eq!(ticket.poll(), Some(Ok(7)));
        assert_eq!(told.try_iter().map(|(thread, _)| thread).collect::<Vec<_>>(), [thread::current().id()]);
        assert_eq!(ticket.poll(), None);
        for (ticket, _) in &mut tickets {
            assert_eq!(finish(ticket), Ok(7));
        }
    });
}

#[test]
fn a_caller_makes_the_steps_of_a_helper_that_is_late() {
    let jobs = Jobs::new();
    let Some(grip) = stuck(&jobs) else { return };
    let (steps, told) = telling(3);
    let mut ticket = begin(&jobs, steps);
    let mut polls_of_steps = Vec::new();
    let result = (1..100 * POLLS_UNTIL_STEP).find_map(|poll| {
        let result = ticket.poll();
        polls_of_steps.extend(told.try_iter().map(|(thread, _)| {
            assert_eq!(thread, thread::current().id());
            poll
        }));
        result
    });
    assert_eq!(result, Some(Ok(7)));
    let (first, next) = (POLLS_UNTIL_STEP, POLLS_BETWEEN_STEPS);
    assert_eq!(polls_of_steps, [first, first + next, first + 2 * next]);
    grip.go.send(()).unwrap();
}

#[test]
fn each_step_is_made_once_by_either_end() {
    struct Counts(u32);
    impl Steps for Counts {
        type Output = u32;
        fn step(&mut self) -> Step<u32> {
            self.0 += 1;
            if self.0 == 10_000 { Step::Done(self.0) } else { Step::More }
        }
    }
    let jobs = Jobs::new();
    let mut tickets: Vec<_> = (0..8).map(|_| begin(&jobs, Counts(0))).collect();
    let end_ns = hang_ns();
    let mut done = 0;
    while done < tickets.len() {
        assert!(monotonic_ns() < end_ns, "it hangs");
        for ticket in &mut tickets {
            // As if the helper were always late: both ends want each step.
            (ticket.idle_polls, ticket.patience_polls) = (0, 1);
            if let Some(result) = ticket.poll() {
                assert_eq!(result, Ok(10_000));
                assert_eq!(ticket.job.steps.load(Ordering::Relaxed), 10_000);
                done += 1;
            }
        }
    }
}

#[test]
fn a_poll_during_a_step_returns_at_once() {
    let jobs = Jobs::new();
    let Some(mut grip) = stuck(&jobs) else { return };
    for _ in 0..10 * POLLS_UNTIL_STEP {
        assert_eq!(grip.ticket.poll(), None);
    }
    grip.go.send(()).unwrap();
}

#[test]
fn a_dropped_ticket_drops_the_steps_after_the_one_under_way() {
    let jobs = Jobs::new();
    let Some(Grip { go, dropped, ticket }) = stuck(&jobs) else { return };
    drop(ticket);
    assert_eq!(dropped.try_recv(), Err(TryRecvError::Empty), "the helper has them");
    go.send(()).unwrap();
    assert!(dropped.recv_timeout(HANG).is_err_and(|end| end == RecvTimeoutError::Disconnected));
}

#[test]
fn a_wait_ends_at_its_deadline_or_with_the_steps() {
    let jobs = Jobs::new();
    let Some(Grip { go, dropped, ticket }) = stuck(&jobs) else { return };
    assert!(!ticket.wait(monotonic_ns()), "a step is under way");
    go.send(()).unwrap();
    let Some(grip) = stuck(&jobs) else { return };
    grip.go.send(()).unwrap();
    assert!(grip.ticket.wait(hang_ns()));
    assert_eq!(grip.dropped.try_recv(), Err(TryRecvError::Disconnected));
    assert!(dropped.recv_timeout(HANG).is_err());
}

#[test]
fn an_end_waits_for_the_step_and_drops_the_result() {
    struct Makes(Sender<()>, Receiver<()>, Option<Sender<()>>);
    impl Steps for Makes {
        type Output = Option<Sender<()>>;
        fn step(&mut self) -> Step<Self::Output> {
            self.0.send(()).unwrap();
            let _ = self.1.recv_timeout(HANG);
            Step::Done(self.2.take())
        }
    }
    let jobs = Jobs::new();
    let ((entered, is_entered), (go, goes), (made, is_made)) = (channel(), channel(), channel());
    let ticket = begin(&jobs, Makes(entered, goes, Some(made)));
    if ticket.helper.is_none() {
        return;
    }
    is_entered.recv_timeout(HANG).unwrap();
    // The helper cannot take the job out of its place, and so does not drop it.
    let _places: Vec<_> = jobs.table.places.iter().filter_map(SpinMutex::try_lock).collect();
    let ending = thread::spawn(move || ticket.end());
    thread::sleep(Duration::from_millis(20));
    assert!(!ending.is_finished(), "a step is under way");
    assert_eq!(is_made.try_recv(), Err(TryRecvError::Empty));
    go.send(()).unwrap();
    ending.join().unwrap();
    assert_eq!(is_made.try_recv(), Err(TryRecvError::Disconnected), "the result is dropped");
}

#[test]
fn a_panic_in_a_step_is_an_error_and_ends_only_its_job() {
    struct Panics;
    impl Steps for Panics {
        type Output = ();
        fn step(&mut self) -> Step<()> {
            std::panic::resume_unwind(Box::new("no message on the terminal"));
        }
    }
    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("nor here"));
        }
    }
    let jobs = Jobs::new();
    for _ in 0..3 {
        assert_eq!(finish(&mut begin(&jobs, Panics)), Err(JobError::Panicked));
    }
    // The helper lives: nobody polls here.
    let (steps, told) = telling(1);
    let ticket = begin(&jobs, steps);
    if ticket.helper.is_some() {
        told.recv_timeout(HANG).unwrap();
    }
    assert_eq!(JobError::Panicked.to_string(), "a step of a job panicked");
}

#[test]
fn the_jobs_are_bounded_and_cancelled_ones_make_room() {
    let jobs = Jobs::new();
    let Some(grip) = stuck(&jobs) else { return };
    let mut tickets: Vec<_> = (1..JOBS_MAX).map(|_| begin(&jobs, telling(1).0)).collect();
    let (steps, told) = telling(5);
    let Err(Busy(steps)) = jobs.begin(steps) else { panic!("one too many") };
    assert_eq!(steps.left, 5, "the steps come back");
    drop(tickets.pop());
    let mut ticket = begin(&jobs, steps);
    let again = jobs.begin(telling(1).0).err();
    assert!(again.is_some(), "there was room for one");
    drop(grip);
    assert_eq!(finish(&mut ticket), Ok(7));
    assert_eq!(told.try_iter().count(), 5);
}

#[test]
fn a_child_has_a_helper_of_its_own_and_no_job_of_its_parent() {
    let jobs = Jobs::of_process();
    assert!(ptr::eq(jobs, Jobs::of_process()));
    assert_eq!(finish(&mut begin(jobs, telling_nobody())), Ok(()));
    let Some(mut grip) = stuck(jobs) else { return };
    // SAFETY: the child takes no lock of another thread but those of the allocator, which the C library hands to the child.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_well = catch_unwind(AssertUnwindSafe(|| {
            assert_eq!(grip.ticket.poll(), Some(Err(JobError::OtherProcess)));
            let own = Jobs::of_process();
            assert!(!ptr::eq(jobs, own));
            let mut ticket = begin(own, telling_nobody());
            while ticket.helper.is_some() && !ticket.job.is_ended() {
                thread::yield_now();
            }
            assert_eq!(finish(&mut ticket), Ok(()));
        }));
        // SAFETY: _exit ends the child and runs nothing of the program's.
        unsafe { libc::_exit(i32::from(is_well.is_err())) }
    }
    let mut status = -1;
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    grip.go.send(()).unwrap();
    assert!(grip.ticket.wait(hang_ns()));
}

/// A job of one step.
fn telling_nobody() -> impl Steps<Output = ()> {
    struct Once;
    impl Steps for Once {
        type Output = ();
        fn step(&mut self) -> Step<()> {
            Step::Done(())
        }
    }
    Once
}
