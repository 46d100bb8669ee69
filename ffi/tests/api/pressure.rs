//! Listeners under pressure: what strangers cost an honest client, and what a call of the listener takes.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Instant;

use superpipe::fabric::shm::fabric::Shm;
use superpipe::fabric::shm::handshake::Established;
use superpipe::fabric::shm::{ConnectError, Socket};
use superpipe::{
    Address, Connection, ErrorKind, Listener, Options, PollEvent, PollEvents, Poller, PollerOptions,
};
use superpipe_core::driver::setup::Defaults;

use superpipe_core::driver::{Driver, WarmUp, WarmUpPlan};
use superpipe_core::{Endpoint, Nanos, Origin, Reason};

use crate::attempts::one_of;
use crate::crowds::{
    LONG, SIDE_BY_SIDE, accept_somebody, costs_little, half_way, hello, honest, listen, stranger,
};
use crate::support::{DEADLINE, disturbing, path, undisturbed};

/// Signals between strangers and the measurement.
struct Signals {
    begun: Sender<()>,
    is_over: AtomicBool,
}

impl Signals {
    /// Tells that the honest client can come: this stranger is there.
    fn begin(&self) {
        let _ = self.begun.send(());
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Time that an honest client takes to be accepted while `others` do what they do to the listener, until it is over.
fn time_of_an_honest_client(
    options: Options,
    others: impl Fn(&Path, &Signals) + Sync,
    count: usize,
) -> Duration {
    let (mut listener, path) = listen(options);
    let (begun, begins) = mpsc::channel();
    let signals = Signals { begun, is_over: AtomicBool::new(false) };
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| others(&path, &signals));
        }
        let accepting = scope.spawn(move || (accept_somebody(&mut listener), listener));
        let there = (0..count).filter(|_| begins.recv_timeout(DEADLINE).is_ok()).count();
        let begin = Instant::now();
        let connected =
            Connection::connect(&Address::Shm(path.clone()), Options::default(), Duration::from_secs(20));
        let took = begin.elapsed();
        signals.is_over.store(true, Ordering::Relaxed);
        // Another client ends the listener's `accept`.
        let last = connected.is_err().then(|| honest(&path));
        drop((accepting.join().unwrap(), last));
        assert_eq!(there, count, "strangers that began");
        // One that was refused at once was not let in fast.
        assert!(connected.is_ok(), "after {took:?}: {}", connected.unwrap_err());
        took
    })
}

/// Fails unless an honest client takes less than `bound` to be accepted, in one of a few plays: a busy host may hold a client up.
fn assert_accepted_within(
    bound: Duration,
    options: Options,
    others: impl Fn(&Path, &Signals) + Sync,
    count: usize,
) {
    one_of(3, || {
        let took = time_of_an_honest_client(options, &others, count);
        if took < bound { Ok(()) } else { Err(format!("took {took:?}")) }
    });
}

#[test]
fn wake_bytes_now_and_then_hold_no_place() {
    let _undisturbed = undisturbed();
    // 16 peers send a byte every 40 ms.
    let trickle = |path: &Path, signals: &Signals| {
        let sockets: Vec<_> = (0..SIDE_BY_SIDE).map(|_| stranger(path)).collect();
        signals.begin();
        for step in 0..120 {
            for socket in &sockets {
                let _ = socket.send(b"W", None);
                if step == 60 {
                    let _ = socket.send(&hello(), None);
                }
            }
            if signals.is_over() {
                return;
            }
            thread::sleep(Duration::from_millis(40));
        }
    };
    assert_accepted_within(Duration::from_secs(3), Options::default(), trickle, 1);
}

#[test]
fn strangers_that_connect_again_for_ever_keep_nobody_out() {
    let _disturbing = disturbing();
    let flood = |path: &Path, signals: &Signals| {
        let (mut held, mut connected) = (VecDeque::new(), 0);
        while !signals.is_over() {
            match Socket::connect(path) {
                Ok(socket) => {
                    held.push_back(socket);
                    connected += 1;
                    if connected == 2 * SIDE_BY_SIDE {
                        signals.begin();
                    }
                }
                Err(ConnectError::Busy(_)) => thread::yield_now(),
                Err(_) => return,
            }
            if held.len() > 4 * SIDE_BY_SIDE {
                held.pop_front();
            }
        }
    };
    // A matter of luck: many honest clients. A busy host may hold one or two of them up.
    let took: Vec<_> = (0..24).map(|_| time_of_an_honest_client(Options::default(), flood, 3)).collect();
    let late = took.iter().filter(|time| **time >= Duration::from_secs(3)).count();
    assert!(late <= 2, "{took:?}, while three strangers connect again and again");
}

#[test]
fn a_try_to_accept_never_times_out() {
    let options = Options { handshake_timeout: Duration::from_millis(50), ..Options::default() };
    let (mut listener, path) = listen(options);
    let silent = stranger(&path);
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        match listener.try_accept() {
            Ok(none) => assert!(none.is_none()),
            Err(error) => assert_ne!(error.kind(), ErrorKind::Timeout, "{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
    drop(silent);
}

#[test]
fn warming_up_waits_as_long_as_being_accepted() {
    let _undisturbed = undisturbed();
    let (mut listener, path) = listen(Options::default());
    let idle_timeout = Duration::from_millis(300);
    let connecting = thread::spawn(move || {
        let options = Options { idle_timeout, ..Options::default() };
        Connection::connect(&Address::Shm(path), options, DEADLINE)
    });
    let until = Instant::now() + DEADLINE;
    while !format!("{listener:?}").contains("warming") {
        assert!(Instant::now() < until);
        // One turn; a try makes several.
        if listener.accept(Duration::ZERO).is_ok() {
            return; // too fast to be caught in the middle
        }
    }
    // It serves somebody else.
    thread::sleep(4 * idle_timeout);
    let accepted = listener.accept(DEADLINE);
    let connected = connecting.join().unwrap();
    assert!(
        connected.is_ok(),
        "its deadline is a minute: {} ({:?})",
        connected.unwrap_err(),
        accepted.map(drop)
    );
}

/// One that agrees, and does not warm up.
fn half_way_end(path: &Path, fabric: &Shm) -> Endpoint<Shm> {
    let (socket, agreed) = half_way(path);
    let Established { segments, negotiated, fenced, serves, .. } = agreed;
    let attachment = Shm::attach(segments, negotiated.layout, socket, fenced, serves, None);
    Endpoint::new(fabric, attachment, negotiated.config, Origin::default()).unwrap()
}

#[test]
fn signs_of_life_without_progress_hold_no_place() {
    let _undisturbed = undisturbed();
    let trickle = |path: &Path, signals: &Signals| {
        let mut fabric = Shm::new();
        let mut ends: Vec<_> = (0..SIDE_BY_SIDE).map(|_| half_way_end(path, &fabric)).collect();
        signals.begin();
        let end = Instant::now() + Duration::from_secs(15);
        while !signals.is_over() && Instant::now() < end {
            ends.iter_mut().for_each(|end| end.send_keepalive(&mut fabric));
            thread::sleep(Duration::from_millis(20));
        }
    };
    let options = Options { handshake_timeout: LONG, ..Options::default() };
    assert_accepted_within(Duration::from_secs(5), options, trickle, 1);
}

#[test]
fn a_client_in_the_warm_up_finds_the_next_listener() {
    let (mut listener, path) = listen(Options::default());
    let address = Address::Shm(path.clone());
    let connecting = thread::spawn(move || honest_try(&path));
    let until = Instant::now() + DEADLINE;
    while !format!("{listener:?}").contains("warming") {
        assert!(Instant::now() < until);
        // One turn; a try makes several.
        if listener.accept(Duration::ZERO).is_ok() {
            return; // too fast to be caught in the middle
        }
    }
    drop(listener);
    let mut next = Listener::bind(&address, Options::default()).unwrap();
    let accepted = next.accept(DEADLINE).map(drop);
    let connected = connecting.join().unwrap();
    assert!(connected.is_ok(), "its deadline is a minute: {:?} ({accepted:?})", connected.err());
}

fn honest_try(path: &Path) -> Result<Connection, superpipe::Error> {
    Connection::connect(&Address::Shm(path.to_owned()), Options::default(), DEADLINE)
}

#[test]
fn listeners_that_are_dropped_refuse_nobody() {
    let (mut listener, path) = listen(Options::default());
    for _ in 0..20 {
        let many: Vec<_> = (0..200).map(|_| listen(Options::default()).0).collect();
        drop(many);
        let socket = Socket::connect(&path);
        assert!(socket.is_ok(), "{}", socket.unwrap_err());
        let tried = listener.try_accept();
        assert!(tried.is_ok(), "{}", tried.unwrap_err());
    }
}

#[test]
fn a_program_that_tries_ten_times_a_second_accepts() {
    let (mut listener, path) = listen(Options::default());
    let connecting = thread::spawn(move || honest_try(&path).map(drop));
    let until = Instant::now() + Duration::from_secs(20);
    let mut tried = Vec::new();
    let accepted = loop {
        match listener.try_accept() {
            Ok(None) => {}
            Ok(connection) => break connection,
            Err(error) => tried.push(error),
        }
        if Instant::now() > until || !tried.is_empty() {
            break None;
        }
        thread::sleep(Duration::from_millis(100));
    };
    drop(listener);
    assert!(accepted.is_some(), "{tried:?}, and the client: {:?}", connecting.join().unwrap());
}

#[test]
fn a_peer_that_answers_before_each_look_meets_no_timeout() {
    const PAUSE: Duration = Duration::from_millis(100);
    let _undisturbed = undisturbed();
    let options = Options { handshake_timeout: 20 * PAUSE, ..Options::default() };
    let (mut listener, path) = listen(options);
    let agreeing = thread::spawn(move || {
        let fabric = Shm::new();
        let end = half_way_end(&path, &fabric);
        (Driver::new(end, 1, options.wait, u64::MAX, Nanos(0)), fabric)
    });
    while !agreeing.is_finished() {
        assert!(listener.try_accept().unwrap().is_none());
    }
    let (mut driver, mut fabric) = agreeing.join().unwrap();
    let negotiated = Defaults::SHM.negotiate(&options.tuning, &options.tuning).unwrap();
    let plan = WarmUpPlan::new(negotiated.layout, &negotiated.config, true);
    let (mut warm_up, mut room) = (WarmUp::new(plan, true), vec![0; plan.room_bytes()]);
    let messages: u32 = plan.messages().iter().map(|(_, count)| count).sum();
    for tries in 1..=2 * messages {
        let _ = driver.drive_warm_up(&mut fabric, &mut warm_up, &mut room);
        if listener.try_accept().unwrap().is_some() {
            assert!(tries * PAUSE > 2 * options.handshake_timeout, "after {tries} tries");
            return;
        }
        thread::sleep(PAUSE);
    }
    panic!("not accepted, after {} messages", warm_up.steps());
}

#[test]
fn a_client_that_ends_in_the_warm_up_is_a_lost_peer() {
    let (mut listener, path) = listen(Options::default());
    let agreeing = thread::spawn(move || {
        let mut fabric = Shm::new();
        let mut end = half_way_end(&path, &fabric);
        end.close(&mut fabric, Reason::GIVEN_UP);
        end.progress(&mut fabric);
        end
    });
    let error = listener.accept(DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PeerLost, "{error}");
    drop(agreeing.join());
}

#[test]
fn signs_of_life_without_progress_cost_little() {
    let _undisturbed = undisturbed();
    one_of(3, || {
        let (mut listener, path) = listen(Options { handshake_timeout: LONG, ..Options::default() });
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut fabric = Shm::new();
                let mut end = half_way_end(&path, &fabric);
                let until = Instant::now() + DEADLINE;
                while !is_over.load(Ordering::Relaxed) && Instant::now() < until {
                    end.send_keepalive(&mut fabric);
                    thread::sleep(Duration::from_micros(700));
                }
            });
            let little = costs_little(&mut listener);
            is_over.store(true, Ordering::Relaxed);
            little
        })
    });
}

#[test]
fn honest_clients_alone_lose_nobody_on_a_busy_host() {
    const CLIENTS: usize = 60;
    let _disturbing = disturbing();
    let (mut listener, path) = listen(Options { handshake_timeout: LONG, ..Options::default() });
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    core::hint::spin_loop();
                }
            });
        }
        let connect = || Connection::connect(&Address::Shm(path.clone()), Options::default(), 5 * DEADLINE);
        let connecting: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(connect)).collect();
        scope.spawn(|| {
            let mut accepted = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                accepted.extend(listener.accept(Duration::from_millis(100)).ok());
            }
        });
        let connected: Vec<_> = connecting.into_iter().map(|it| it.join().unwrap().err()).collect();
        is_over.store(true, Ordering::Relaxed);
        let failed: Vec<_> = connected.into_iter().flatten().collect();
        assert!(failed.is_empty(), "{} of {CLIENTS} failed: {}", failed.len(), failed[0]);
    });
}

/// A client that refuses for lack of memory, again and again, is no lack of the listener's host: another one that has begun goes on.
#[test]
fn clients_that_lack_memory_hold_up_nobody() {
    let _undisturbed = undisturbed();
    let path = path();
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    poller.listen(&Address::Shm(path.clone()), Options::default()).unwrap();
    let mut events = PollEvents::with_capacity(8);
    // REFUSED, by a limit (wire.md 6.1).
    let mut refused = hello();
    (refused[10], refused[11]) = (5, 3);
    let mut packet = [0; 256];
    let mut refuse = |poller: &mut Poller, events: &mut PollEvents, with_another: bool| {
        let socket = stranger(&path);
        socket.send(&hello(), None).unwrap();
        let begun = Instant::now();
        while socket.try_receive(&mut packet).unwrap().is_none() {
            poller.poll(events, Duration::from_millis(1)).unwrap();
            assert!(begun.elapsed() < DEADLINE, "no WELCOME");
        }
        // It waits to be accepted while the refusal is read.
        let another = with_another.then(|| stranger(&path));
        socket.send(&refused, None).unwrap();
        let failed = |events: &PollEvents| {
            events.iter().any(|event| matches!(event, PollEvent::AcceptFailed { kind: ErrorKind::Limit, .. }))
        };
        while !failed(events) {
            poller.poll(events, Duration::from_millis(1)).unwrap();
            assert!(begun.elapsed() < DEADLINE, "the refusal is not told");
        }
        another
    };
    // Pauses after errors of this end would double, up to 1 s.
    for _ in 0..8 {
        refuse(&mut poller, &mut events, false);
    }
    let is_welcome = |poller: &mut Poller, events: &mut PollEvents, socket: Socket, which| {
        socket.send(&hello(), None).unwrap();
        let (since, mut welcome) = (Instant::now(), [0; 256]);
        while socket.try_receive(&mut welcome).unwrap().is_none() {
            poller.poll(events, Duration::from_millis(1)).unwrap();
            if since.elapsed() > Duration::from_millis(500) {
                return Err(format!("{which} waits for those that refuse"));
            }
        }
        Ok(())
    };
    one_of(5, || {
        let comes = refuse(&mut poller, &mut events, true).unwrap();
        is_welcome(&mut poller, &mut events, comes, "one that comes meanwhile")?;
        let begun = stranger(&path);
        poller.poll(&mut events, Duration::from_millis(20)).unwrap();
        refuse(&mut poller, &mut events, false);
        is_welcome(&mut poller, &mut events, begun, "one that has begun")
    });
}
