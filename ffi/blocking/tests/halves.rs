//! Two halves that wait, a thread each: what both learn of a peer that dies, and what their sleep costs.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};

use superpipe_core::driver::{Drive, Driver};

use super::attempts::one_of;
use super::doomed::{DEADLINE, Doomed, PLAYS, cpu_time, is_little, pair};
use super::played::{ends_of_sleeps, over, when_a_sleep_begins};
use crate::blocking::access::{Attempt, DriverAccess};
use crate::blocking::half::{Half, HeldHalf};
use crate::blocking::shm::{join, shm_options};
use crate::blocking::waiting::Waiting;
use crate::deadline::ArmedDeadline;
use crate::fabric::HostFabric;
use crate::fabric::shm::{self, handshake};
use crate::os::monotonic_ns;
use crate::os::poll::Polled;
use crate::{ErrorKind, Options, RecvHalf, SendHalf};

const WAIT: Duration = Duration::from_secs(1);
/// Time for the other threads to begin their waits.
const A_WHILE: Duration = Duration::from_millis(200);
/// More than there is room for, while nobody takes anything.
const LONG: usize = 9 << 20;

/// Error and CPU time of both waits of an end: one for room, one for a message.
fn ends_of_both(
    (mut sends, mut receives): (SendHalf, RecvHalf),
    deadline: Duration,
    meanwhile: impl FnOnce(),
) -> [(ErrorKind, Duration); 2] {
    let sending = thread::spawn(move || {
        let message = vec![7; LONG];
        let before = cpu_time();
        let error = sends.send(1, &[&message], deadline).unwrap_err();
        let cost = cpu_time() - before;
        // Dropped only once the other has ended: the connection is there until then.
        (error.kind(), cost, Some(sends), None)
    });
    let receiving = thread::spawn(move || {
        let before = cpu_time();
        let error = receives.recv_into(&mut [&mut [0; 8]], deadline).unwrap_err();
        (error.kind(), cpu_time() - before, None::<SendHalf>, Some(receives))
    });
    meanwhile();
    [sending, receiving].map(|half| half.join().unwrap()).map(|(kind, cost, ..)| (kind, cost))
}

/// Both waits of an end must end by this error, and cost little.
fn assert_ends(wanted: ErrorKind, deadline: Duration, meanwhile: impl Fn(Doomed)) {
    one_of(PLAYS, || {
        let (honest, doomed) = pair();
        let ends = ends_of_both(honest.split(), deadline, || meanwhile(doomed));
        assert_eq!(ends.map(|(kind, _)| kind), [wanted; 2]);
        ends.into_iter().try_for_each(|(_, cost)| is_little(cost))
    });
}

#[test]
fn two_halves_that_sleep_cost_next_to_nothing() {
    assert_ends(ErrorKind::Timeout, WAIT, |_| {});
}

/// The last of the two sleepers takes out a wake-up that nobody waits for. Otherwise both would be woken by it for ever.
#[test]
fn nor_where_they_are_woken_for_nothing() {
    assert_ends(ErrorKind::Timeout, WAIT, |doomed| {
        for _ in 0..20 {
            thread::sleep(WAIT / 40);
            doomed.wake();
        }
    });
}

#[test]
fn both_halves_learn_that_the_peer_is_dead() {
    assert_ends(ErrorKind::PeerLost, DEADLINE, |doomed| {
        thread::sleep(WAIT);
        doomed.die();
    });
}

/// No wake-up comes for data that the other half took in between the last attempt and the sleep.
#[test]
fn an_attempt_is_made_once_the_sleep_has_begun() {
    for has_moved in [false, true] {
        let [mut half, _other] = over(Options::default(), |_, _| {}).split();
        let is_there = Arc::new(AtomicBool::new(false));
        let comes = Arc::clone(&is_there);
        when_a_sleep_begins(move || comes.store(true, Ordering::Relaxed));
        let mut moves = has_moved;
        half.access()
            .wait(DEADLINE.into(), |_, _| match is_there.load(Ordering::Relaxed) {
                true if core::mem::take(&mut moves) => Drive::Moved,
                true => Drive::Done(()),
                false => Drive::Idle,
            })
            .unwrap();
        assert_eq!(ends_of_sleeps(), [Ok(Polled::Interrupted)], "it was not slept");
    }
}

/// A half that is refused the lock says so, and the other lets it go first, once.
#[test]
fn a_half_that_was_refused_has_the_next_turn() {
    let [mut half, mut other] = over(Options::default(), |_, _| {}).split();
    let (half, other) = (half.access(), other.access());
    assert!(!half.wants_turn() && !other.wants_turn());
    let held = half.try_hold().unwrap();
    assert!(other.try_hold().is_none());
    drop(held);
    assert!(other.wants_turn());
    half.give_way();
    assert!(!other.wants_turn(), "once");
    let held = half.try_hold().unwrap();
    assert!(other.try_hold().is_none() && other.wants_turn());
    drop(held);
    drop(other.try_hold().unwrap());
    assert!(!other.wants_turn(), "it had its turn");
}

/// The same happens if the other half is preempted while it holds the lock.
#[test]
fn a_wait_without_the_lock_ends_by_deadline_or_interrupt() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let [mut half, mut other] =
        over(Options { interrupt: Some(&STOP), ..Options::default() }, |_, _| {}).split();
    let mut armed = ArmedDeadline::Unarmed(Duration::from_millis(20).into());
    let held = half.access().try_hold().unwrap();
    let refusals = (1..).find_map(|refused| other.access().pause_after_refusal(refused, &mut armed).err());
    assert_eq!(refusals.unwrap().kind(), ErrorKind::Timeout);
    STOP.store(true, Ordering::Relaxed);
    let mut armed = ArmedDeadline::Unarmed(DEADLINE.into());
    let refusals = (1..).find_map(|refused| other.access().pause_after_refusal(refused, &mut armed).err());
    assert_eq!(refusals.unwrap().kind(), ErrorKind::Interrupted);
    drop(held);
}

/// A deadline of zero is a try, which does not wait for the lock either.
#[test]
fn a_send_without_a_deadline_does_not_wait_for_the_lock() {
    let [mut half, mut other] = over(Options::default(), |_, _| {}).split();
    let held = half.access().try_hold().unwrap();
    let (ended, end) = mpsc::channel();
    let sends = thread::spawn(move || {
        for bytes in [8, LONG] {
            let sent = other.send(1, &[&vec![7; bytes]], Duration::ZERO);
            ended.send(sent.map_err(|error| error.kind())).unwrap();
        }
    });
    for _ in 0..2 {
        assert_eq!(end.recv_timeout(DEADLINE), Ok(Err(ErrorKind::Timeout)), "it waits for the lock");
    }
    drop(held);
    sends.join().unwrap();
}

/// Attempt that a half lends while it yields. It counts the attempts, and notes the thread that made the last.
struct Asked {
    attempts: u32,
    by: Option<ThreadId>,
    /// Number of the attempt that succeeds.
    wanted: u32,
}

impl<P: HostFabric> Attempt<P> for Asked {
    fn step(&mut self, _: &mut Driver<P>, _: &mut P) -> Drive<()> {
        self.attempts += 1;
        self.by = Some(thread::current().id());
        if self.attempts == self.wanted { Drive::Done(()) } else { Drive::Idle }
    }
}

/// The other half makes the attempts of a half that yields, until one is done, and none afterwards.
#[test]
fn a_half_that_yields_lends_what_it_waits_for() {
    const WANTED: u32 = 1000;
    let [mut half, mut other] = over(Options::default(), |_, _| {}).split();
    let (is_over, here) = (AtomicBool::new(false), thread::current().id());
    thread::scope(|scope| {
        let lending = scope.spawn(|| {
            let mut asked = Asked { attempts: 0, by: None, wanted: WANTED };
            while asked.attempts < WANTED {
                half.access().yield_lending(&mut asked);
            }
            // It is taken back: nobody makes an attempt any more.
            is_over.store(true, Ordering::Release);
            thread::sleep(A_WHILE / 10);
            (asked.attempts, asked.by)
        });
        let (mut steps, mut dones) = (0, 0);
        while !is_over.load(Ordering::Acquire) {
            let mut held = other.access().hold();
            match step_other(&mut held) {
                Some(driven) => {
                    steps += 1;
                    dones += u32::from(driven == Drive::Done(()));
                }
                None => {
                    drop(held);
                    thread::yield_now();
                }
            }
        }
        assert_eq!((steps, dones), (WANTED, 1));
        let mut held = other.access().hold();
        assert_eq!(step_other(&mut held), None, "it was taken back");
        drop(held);
        assert_eq!(lending.join().unwrap(), (WANTED, Some(here)));
    });
}

fn step_other<P: HostFabric>(held: &mut HeldHalf<'_, P>) -> Option<Drive<()>> {
    <Half<P> as DriverAccess>::step_other(held)
}

/// Documented (architecture/waiting.md, "Waiting"): the clock and the interrupt flag are looked at after every yield, which may have lasted
/// another thread's time slice. Whoever has the core here lets each last that long.
#[test]
fn a_half_that_yields_checks_the_time_and_the_interrupt() {
    const SLICE: Duration = Duration::from_millis(4);
    static STOP: AtomicBool = AtomicBool::new(true);
    for (interrupt, deadline) in [(None, Duration::from_nanos(1)), (Some(&STOP), DEADLINE)] {
        let [mut half, mut other] = over(Options { interrupt, ..Options::default() }, |_, _| {}).split();
        // SAFETY: it takes nothing, and gives a number or -1.
        let core = unsafe { libc::sched_getcpu() };
        let is_over = AtomicBool::new(false);
        let yields = thread::scope(|scope| {
            let other = scope.spawn(|| {
                let other = other.access();
                while !is_over.load(Ordering::Relaxed) {
                    let mut held = other.hold();
                    if step_other(&mut held).is_some() {
                        thread::sleep(SLICE);
                    }
                    drop(held);
                    other.waited_on(core);
                    thread::yield_now();
                }
            });
            thread::sleep(A_WHILE / 10);
            crate::os::pin_current_thread(usize::try_from(core).unwrap()).unwrap();
            let (here, mut was_here, mut yields) = (thread::current().id(), true, 0);
            let idle = |_: &mut _, _: &mut _| {
                let is_here = thread::current().id() == here;
                yields += u32::from(is_here && !was_here);
                was_here = is_here;
                Drive::<()>::Idle
            };
            half.access().wait(deadline.into(), idle).unwrap_err();
            is_over.store(true, Ordering::Relaxed);
            other.join().unwrap();
            yields
        });
        assert!(yields <= 2, "{yields} yields of a time slice each, after {deadline:?} or an interrupt");
    }
}

/// Both sleep, and are woken; one of them does not get a core (it has a lower priority than this one, on the same core). This one
/// waits on, and costs next to nothing: it sleeps where yielding has not helped (`access.rs`). That makes 25,000 attempts, and yields
/// alone 1,200,000. Attempts, since a machine has a different CPU time for them in each build.
#[test]
fn a_half_sleeps_while_the_other_has_no_core() {
    let path = std::env::temp_dir().join(format!("superpipe-halves-{}.sock", std::process::id()));
    let listener = shm::Listener::bind(&path).unwrap();
    let deadline_ns = monotonic_ns() + 20_000_000_000;
    let options = Options::default();
    let handshake_options = shm_options(&options, deadline_ns);
    let (peer, (socket, agreed)) = thread::scope(|scope| {
        let peer = scope.spawn(|| {
            handshake::accept(listener.accept(deadline_ns).unwrap(), &handshake_options, &|| false).unwrap()
        });
        let met =
            handshake::connect(shm::Socket::connect(&path).unwrap(), &handshake_options, &|| false).unwrap();
        (peer.join().unwrap(), met)
    });
    let [mut half, mut other] = join(socket, agreed, options, true).unwrap().blocking.split();
    {
        // It has begun to sleep, and is in its poll.
        let held = &mut *other.access().hold();
        held.fabric.begin_sleep(held.driver.endpoint_mut(), 1_000_000_000).unwrap();
    }
    peer.0.send(&shm::sleep::WAKE, None).unwrap();
    let mut attempts = 0_u32;
    let idle = |_: &mut _, _: &mut _| {
        attempts += 1;
        Drive::<()>::Idle
    };
    let error = half.access().wait(WAIT.into(), idle).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(attempts < 100_000, "{attempts} attempts in {WAIT:?}");
}
