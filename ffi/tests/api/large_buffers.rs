//! Large landing buffers that many peers wish for at once: the memory for them delays no deadline and no other peer.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::path::Path;
use std::thread;
use std::time::Instant;

use superpipe::fabric::shm::handshake::PACKET_BYTES;
use superpipe::fabric::shm::{Socket, SocketError};
use superpipe::{Address, Budget, Connection, ErrorKind, Options, Tuning};

use crate::crowds::{LONG, SIDE_BY_SIDE, accept_somebody, hello, honest, listen, stranger};
use crate::support::{DEADLINE, undisturbed};

const WELCOME: u8 = 2;

/// HELLO that wishes for a landing buffer of so many MiB, in blocks of 1 MiB.
fn hello_for(mib: u32) -> [u8; PACKET_BYTES] {
    let mut packet = hello();
    packet[16..20].copy_from_slice(&(1_u32 << 20).to_le_bytes());
    packet[20..24].copy_from_slice(&(mib << 20).to_le_bytes());
    packet
}

/// Tests beside this one need their share of the budget.
fn allow_many_large() {
    Budget::set_shared_max(16 << 30);
}

/// The next packet's kind and code.
fn answer(socket: &Socket, wait: Duration) -> Result<(u8, u8), SocketError> {
    let mut packet = [0; PACKET_BYTES];
    let until = Instant::now() + wait;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let deadline_ns = superpipe::os::monotonic_ns() + u64::try_from(left.as_nanos()).unwrap();
        match socket.receive(&mut packet, deadline_ns) {
            Err(SocketError::Interrupted) => {}
            received => return received.map(|_| (packet[10], packet[11])),
        }
    }
}

#[test]
fn a_large_landing_buffer_is_made_although_strangers_wait() {
    let wishes = Tuning { landing_bytes: Some(200 << 20), ..Tuning::default() };
    let silent = |path: &Path, is_over: &AtomicBool| {
        let mut held: Vec<Socket> = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            held.retain(|socket| answer(socket, Duration::ZERO) == Err(SocketError::TimedOut));
            while held.len() < 24 {
                match Socket::connect(path) {
                    Ok(socket) => held.push(socket),
                    Err(_) => break,
                }
            }
            thread::sleep(Duration::from_millis(2));
        }
    };
    let options = Options { tuning: wishes, landing_bytes_max: 256 << 20, ..Options::default() };
    allow_many_large();
    let (mut listener, path) = listen(options);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| silent(&path, &is_over));
        let accepting = scope.spawn(move || (accept_somebody(&mut listener), listener));
        thread::sleep(Duration::from_millis(200));
        let options = Options { landing_bytes_max: 256 << 20, ..Options::default() };
        let address = Address::Shm(path.clone());
        // A busy host may keep this client from speaking for so long that it is taken for a stranger. One that speaks in time is served.
        let until = Instant::now() + DEADLINE;
        let connected = loop {
            let connected = Connection::connect(&address, options, Duration::from_secs(15));
            if connected.is_ok() || Instant::now() > until {
                break connected;
            }
        };
        is_over.store(true, Ordering::Relaxed);
        // Another client ends the listener's `accept`.
        let last = connected.is_err().then(|| Connection::connect(&address, options, DEADLINE));
        drop((accepting.join().unwrap(), last));
        assert!(connected.is_ok(), "{}", connected.unwrap_err());
    });
}

#[test]
fn a_busy_listener_evicts_nobody_who_spoke_in_time() {
    const LARGE: usize = 4;
    const PATIENCE: Duration = Duration::from_millis(50);
    let _undisturbed = undisturbed();
    allow_many_large();
    let until = Instant::now() + 2 * DEADLINE;
    while Instant::now() < until {
        let (mut listener, path) = listen(Options { handshake_timeout: LONG, ..Options::default() });
        let large: Vec<_> = (0..LARGE).map(|_| stranger(&path)).collect();
        let honest: Vec<_> = (LARGE..SIDE_BY_SIDE).map(|_| stranger(&path)).collect();
        let (begin, until) = (Instant::now(), Instant::now() + DEADLINE);
        while format!("{listener:?}").matches("agreeing").count() < SIDE_BY_SIDE {
            assert!(Instant::now() < until, "{listener:?}");
            assert!(listener.try_accept().unwrap().is_none());
        }
        let next: Vec<_> = (0..4).map(|_| stranger(&path)).collect();
        large.iter().for_each(|socket| socket.send(&hello_for(62), None).unwrap());
        let at = |time: Duration| thread::sleep((begin + time).saturating_duration_since(Instant::now()));
        let said = thread::scope(|scope| {
            let saying = scope.spawn(|| {
                at(PATIENCE * 8 / 10);
                let said = honest.iter().all(|socket| socket.send(&hello(), None).is_ok());
                said.then(|| begin.elapsed())
            });
            at(PATIENCE * 6 / 10);
            let is_early = begin.elapsed() < PATIENCE * 7 / 10;
            // One turn makes memory for all who are large; a try would end after the first.
            let error = listener.accept(10 * PATIENCE).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
            saying.join().unwrap().filter(|_| is_early)
        });
        if said.is_none_or(|said| said >= PATIENCE) {
            continue; // this host was too slow for the test
        }
        // On a slow host memory is still to be made.
        let answers: Vec<_> = honest
            .iter()
            .map(|socket| {
                let until = Instant::now() + DEADLINE;
                loop {
                    match answer(socket, Duration::ZERO) {
                        Err(SocketError::TimedOut) if Instant::now() < until => {
                            assert!(listener.try_accept().unwrap().is_none());
                        }
                        answer => break answer,
                    }
                }
            })
            .collect();
        assert!(answers.iter().all(|it| *it == Ok((WELCOME, 0))), "all spoke after {said:?}: {answers:?}");
        drop(next);
        return;
    }
    panic!("this host is too slow for the test");
}

#[test]
fn a_deadline_holds_while_many_ask_for_large_landing_buffers() {
    let (mut listener, path) = listen(Options { handshake_timeout: LONG, ..Options::default() });
    allow_many_large();
    let strangers: Vec<_> = (0..8).map(|_| stranger(&path)).collect();
    assert!(listener.try_accept().unwrap().is_none());
    strangers.iter().for_each(|socket| socket.send(&hello_for(62), None).unwrap());
    // Less than it takes to make memory for one.
    let error = listener.accept(Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let welcome = |socket: &&Socket| answer(socket, Duration::ZERO).is_ok();
    let welcomes = strangers.iter().filter(welcome).count();
    assert!(welcomes <= 1, "memory was made for {welcomes} after the deadline");
    // The next call begins with the connections that were not looked at.
    let mut welcomes = vec![welcomes];
    while welcomes.len() <= strangers.len() && welcomes.iter().sum::<usize>() < strangers.len() {
        assert_eq!(listener.accept(Duration::from_millis(1)).unwrap_err().kind(), ErrorKind::Timeout);
        welcomes.push(strangers.iter().filter(welcome).count());
    }
    assert_eq!(welcomes.iter().sum::<usize>(), strangers.len(), "{welcomes:?}");
}

#[test]
fn a_try_to_accept_provisions_one_large_landing_buffer() {
    let (mut listener, path) = listen(Options { handshake_timeout: LONG, ..Options::default() });
    allow_many_large();
    let until = Instant::now() + DEADLINE;
    // One that warms up may answer at once, and a try goes on for that.
    let connecting = thread::spawn({
        let path = path.clone();
        move || honest(&path)
    });
    let mut accepted = None;
    while !format!("{listener:?}").contains("agreeing") && accepted.is_none() {
        assert!(Instant::now() < until, "nobody connects");
        accepted = listener.try_accept().unwrap();
    }
    let strangers: Vec<_> = (0..8).map(|_| stranger(&path)).collect();
    strangers.iter().for_each(|socket| socket.send(&hello_for(62), None).unwrap());
    let welcome = |socket: &&Socket| answer(socket, Duration::ZERO).is_ok();
    let mut welcomes = 0;
    while welcomes < strangers.len() || accepted.is_none() {
        assert!(Instant::now() < until, "{welcomes} of {} were let in", strangers.len());
        accepted = listener.try_accept().unwrap().or(accepted);
        let now = strangers.iter().filter(welcome).count();
        assert!(now <= 1, "one try made memory for {now}, after {welcomes} before");
        welcomes += now;
    }
    drop((connecting.join().unwrap(), accepted));
}

#[test]
fn tries_let_in_all_who_wish_for_large_landing_buffers() {
    const CLIENTS: usize = 8;
    let options = Options { handshake_timeout: LONG, ..Options::default() };
    let (mut listener, path) = listen(options);
    allow_many_large();
    let wishes = Tuning { landing_bytes: Some(62 << 20), ..Tuning::default() };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let connect = || {
            let options = Options { tuning: wishes, ..Options::default() };
            Connection::connect(&Address::Shm(path.clone()), options, DEADLINE)
        };
        let connecting: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(connect)).collect();
        let accepting = scope.spawn(|| {
            let mut accepted = Vec::new();
            while accepted.len() < CLIENTS && !is_over.load(Ordering::Relaxed) {
                accepted.extend(listener.try_accept().unwrap());
                thread::yield_now();
            }
            accepted
        });
        let connected: Vec<_> = connecting.into_iter().map(|it| it.join().unwrap()).collect();
        is_over.store(connected.iter().any(Result::is_err), Ordering::Relaxed);
        let accepted = accepting.join().unwrap();
        let failed: Vec<_> = connected.iter().filter_map(|it| it.as_ref().err()).collect();
        assert!(failed.is_empty(), "{} of {CLIENTS} failed: {}", failed.len(), failed[0]);
        assert_eq!(accepted.len(), CLIENTS);
    });
}
