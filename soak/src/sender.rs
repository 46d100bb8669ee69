//! Sending process. It sends messages until its standard input ends, and then the last message, which must arrive. It writes the
//! outcome of each message to its standard output, one byte per message.

use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, Read, Write};
use std::os::unix::process::parent_id;
use std::path::Path;
use std::thread;

use rustix::process::{Signal, set_parent_process_death_signal};
use superpipe::{Address, Connection, Error, ErrorKind, Listener, Reason};

use crate::message::{ContentPool, Message, SendMethod, parts};
use crate::round::{RandomStream, Round};
use crate::watchdog::HANG_TIMEOUT;

/// Outcome of a message at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Outcome {
    /// The call returned Ok.
    Sent = b's',
    /// The call timed out.
    TimedOut = b't',
    /// The receiver rejected it.
    Rejected = b'r',
    /// The sender gave it up on purpose.
    GivenUp = b'g',
}

impl Outcome {
    pub(crate) const ALL: [Self; 4] = [Self::Sent, Self::TimedOut, Self::Rejected, Self::GivenUp];

    pub(crate) const fn byte(self) -> u8 {
        self as u8
    }

    pub(crate) fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.byte() == byte)
    }
}

/// Sends until standard input ends.
pub(crate) fn run(round: &Round, socket: &Path, parent: u32) -> Result<(), String> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("set the parent death signal: {error}"))?;
    if parent_id() != parent {
        return Err("the parent process has ended".into());
    }
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    thread::spawn(|| {
        // The parent writes nothing. It closes the pipe.
        let _ = io::stdin().read(&mut [0]);
        IS_OVER.store(true, Ordering::Relaxed);
    });
    let pool = ContentPool::new(round.seed);
    let mut connection = connect(round, socket).map_err(|error| format!("connect: {error}"))?;
    let mut outcomes = Vec::with_capacity(1 << 20);
    let mut is_last = false;
    while !is_last {
        let number = outcomes.len() as u64 + 1;
        is_last = IS_OVER.load(Ordering::Relaxed);
        let message = Message::new(round, number, is_last);
        let outcome = send(&mut connection, round, &message, &pool)
            .map_err(|error| format!("message {number}, {message:?}: {error}"))?;
        outcomes.push(outcome.byte());
    }
    connection.flush(HANG_TIMEOUT).map_err(|error| format!("flush: {error}"))?;
    connection.close(Reason::DONE, HANG_TIMEOUT).map_err(|error| format!("close: {error}"))?;
    io::stdout().write_all(&outcomes).map_err(|error| format!("report the outcomes: {error}"))
}

fn connect(round: &Round, socket: &Path) -> Result<Connection, Error> {
    let address = Address::Shm(socket.into());
    if round.is_sender_listening {
        Listener::bind(&address, round.sender_options())?.accept(HANG_TIMEOUT)
    } else {
        Connection::connect(&address, round.sender_options(), HANG_TIMEOUT)
    }
}

fn send(
    connection: &mut Connection,
    round: &Round,
    message: &Message,
    pool: &ContentPool,
) -> Result<Outcome, String> {
    let (content, tag, deadline) = (message.content(pool), message.tag(), message.deadline);
    let mut random = round.random(RandomStream::Send, message.number);
    let sent = match message.method {
        SendMethod::Whole => connection.send(tag, &[content], deadline),
        SendMethod::Slices(count) => {
            let slices: Vec<_> =
                parts(content.len(), count, &mut random).into_iter().map(|part| &content[part]).collect();
            connection.send(tag, &slices, deadline)
        }
        SendMethod::Stream | SendMethod::Cancelled(_) | SendMethod::Dropped(_) => {
            let bytes = match message.method {
                SendMethod::Cancelled(bytes) | SendMethod::Dropped(bytes) => bytes,
                _ => content.len(),
            };
            let mut stream = connection.open_stream(tag, deadline).map_err(|error| error.to_string())?;
            let count = 1 + random.below(4);
            for part in parts(bytes, count, &mut random) {
                if let Err(error) = stream.write_all(&content[part]) {
                    return match library_error(error) {
                        Ok(error) if error.kind() != ErrorKind::Timeout => outcome(Err(error)),
                        Ok(error) => Err(format!("a write to a stream: {error}")),
                        Err(error) => Err(format!("a write to a stream: {error}")),
                    };
                }
            }
            match message.method {
                SendMethod::Stream => stream.finish(deadline),
                SendMethod::Cancelled(_) => {
                    stream.cancel(Reason(7));
                    return Ok(Outcome::GivenUp);
                }
                _ => return Ok(Outcome::GivenUp),
            }
        }
    };
    outcome(sent)
}

/// Returns the outcome of a stream. Its `write` has no deadline, so a timeout there is a failure.
fn outcome(sent: Result<(), Error>) -> Result<Outcome, String> {
    match sent {
        Ok(()) => Ok(Outcome::Sent),
        Err(error) => match error.kind() {
            ErrorKind::Timeout => Ok(Outcome::TimedOut),
            ErrorKind::Rejected(_) => Ok(Outcome::Rejected),
            kind => Err(format!("{kind:?}: {error}")),
        },
    }
}

/// Extracts the library's error from an error of `Read` or `Write`.
pub(crate) fn library_error(error: io::Error) -> Result<Error, io::Error> {
    error.downcast::<Error>()
}
