//! Ends with a descriptor of their own, and a poller's descriptor: a program waits for it, without a deadline of its own.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::os::fd::AsFd;
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use superpipe::{
    Arming, Connecting, Connection, ErrorKind, Interest, Listener, Options, PollEvent, PollEvents, Poller,
    PollerOptions, TryRecv, TrySend, WaitableConnection, WaitableListener,
};

use crate::attempts::one_of;
use crate::support::{DEADLINE, address, echo, ping, poll_until, server};

/// Plays until one sleeps: CPU time counts what a hypervisor takes from this machine for others, too.
const PLAYS: u32 = 3;

/// Waits until the descriptor is ready. What never comes fails the test.
fn wait_for(end: &impl AsFd) {
    let mut fds = [PollFd::new(end, PollFlags::IN)];
    let timeout = Timespec::try_from(DEADLINE).unwrap();
    assert_eq!(poll(&mut fds, Some(&timeout)), Ok(1), "nobody wakes it");
}

/// Receives a message, and waits for it by the descriptor alone.
fn receive(end: &mut WaitableConnection, room: &mut [u8]) -> Result<usize, ErrorKind> {
    loop {
        match end.connection_for_tries().try_recv(&mut [room]).map_err(|error| error.kind())? {
            TryRecv::Received(received) => return Ok(received.bytes),
            TryRecv::Nothing | TryRecv::Incomplete(_) => {}
            other @ TryRecv::TooSmall(_) => panic!("{other:?}"),
        }
        if end.arm(Interest::default()) != Arming::Busy {
            wait_for(end);
        }
    }
}

fn send(end: &mut WaitableConnection, bytes: &[u8]) {
    while end.connection_for_tries().try_send(1, &[bytes]).unwrap() != TrySend::Sent {
        if end.arm(Interest { readable: false, writable: true }) != Arming::Busy {
            wait_for(end);
        }
    }
}

fn accept(listener: &mut WaitableListener) -> Connection {
    loop {
        if let Some(connection) = listener.try_accept().unwrap() {
            return connection;
        }
        if listener.arm() != Arming::Busy {
            wait_for(listener);
        }
    }
}

fn connect(connecting: &mut Connecting) -> Connection {
    loop {
        if let Some(connection) = connecting.try_finish().unwrap() {
            return connection;
        }
        if connecting.arm() != Arming::Busy {
            wait_for(connecting);
        }
    }
}

/// Makes two ends, each by its descriptor.
fn pair(options: Options) -> [WaitableConnection; 2] {
    let mut listener = Listener::bind(&address(), options).unwrap().into_waitable().unwrap();
    let mut connecting = Connecting::begin(listener.local_addr(), options, DEADLINE).unwrap();
    let connected = thread::spawn(move || connect(&mut connecting));
    let accepted = accept(&mut listener);
    [accepted, connected.join().unwrap()].map(|connection| connection.into_waitable().unwrap())
}

/// Each message finds its receiver asleep, or about to be. Nothing but a wake-up makes a descriptor ready, so one that is lost fails the test.
#[test]
fn a_descriptor_tells_of_each_message_and_of_the_end() {
    let [mut one, mut other] = pair(Options::default());
    for end in [&mut one, &mut other] {
        end.connection().set_looks_while_armed(false);
    }
    let echoing = thread::spawn(move || {
        let mut room = vec![0; 64 << 10];
        let mut served = 0;
        loop {
            match receive(&mut other, &mut room) {
                Ok(bytes) => send(&mut other, &room[..bytes]),
                Err(kind) => return (served, kind),
            }
            served += 1;
        }
    });
    let mut room = vec![0; 64 << 10];
    for nth in 0..2000_u32 {
        // Some are sent when the other end has been asleep for some time, others when it is falling asleep.
        if nth.is_multiple_of(100) {
            thread::sleep(Duration::from_millis(5));
        }
        let bytes: Vec<u8> = (0..1 + nth * 31 % 60_000).map(|at| (at ^ nth).to_le_bytes()[0]).collect();
        send(&mut one, &bytes);
        assert_eq!(receive(&mut one, &mut room), Ok(bytes.len()));
        assert_eq!(room[..bytes.len()], bytes);
    }
    one.into_connection().close(superpipe::Reason(9), DEADLINE).unwrap();
    assert_eq!(echoing.join().unwrap(), (2000, ErrorKind::Closed(superpipe::Reason(9))));
}

#[test]
fn room_to_send_makes_the_descriptor_ready() {
    let [mut one, mut other] = pair(Options::default());
    const MESSAGES: usize = 400;
    let receiving = thread::spawn(move || {
        let mut room = vec![0; 40_000];
        for nth in 0..MESSAGES {
            if nth.is_multiple_of(50) {
                thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(receive(&mut other, &mut room), Ok(40_000));
            assert!(room.iter().all(|byte| usize::from(*byte) == nth % 251));
        }
        other
    });
    for nth in 0..MESSAGES {
        send(&mut one, &[u8::try_from(nth % 251).unwrap(); 40_000]);
    }
    receiving.join().unwrap();
}

/// wire.md 7.3: a program that waits for the descriptor and calls `arm` after each wait sends what its peer expects, and counts the peer's silence.
#[test]
fn keepalives_go_out_and_silence_is_told() {
    const WAIT: Duration = Duration::from_secs(5);
    let options = Options { idle_timeout: Duration::from_secs(2), ..Options::default() };
    let [mut one, mut other] = pair(options);
    let is_over = &AtomicBool::new(false);
    let mut one = thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                one.check_silence().unwrap();
                if one.arm(Interest::default()) != Arming::Busy {
                    wait_for(&one);
                }
            }
            one
        });
        let begin = Instant::now();
        let error = other.connection().recv_into(&mut [&mut [0; 8]], WAIT).unwrap_err();
        // From here on the other end calls nothing.
        is_over.store(true, Ordering::Relaxed);
        assert!(error.kind() == ErrorKind::Timeout && begin.elapsed() >= WAIT, "{error}");
        waiting.join().unwrap()
    });
    let begin = Instant::now();
    while one.check_silence().is_ok() {
        assert!(begin.elapsed() < DEADLINE);
        if one.arm(Interest::default()) != Arming::Busy {
            wait_for(&one);
        }
    }
    assert!(
        one.arm(Interest::default()) != Arming::Busy || one.arm(Interest::default()) != Arming::Busy,
        "once"
    );
    send(&mut other, b"alive");
    assert_eq!(receive(&mut one, &mut [0; 8]), Ok(5));
}

/// What arrived and is not wanted keeps nobody busy, and is there when it is wanted.
#[test]
fn what_is_not_wanted_makes_no_busy_loop() {
    let [mut one, mut other] = pair(Options::default());
    send(&mut other, b"later");
    thread::sleep(Duration::from_millis(5));
    let none = Interest::NONE;
    let busy = (0..50).filter(|_| match one.arm(none) {
        Arming::Busy => true,
        Arming::Pending => {
            wait_for(&one);
            false
        }
        Arming::Armed { .. } => false,
    });
    assert!(busy.count() <= 2);
    assert_eq!(one.arm(Interest::default()), Arming::Busy);
    assert_eq!(receive(&mut one, &mut [0; 8]), Ok(5));
}

#[test]
fn a_waitable_connection_is_taken_in_by_a_poller() {
    let [mut one, mut other] = pair(Options::default());
    assert!(matches!(one.arm(Interest::default()), Arming::Armed { .. } | Arming::Busy));
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    poller.adopt(one.into_connection()).unwrap();
    send(&mut other, b"hello");
    let mut room = [0; 8];
    poll_until(&mut poller, |poller, event| match event {
        PollEvent::Readable { connection } => echo(poller.connection(connection).unwrap(), &mut room) > 0,
        _ => false,
    });
    assert_eq!(receive(&mut other, &mut [0; 8]), Ok(5));
}

/// A poller's descriptor has a timer for what is due, so a wait for it needs no deadline.
#[test]
fn a_pollers_descriptor_is_enough_to_wait_for() {
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    let address = address();
    poller.listen(&address, Options::default()).unwrap();
    const WAIT: Duration = Duration::from_secs(5);
    let options = Options { idle_timeout: Duration::from_secs(2), ..Options::default() };
    let client = thread::spawn(move || {
        let mut connection = Connection::connect(&address, options, DEADLINE).unwrap();
        ping(&mut connection, 100, 20);
        // Nothing but keepalives, which keep this end from giving its peer up.
        let begin = Instant::now();
        connection.recv_into(&mut [&mut [0; 8]], WAIT).unwrap_err();
        assert!(begin.elapsed() >= WAIT);
        ping(&mut connection, 100, 20);
    });
    let (mut events, mut room) = (PollEvents::with_capacity(8), [0; 128]);
    let (mut served, mut has_ended) = (0, false);
    while !has_ended {
        poller.poll(&mut events, Duration::ZERO).unwrap();
        for event in &events {
            match event {
                PollEvent::Readable { connection } => {
                    served += echo(poller.connection(connection).unwrap(), &mut room);
                }
                PollEvent::Ended { .. } => has_ended = true,
                _ => {}
            }
        }
        if events.is_empty() && poller.arm() != Arming::Busy {
            wait_for(&poller);
        }
    }
    assert!(served > 0);
    client.join().unwrap();
}

#[test]
fn a_connect_that_fails_says_so_and_is_over() {
    let options = Options::default();
    let mut connecting = Connecting::begin(&address(), options, Duration::from_millis(50)).unwrap();
    let error = loop {
        match connecting.try_finish() {
            Ok(None) => {}
            Ok(Some(_)) => panic!("nobody listens"),
            Err(error) => break error,
        }
        if connecting.arm() != Arming::Busy {
            wait_for(&connecting);
        }
    };
    assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Connect), "{error}");
    assert_eq!(connecting.try_finish().unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(connecting.arm(), Arming::Busy);
}

/// wire.md 7.3. Attempts, since a busy host may run the poller too late for so short a time.
#[test]
fn a_poller_keeps_a_peer_with_a_short_idle_timeout() {
    for ms in [200, 300] {
        one_of(10, || keep_for_3_s(Duration::from_millis(ms)));
    }
}

/// Has a poller keep a peer with this idle timeout.
fn keep_for_3_s(idle_timeout: Duration) -> Result<(), String> {
    const WAIT: Duration = Duration::from_secs(3);
    let (mut poller, _, address) = server(PollerOptions::default());
    thread::scope(|scope| {
        let client = scope.spawn(move || {
            let options = Options { idle_timeout, ..Options::default() };
            let mut connection = Connection::connect(&address, options, DEADLINE).unwrap();
            let begin = Instant::now();
            let error = connection.recv_into(&mut [&mut [0; 8]], WAIT).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout);
            if begin.elapsed() >= WAIT { Ok(()) } else { Err(format!("{:?}: {error}", begin.elapsed())) }
        });
        let mut events = PollEvents::with_capacity(8);
        while !client.is_finished() {
            poller.poll(&mut events, Duration::from_millis(500)).unwrap();
        }
        client.join().unwrap()
    })
}

/// What the peer has just sent was received, so it is not silent.
#[test]
fn a_peer_that_is_back_is_not_silent() {
    let options = Options { idle_timeout: Duration::from_millis(400), ..Options::default() };
    let [mut one, mut other] = pair(options);
    while one.check_silence().is_ok() {
        if one.arm(Interest::default()) != Arming::Busy {
            wait_for(&one);
        }
    }
    send(&mut other, b"back");
    assert_eq!(receive(&mut one, &mut [0; 8]), Ok(4));
    assert!(one.check_silence().is_ok(), "it has just sent a message, which was taken");
}

/// poller.md, wire/shm.md 7.2: one look finds a lost wake-up, and then only keepalives (0.2, 0.4, 0.8, .. s) end the sleep. The loop is that of the documentation: try, arm, wait.
#[test]
fn an_idle_waitable_connection_is_looked_at_rarely() {
    let [mut one, mut other] = pair(Options::default());
    let begin = Instant::now();
    let (mut turns, mut waits) = (0, 0);
    while begin.elapsed() < Duration::from_secs(6) {
        assert_eq!(one.connection_for_tries().try_recv(&mut [&mut [0; 8]]).unwrap(), TryRecv::Nothing);
        turns += 1;
        if one.arm(Interest::default()) != Arming::Busy {
            wait_for(&one);
            waits += 1;
        }
    }
    other.connection();
    assert!(waits >= 1 && turns < 60, "{waits} waits and {turns} turns in 6 s");
}

/// What is armed is not what a call that waits sleeps in.
#[test]
fn a_call_that_waits_rests_after_arming() {
    one_of(PLAYS, || {
        let [mut one, mut other] = pair(Options::default());
        while !matches!(one.arm(Interest::default()), Arming::Armed { .. }) {}
        send(&mut other, b"wakes");
        wait_for(&one);
        assert_eq!(receive(&mut one, &mut [0; 8]), Ok(5));
        while !matches!(one.arm(Interest::default()), Arming::Armed { .. }) {}
        send(&mut other, b"again");
        wait_for(&one);
        sleeps(|| {
            let mut room = [0; 8];
            one.connection().recv_into(&mut [&mut room], DEADLINE).unwrap();
            one.connection().recv_into(&mut [&mut room], Duration::from_secs(2)).unwrap_err();
        })
    });
}

/// Fails unless a wait of 2 s costs next to no CPU time.
fn sleeps(wait: impl FnOnce()) -> Result<(), String> {
    let before = cpu_time();
    wait();
    let took = cpu_time() - before;
    if took < Duration::from_millis(200) {
        Ok(())
    } else {
        Err(format!("{took:?} of 2 s: it does not sleep"))
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

#[test]
fn a_connection_that_was_put_in_place_of_an_armed_one_is_woken() {
    one_of(PLAYS, || {
        let [mut one, mut other] = pair(Options::default());
        let [another, mut its_peer] = pair(Options::default());
        while !matches!(one.arm(Interest::default()), Arming::Armed { .. }) {}
        let old = core::mem::replace(one.connection(), another.into_connection());
        while !matches!(one.arm(Interest::default()), Arming::Armed { .. }) {}
        send(&mut its_peer, b"new");
        assert_eq!(receive(&mut one, &mut [0; 8]), Ok(3));
        // The one that was taken out sleeps and wakes as before.
        let (mut old, mut new) = (old, one.into_connection());
        send(&mut other, b"old");
        old.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap();
        sleeps(|| {
            for connection in [&mut old, &mut new] {
                connection.recv_into(&mut [&mut [0; 8]], Duration::from_secs(1)).unwrap_err();
            }
        })
    });
}

/// Attack: the ring of a stream whose receiver pauses has some room left, less than a part of it takes.
#[test]
fn a_stream_that_cannot_go_on_can_be_waited_for() {
    let [mut one, mut other] = pair(Options::default());
    let mut stream = one.connection_for_tries().try_open_stream(1).unwrap().unwrap();
    let (mut incoming, mut room) = (None, vec![0; 40_000]);
    let part = vec![7; 64 << 10];
    for bytes in [8 << 10, 64 << 10, 5000] {
        let mut idle = 0;
        while idle < 1000 {
            let written = one.connection_for_tries().write_stream(&mut stream, &[&part[..bytes]]).unwrap();
            idle = if written > 0 { 0 } else { idle + 1 };
            let taker = other.connection_for_tries();
            if incoming.is_none() && taker.try_peek().unwrap().is_some() {
                incoming = taker.try_accept_stream().unwrap();
            }
            taker.progress();
        }
        for _ in 0..100 {
            let arming = one.arm(Interest { readable: false, writable: true });
            assert_ne!(arming, Arming::Busy, "parts of {bytes}: nothing can be written, and it is writable");
            let written = one.connection_for_tries().write_stream(&mut stream, &[&part[..bytes]]).unwrap();
            assert_eq!(written, 0, "the receiver pauses");
        }
        let Some(incoming) = &mut incoming else { panic!("it has begun") };
        other.connection_for_tries().read_stream(incoming, &mut [&mut room]).unwrap();
    }
}
