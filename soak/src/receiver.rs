//! The end that receives, in every way that the API has, with deadlines that are often too short.

use core::time::Duration;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use superpipe::io::{Digest, DigestKind, Sink};
use superpipe::{Connection, Error, ErrorKind, Incoming, Length, Reason, Received, RecvStream, StreamError};

use crate::message::{Message, parts};
use crate::oracle::{Oracle, Wrong};
use crate::random::Random;
use crate::round::{BYTES_MAX, Draw, Round};
use crate::sender::of_io;
use crate::tally::Tally;
use crate::watchdog::{HANG, Watchdog};

/// One round's receiving end.
pub(crate) struct Receiver<'a> {
    pub(crate) round: &'a Round,
    pub(crate) oracle: Oracle<'a>,
    pub(crate) tally: Tally,
    pub(crate) connection: Connection,
    watchdog: &'a Watchdog,
    /// Sink that streams are written to.
    file: &'a Path,
    random: Random,
    buffer: Vec<u8>,
    /// Time of the last arrival.
    moved: Instant,
    is_plain: bool,
}

/// Next step of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It does.
    On,
    /// The last message was received.
    Last,
}

/// Why a round failed.
pub(crate) enum Failure {
    /// A message is not as it must be; the connection can be used still.
    Wrong(Wrong),
    /// Anything else.
    Other(String),
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(wrong)
    }
}

/// The way a stream is received.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Read,
    WriteTo,
    /// Left after so many bytes: dropped, or rejected.
    Drop(usize),
    Reject(usize),
}

impl<'a> Receiver<'a> {
    pub(crate) fn new(
        round: &'a Round,
        oracle: Oracle<'a>,
        connection: Connection,
        watchdog: &'a Watchdog,
        file: &'a Path,
        is_plain: bool,
    ) -> Self {
        Self {
            round,
            oracle,
            tally: Tally::default(),
            connection,
            watchdog,
            file,
            random: round.random(Draw::Receive, 0),
            buffer: vec![0; BYTES_MAX],
            moved: Instant::now(),
            is_plain,
        }
    }

    /// One call, of whichever kind the draw says.
    pub(crate) fn step(&mut self) -> Result<Step, Failure> {
        if self.moved.elapsed() > HANG {
            return Err(Failure::Other(format!(
                "nothing came for {} s, of a sender that sends without end",
                HANG.as_secs()
            )));
        }
        let deadline = self.round.recv_deadline(&mut self.random);
        match self.random.below(100) {
            _ if self.is_plain => self.receive(deadline),
            0..70 => self.receive(deadline),
            70..75 => self.receive_scattered(deadline),
            75..78 => self.receive_small(deadline),
            78..83 => self.receive_cold(deadline),
            83..91 => self.look_and_receive(deadline),
            91..94 => self.look_and_reject(deadline),
            _ => {
                let manner = self.manner();
                self.stream(deadline, manner)
            }
        }
    }

    /// Receives with patience, until the last message: nobody stops its sender any more, so nothing times out.
    pub(crate) fn step_patiently(&mut self) -> Result<Step, Failure> {
        let timeouts = self.tally.timeouts;
        let step = self.receive(HANG / 2)?;
        if self.tally.timeouts > timeouts {
            return Err(Failure::Other("the last message does not come".into()));
        }
        Ok(step)
    }

    fn manner(&mut self) -> Manner {
        match self.random.below(10) {
            0..5 => Manner::Read,
            5..7 => Manner::WriteTo,
            7 | 8 => Manner::Drop(self.random.doubling(1, BYTES_MAX) - 1),
            _ => Manner::Reject(self.random.doubling(1, BYTES_MAX) - 1),
        }
    }

    fn call<T>(&mut self, name: &'static str, call: impl FnOnce(&mut Connection, &mut [u8]) -> T) -> T {
        self.watchdog.call(name);
        call(&mut self.connection, &mut self.buffer)
    }

    fn receive(&mut self, deadline: Duration) -> Result<Step, Failure> {
        let bytes = self.connection.counters().bytes_received;
        let received =
            self.call("recv_into", |connection, buffer| connection.recv_into(&mut [buffer], deadline));
        self.received(received, BYTES_MAX, bytes)
    }

    fn receive_scattered(&mut self, deadline: Duration) -> Result<Step, Failure> {
        let bytes = self.connection.counters().bytes_received;
        let count = 2 + self.random.below(3);
        let parts = parts(BYTES_MAX, count, &mut self.random);
        let received = self.call("recv_into (several slices)", |connection, mut rest| {
            let mut slices = Vec::with_capacity(parts.len());
            for part in parts {
                let (slice, others) = rest.split_at_mut(part.len());
                slices.push(slice);
                rest = others;
            }
            connection.recv_into(&mut slices, deadline)
        });
        self.tally.scattered += u64::from(received.is_ok());
        self.received(received, BYTES_MAX, bytes)
    }

    /// Into a buffer that may be too small: then the message stays.
    fn receive_small(&mut self, deadline: Duration) -> Result<Step, Failure> {
        let bytes = self.connection.counters().bytes_received;
        let room = self.random.doubling(1, BYTES_MAX) - 1;
        let received = self.call("recv_into (small)", |connection, buffer| {
            connection.recv_into(&mut [&mut buffer[..room]], deadline)
        });
        self.received(received, room, bytes)
    }

    fn receive_cold(&mut self, deadline: Duration) -> Result<Step, Failure> {
        let bytes = self.connection.counters().bytes_received;
        let received = self
            .call("recv_into_cold", |connection, buffer| connection.recv_into_cold(&mut [buffer], deadline));
        self.tally.cold += u64::from(received.is_ok());
        self.received(received, BYTES_MAX, bytes)
    }

    fn look_and_receive(&mut self, deadline: Duration) -> Result<Step, Failure> {
        let Some(incoming) = self.look(deadline)? else { return Ok(Step::On) };
        let bytes = self.connection.counters().bytes_received;
        let received = self.call("incoming and recv_into", |connection, buffer| {
            connection.recv_into(&mut [buffer], deadline)
        });
        if let Ok(Received { tag, .. }) = received
            && tag != incoming.tag
        {
            let text = format!("message {} was shown, and message {tag} was received", incoming.tag);
            return Err(Failure::Other(text));
        }
        // It had begun: it was shown.
        self.received(received, BYTES_MAX, bytes.wrapping_sub(1))
    }

    fn look_and_reject(&mut self, deadline: Duration) -> Result<Step, Failure> {
        let Some(incoming) = self.look(deadline)? else { return Ok(Step::On) };
        self.oracle.excuse();
        if !self.call("reject", |connection, _| connection.reject(Reason(9))) {
            return Err(Failure::Other(format!(
                "{incoming:?} was shown, and reject() says that there is none"
            )));
        }
        self.tally.rejected += 1;
        Ok(Step::On)
    }

    fn look(&mut self, deadline: Duration) -> Result<Option<Incoming>, Failure> {
        match self.call("incoming", |connection, _| connection.incoming(deadline)) {
            Ok(incoming) => {
                self.moved = Instant::now();
                self.oracle.shown(&incoming)?;
                Ok(Some(incoming))
            }
            Err(error) if error.kind() == ErrorKind::Timeout => {
                self.tally.timeouts += 1;
                Ok(None)
            }
            Err(error) => Err(other("incoming", &error)),
        }
    }

    /// Judges what came of a receiving call, before which `bytes_before` bytes had come.
    fn received(
        &mut self,
        received: Result<Received, Error>,
        room: usize,
        bytes_before: u64,
    ) -> Result<Step, Failure> {
        let error = match received {
            Ok(Received { tag, bytes }) => {
                self.moved = Instant::now();
                let message = match self.oracle.whole(tag, &self.buffer[..bytes]) {
                    Ok(message) => message,
                    Err(wrong) => {
                        self.oracle.excuse();
                        return Err(wrong.into());
                    }
                };
                return Ok(self.took(&message));
            }
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Timeout => {
                self.oracle.excuse();
                self.tally.timeouts += 1;
                if self.connection.counters().bytes_received != bytes_before {
                    self.moved = Instant::now();
                    self.tally.begun += 1;
                }
                Ok(Step::On)
            }
            ErrorKind::TooSmall => {
                self.moved = Instant::now();
                self.too_small(room)
            }
            ErrorKind::Cancelled(_) => {
                self.moved = Instant::now();
                self.tally.cancelled += 1;
                Ok(Step::On)
            }
            _ => Err(other("recv_into", &error)),
        }
    }

    /// The next message is too long for the buffer, and stays; or a stream comes next.
    fn too_small(&mut self, room: usize) -> Result<Step, Failure> {
        let Some(incoming) = self.look(HANG / 2)? else {
            return Err(Failure::Other(
                "a message was too long for the buffer, and is not shown afterwards".into(),
            ));
        };
        match incoming.length {
            Length::Exact(length) if length <= room as u64 => {
                Err(Failure::Other(format!("{incoming:?} fits {room} bytes, and was told to be too long")))
            }
            Length::Exact(_) => {
                self.tally.too_small += 1;
                Ok(Step::On)
            }
            Length::Stream => {
                let manner =
                    if self.is_plain || self.random.chance(50) { Manner::Read } else { self.manner() };
                self.stream(HANG / 2, manner)
            }
        }
    }

    fn took(&mut self, message: &Message) -> Step {
        self.tally.ok[message.class(self.round) as usize] += 1;
        if message.is_last { Step::Last } else { Step::On }
    }

    /// Receives a stream, or a message as one.
    fn stream(&mut self, deadline: Duration, manner: Manner) -> Result<Step, Failure> {
        self.watchdog.call("recv_stream");
        let stream = match self.connection.recv_stream(deadline) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::Timeout => {
                self.tally.timeouts += 1;
                return Ok(Step::On);
            }
            Err(error) => return Err(other("recv_stream", &error)),
        };
        self.moved = Instant::now();
        let incoming = Incoming { transfer: 0, tag: stream.tag(), length: stream.length() };
        let message = self.oracle.shown(&incoming)?;
        let taken = match manner {
            Manner::WriteTo => write_to(stream, self.file, &message, &self.oracle, self.watchdog)?,
            _ => read(
                stream,
                &mut self.buffer,
                &message,
                manner,
                &self.oracle,
                &mut self.random,
                self.watchdog,
            )?,
        };
        self.moved = Instant::now();
        match taken {
            Taken::All(bytes) => {
                self.oracle.ended(&message, bytes)?;
                self.tally.streams += u64::from(message.is_stream());
                self.tally.written += u64::from(manner == Manner::WriteTo);
                return Ok(self.took(&message));
            }
            Taken::Cancelled => self.tally.cancelled += 1,
            Taken::Left => {
                self.oracle.excuse();
                self.tally.cut += 1;
            }
        }
        Ok(Step::On)
    }
}

/// End of a stream.
enum Taken {
    /// After so many bytes.
    All(usize),
    Cancelled,
    Left,
}

fn read(
    mut stream: RecvStream<'_>,
    buffer: &mut [u8],
    message: &Message,
    manner: Manner,
    oracle: &Oracle<'_>,
    random: &mut Random,
    watchdog: &Watchdog,
) -> Result<Taken, Failure> {
    let most = match manner {
        Manner::Drop(most) | Manner::Reject(most) => most,
        Manner::Read | Manner::WriteTo => usize::MAX,
    };
    let mut bytes = 0;
    while bytes < most {
        let room = random.doubling(1, BYTES_MAX).min(most - bytes);
        watchdog.call("read of a stream");
        match stream.read(&mut buffer[..room]) {
            Ok(0) => return Ok(Taken::All(bytes)),
            Ok(some) => {
                oracle.part(message, bytes, &buffer[..some])?;
                bytes += some;
            }
            Err(error) => {
                return match of_io(error) {
                    Ok(error) => cancelled("read of a stream", &error),
                    Err(error) => Err(Failure::Other(format!("read of a stream: {error}"))),
                };
            }
        }
    }
    watchdog.call("end of a stream");
    if let Manner::Reject(_) = manner {
        stream.reject(Reason(8));
    }
    Ok(Taken::Left)
}

fn write_to(
    mut stream: RecvStream<'_>,
    path: &Path,
    message: &Message,
    oracle: &Oracle<'_>,
    watchdog: &Watchdog,
) -> Result<Taken, Failure> {
    let local = |error| Failure::Other(format!("{}: {error}", path.display()));
    let file = File::create(path).map_err(local)?;
    let mut sink = Sink::new(file.into()).map_err(local)?;
    let mut digest = Digest::new(DigestKind::None);
    loop {
        watchdog.call("write_to of a stream");
        match stream.write_to(&mut sink, &mut digest) {
            Ok(0) => break,
            Ok(_) => {}
            Err(StreamError::Local(error)) => return Err(local(error)),
            Err(StreamError::Connection(error)) => return cancelled("write_to of a stream", &error),
        }
    }
    let bytes = fs::read(path).map_err(local)?;
    oracle.part(message, 0, &bytes)?;
    Ok(Taken::All(bytes.len()))
}

fn cancelled(what: &str, error: &Error) -> Result<Taken, Failure> {
    match error.kind() {
        ErrorKind::Cancelled(_) => Ok(Taken::Cancelled),
        _ => Err(other(what, error)),
    }
}

fn other(what: &str, error: &Error) -> Failure {
    Failure::Other(format!("{what}: {:?}: {error}", error.kind()))
}
