//! A pinned loop with work of its own: it asks for messages between two steps of its work, and nothing in it ever waits.
//!
//! The loop simulates something step by step. Beside that it answers short questions at once, and receives a long message part by part. Its peer is another thread, which a real program has
//! in another process.
//!
//! `cargo run --release --example own_loop`

use core::error::Error;
use core::time::Duration;
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use superpipe::{
    Address, Connection, Drive, ErrorKind, Length, Listener, Options, Reason, RecvOperation, TryRecv, TrySend,
};

/// Deadline of the peer's calls, and of set-up. The loop has none: it never waits.
const DEADLINE: Duration = Duration::from_secs(30);
/// Steps of work between two calls of `progress`, which looks at the clock, sends the keepalives that are due (each 200 ms while the connection is used), and detects a peer that has ended.
const STEPS_PER_PROGRESS: u64 = 256;
/// Longest message that the loop takes, and the reason for rejecting a longer one.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;
const TOO_LONG: Reason = Reason(1);

const QUESTIONS: u64 = 1000;
const LONG_BYTES: usize = 5_000_000;

/// Work of the loop: a random walk, a few hundred nanoseconds per step.
struct Walk {
    state: u64,
    position: i64,
    steps: u64,
}

impl Walk {
    fn step(&mut self) {
        for _ in 0..100 {
            self.state =
                self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.position += if self.state >> 63 == 1 { 1 } else { -1 };
        }
        self.steps += 1;
    }
}

/// What the loop did until its peer closed.
struct Done {
    walk: Walk,
    answers: u64,
    long_bytes: usize,
}

/// Pins this thread to the last core that it may use, so that it keeps its caches.
fn pin() -> rustix::io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    if let Some(core) = (0..CpuSet::MAX_CPU).rev().find(|core| allowed.is_set(*core)) {
        one.set(core);
        sched_setaffinity(None, &one)?;
    }
    Ok(())
}

/// Works, and serves the peer between two steps, until the peer closes.
fn run(mut connection: Connection) -> Result<Done, superpipe::Error> {
    let mut done = Done { walk: Walk { state: 1, position: 0, steps: 0 }, answers: 0, long_bytes: 0 };
    let mut room = [0; 4096];
    // The long message that is being received, with its memory: each call gets the same.
    let mut long: Option<(RecvOperation, Vec<u8>)> = None;
    // An answer for which there was no room.
    let mut unsent: Option<[u8; 8]> = None;
    loop {
        done.walk.step();
        if done.walk.steps.is_multiple_of(STEPS_PER_PROGRESS) {
            connection.progress();
        }
        if let Some(answer) = unsent.take() {
            if connection.try_send(2, &[&answer])? != TrySend::Sent {
                unsent = Some(answer);
            }
            continue;
        }
        if let Some((operation, memory)) = &mut long {
            // Takes what is here, 1 MiB at most.
            if let Drive::Done(received) = connection.drive_recv(operation, &mut [memory])? {
                assert!(memory[..received.bytes].iter().all(|byte| *byte == 7), "it arrived as it was sent");
                done.long_bytes += received.bytes;
                long = None;
            }
            continue;
        }
        match connection.try_recv(&mut [&mut room]) {
            Ok(TryRecv::Nothing) => {}
            Ok(TryRecv::Received(_)) => {
                unsent = Some(done.walk.position.to_le_bytes());
                done.answers += 1;
            }
            // It is longer than what a try takes, or its rest is on the way.
            Ok(TryRecv::TooSmall(incoming) | TryRecv::Incomplete(incoming)) => match incoming.length {
                Length::Exact(bytes @ ..=MESSAGE_BYTES_MAX) => {
                    let bytes = usize::try_from(bytes).unwrap_or(0);
                    long = Some((RecvOperation::new(), vec![0; bytes]));
                }
                Length::Exact(_) | Length::Stream => _ = connection.reject(TOO_LONG),
            },
            Err(error) if error.kind() == ErrorKind::Closed(Reason::DONE) => return Ok(done),
            Err(error) => return Err(error),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = Address::Shm(std::env::temp_dir().join(format!("own-loop-{}.sock", std::process::id())));
    let mut listener = Listener::bind(&address, Options::default())?;
    let peer = thread::spawn(move || -> Result<(), superpipe::Error> {
        let mut connection = Connection::connect(&address, Options::default(), DEADLINE)?;
        let mut answer = [0; 8];
        for question in 0..QUESTIONS {
            connection.send(1, &[&question.to_le_bytes()], DEADLINE)?;
            assert_eq!(connection.recv_into(&mut [&mut answer], DEADLINE)?.tag, 2);
            if question == QUESTIONS / 2 {
                connection.send(1, &[&vec![7; LONG_BYTES]], DEADLINE)?;
            }
        }
        connection.close(Reason::DONE, DEADLINE)
    });
    let connection = listener.accept(DEADLINE)?;
    pin()?;
    let done = run(connection)?;
    peer.join().map_err(|_| "the peer panicked")??;
    assert_eq!((done.answers, done.long_bytes), (QUESTIONS, LONG_BYTES));
    println!(
        "{} steps of work; meanwhile {} answers, and a message of {} bytes",
        done.walk.steps, done.answers, done.long_bytes
    );
    Ok(())
}
