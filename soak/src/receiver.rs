//! Receiving end. It uses every receiving call of the API, with deadlines that are often too short.

use core::time::Duration;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use superpipe::io::{Digest, DigestKind, Sink};
use superpipe::{Connection, Error, ErrorKind, Incoming, Length, Reason, Received, RecvStream, StreamError};

use crate::counts::EventCounts;
use crate::message::{Message, parts};
use crate::oracle::{Mismatch, Oracle};
use crate::random::Random;
use crate::round::{BYTES_MAX, RandomStream, Round};
use crate::sender::library_error;
use crate::watchdog::{HANG_TIMEOUT, Watchdog};

/// Receiving end of one round.
pub(crate) struct Receiver<'a> {
    pub(crate) round: &'a Round,
    pub(crate) oracle: Oracle<'a>,
    pub(crate) counts: EventCounts,
    pub(crate) connection: Connection,
    watchdog: &'a Watchdog,
    /// File that streams are written to.
    file: &'a Path,
    random: Random,
    buffer: Vec<u8>,
    /// Time of the last arrival.
    moved: Instant,
    is_plain: bool,
}

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More messages follow.
    On,
    /// The last message was received.
    Last,
}

/// Cause of a failed round.
pub(crate) enum StepFailure {
    /// A message is wrong. The connection remains usable.
    Mismatch(Mismatch),
    /// Any other failure.
    Other(String),
}

impl From<Mismatch> for StepFailure {
    fn from(mismatch: Mismatch) -> Self {
        Self::Mismatch(mismatch)
    }
}

/// Call that receives a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadMethod {
    Read,
    WriteTo,
    /// Dropped or rejected after this many bytes.
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
            counts: EventCounts::default(),
            connection,
            watchdog,
            file,
            random: round.random(RandomStream::Receive, 0),
            buffer: vec![0; BYTES_MAX],
            moved: Instant::now(),
            is_plain,
        }
    }

    /// Makes one receiving call, which the random stream chooses.
    pub(crate) fn step(&mut self) -> Result<Step, StepFailure> {
        if self.moved.elapsed() > HANG_TIMEOUT {
            return Err(StepFailure::Other(format!(
                "no message arrived for {} s, while the sender sends without pause",
                HANG_TIMEOUT.as_secs()
            )));
        }
        let deadline = self.round.recv_deadline(&mut self.random);
        match self.random.below(100) {
            _ if self.is_plain => self.receive(deadline),
            0..70 => self.receive(deadline),
            70..75 => self.receive_scattered(deadline),
            75..78 => self.receive_small(deadline),
            78..83 => self.receive_cold(deadline),
            83..91 => self.peek_and_receive(deadline),
            91..94 => self.peek_and_reject(deadline),
            _ => {
                let method = self.method();
                self.stream(deadline, method)
            }
        }
    }

    /// Receives until the last message. The sender is no longer stopped, so no call may time out.
    pub(crate) fn step_patiently(&mut self) -> Result<Step, StepFailure> {
        let timeouts = self.counts.timeouts;
        let step = self.receive(HANG_TIMEOUT / 2)?;
        if self.counts.timeouts > timeouts {
            return Err(StepFailure::Other("the last message did not arrive".into()));
        }
        Ok(step)
    }

    fn method(&mut self) -> ReadMethod {
        match self.random.below(10) {
            0..5 => ReadMethod::Read,
            5..7 => ReadMethod::WriteTo,
            7 | 8 => ReadMethod::Drop(self.random.doubling(1, BYTES_MAX) - 1),
            _ => ReadMethod::Reject(self.random.doubling(1, BYTES_MAX) - 1),
        }
    }

    fn call<T>(&mut self, name: &'static str, call: impl FnOnce(&mut Connection, &mut [u8]) -> T) -> T {
        self.watchdog.call(name);
        call(&mut self.connection, &mut self.buffer)
    }

    fn receive(&mut self, deadline: Duration) -> Result<Step, StepFailure> {
        let bytes = self.connection.counters().bytes_received;
        let received =
            self.call("recv_into", |connection, buffer| connection.recv_into(&mut [buffer], deadline));
        self.received(received, BYTES_MAX, bytes)
    }

    fn receive_scattered(&mut self, deadline: Duration) -> Result<Step, StepFailure> {
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
        self.counts.scattered += u64::from(received.is_ok());
        self.received(received, BYTES_MAX, bytes)
    }

    /// Receives into a buffer that may be too small. A message that does not fit stays.
    fn receive_small(&mut self, deadline: Duration) -> Result<Step, StepFailure> {
        let bytes = self.connection.counters().bytes_received;
        let room = self.random.doubling(1, BYTES_MAX) - 1;
        let received = self.call("recv_into (small)", |connection, buffer| {
            connection.recv_into(&mut [&mut buffer[..room]], deadline)
        });
        self.received(received, room, bytes)
    }

    fn receive_cold(&mut self, deadline: Duration) -> Result<Step, StepFailure> {
        let bytes = self.connection.counters().bytes_received;
        let received = self
            .call("recv_into_cold", |connection, buffer| connection.recv_into_cold(&mut [buffer], deadline));
        self.counts.cold += u64::from(received.is_ok());
        self.received(received, BYTES_MAX, bytes)
    }

    fn peek_and_receive(&mut self, deadline: Duration) -> Result<Step, StepFailure> {
        let Some(incoming) = self.peek(deadline)? else { return Ok(Step::On) };
        let bytes = self.connection.counters().bytes_received;
        let received = self.call("incoming and recv_into", |connection, buffer| {
            connection.recv_into(&mut [buffer], deadline)
        });
        if let Ok(Received { tag, .. }) = received
            && tag != incoming.tag
        {
            let text = format!("message {} was shown, and message {tag} was received", incoming.tag);
            return Err(StepFailure::Other(text));
        }
        // A message that was shown has begun.
        self.received(received, BYTES_MAX, bytes.wrapping_sub(1))
    }

    fn peek_and_reject(&mut self, deadline: Duration) -> Result<Step, StepFailure> {
        let Some(incoming) = self.peek(deadline)? else { return Ok(Step::On) };
        self.oracle.allow_loss();
        if !self.call("reject", |connection, _| connection.reject(Reason(9))) {
            return Err(StepFailure::Other(format!("{incoming:?} was shown, but reject() returned false")));
        }
        self.counts.rejected += 1;
        Ok(Step::On)
    }

    fn peek(&mut self, deadline: Duration) -> Result<Option<Incoming>, StepFailure> {
        match self.call("peek", |connection, _| connection.peek(deadline)) {
            Ok(incoming) => {
                self.moved = Instant::now();
                self.oracle.shown(&incoming)?;
                Ok(Some(incoming))
            }
            Err(error) if error.kind() == ErrorKind::Timeout => {
                self.counts.timeouts += 1;
                Ok(None)
            }
            Err(error) => Err(other("incoming", &error)),
        }
    }

    /// Checks the result of a receiving call. `bytes_before` is the number of bytes received before it.
    fn received(
        &mut self,
        received: Result<Received, Error>,
        room: usize,
        bytes_before: u64,
    ) -> Result<Step, StepFailure> {
        let error = match received {
            Ok(Received { tag, bytes }) => {
                self.moved = Instant::now();
                let message = match self.oracle.message(tag, &self.buffer[..bytes]) {
                    Ok(message) => message,
                    Err(mismatch) => {
                        self.oracle.allow_loss();
                        return Err(mismatch.into());
                    }
                };
                return Ok(self.count_received(&message));
            }
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Timeout => {
                self.oracle.allow_loss();
                self.counts.timeouts += 1;
                if self.connection.counters().bytes_received != bytes_before {
                    self.moved = Instant::now();
                    self.counts.begun += 1;
                }
                Ok(Step::On)
            }
            ErrorKind::TooSmall => {
                self.moved = Instant::now();
                self.too_small(room)
            }
            ErrorKind::Cancelled(_) => {
                self.moved = Instant::now();
                self.counts.cancelled += 1;
                Ok(Step::On)
            }
            _ => Err(other("recv_into", &error)),
        }
    }

    /// Checks that the next message is too long for the buffer, or receives the stream that is next.
    fn too_small(&mut self, room: usize) -> Result<Step, StepFailure> {
        let Some(incoming) = self.peek(HANG_TIMEOUT / 2)? else {
            return Err(StepFailure::Other(
                "a message was too long for the buffer, and incoming() does not show it".into(),
            ));
        };
        match incoming.length {
            Length::Exact(length) if length <= room as u64 => Err(StepFailure::Other(format!(
                "{incoming:?} fits {room} bytes, but was reported as too long"
            ))),
            Length::Exact(_) => {
                self.counts.too_small += 1;
                Ok(Step::On)
            }
            Length::Stream => {
                let method =
                    if self.is_plain || self.random.chance(50) { ReadMethod::Read } else { self.method() };
                self.stream(HANG_TIMEOUT / 2, method)
            }
        }
    }

    fn count_received(&mut self, message: &Message) -> Step {
        self.counts.ok[message.class(self.round) as usize] += 1;
        if message.is_last { Step::Last } else { Step::On }
    }

    /// Receives a stream, or a message as a stream.
    fn stream(&mut self, deadline: Duration, method: ReadMethod) -> Result<Step, StepFailure> {
        self.watchdog.call("accept_stream");
        let stream = match self.connection.accept_stream(deadline) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::Timeout => {
                self.counts.timeouts += 1;
                return Ok(Step::On);
            }
            Err(error) => return Err(other("accept_stream", &error)),
        };
        self.moved = Instant::now();
        let incoming = Incoming { transfer: 0, tag: stream.tag(), length: stream.length() };
        let message = self.oracle.shown(&incoming)?;
        let taken = match method {
            ReadMethod::WriteTo => write_to(stream, self.file, &message, &self.oracle, self.watchdog)?,
            _ => read(
                stream,
                &mut self.buffer,
                &message,
                method,
                &self.oracle,
                &mut self.random,
                self.watchdog,
            )?,
        };
        self.moved = Instant::now();
        match taken {
            StreamEnd::Finished(bytes) => {
                self.oracle.ended(&message, bytes)?;
                self.counts.streams += u64::from(message.is_stream());
                self.counts.written += u64::from(method == ReadMethod::WriteTo);
                return Ok(self.count_received(&message));
            }
            StreamEnd::Cancelled => self.counts.cancelled += 1,
            StreamEnd::Abandoned => {
                self.oracle.allow_loss();
                self.counts.cut += 1;
            }
        }
        Ok(Step::On)
    }
}

/// End of a stream.
enum StreamEnd {
    /// Finished after this many bytes.
    Finished(usize),
    Cancelled,
    Abandoned,
}

fn read(
    mut stream: RecvStream<'_>,
    buffer: &mut [u8],
    message: &Message,
    method: ReadMethod,
    oracle: &Oracle<'_>,
    random: &mut Random,
    watchdog: &Watchdog,
) -> Result<StreamEnd, StepFailure> {
    let most = match method {
        ReadMethod::Drop(most) | ReadMethod::Reject(most) => most,
        ReadMethod::Read | ReadMethod::WriteTo => usize::MAX,
    };
    let mut bytes = 0;
    while bytes < most {
        let room = random.doubling(1, BYTES_MAX).min(most - bytes);
        watchdog.call("read of a stream");
        match stream.read(&mut buffer[..room]) {
            Ok(0) => return Ok(StreamEnd::Finished(bytes)),
            Ok(some) => {
                oracle.part(message, bytes, &buffer[..some])?;
                bytes += some;
            }
            Err(error) => {
                return match library_error(error) {
                    Ok(error) => cancelled("read of a stream", &error),
                    Err(error) => Err(StepFailure::Other(format!("read of a stream: {error}"))),
                };
            }
        }
    }
    watchdog.call("end of a stream");
    if let ReadMethod::Reject(_) = method {
        stream.reject(Reason(8));
    }
    Ok(StreamEnd::Abandoned)
}

fn write_to(
    mut stream: RecvStream<'_>,
    path: &Path,
    message: &Message,
    oracle: &Oracle<'_>,
    watchdog: &Watchdog,
) -> Result<StreamEnd, StepFailure> {
    let local = |error| StepFailure::Other(format!("{}: {error}", path.display()));
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
    Ok(StreamEnd::Finished(bytes.len()))
}

fn cancelled(what: &str, error: &Error) -> Result<StreamEnd, StepFailure> {
    match error.kind() {
        ErrorKind::Cancelled(_) => Ok(StreamEnd::Cancelled),
        _ => Err(other(what, error)),
    }
}

fn other(what: &str, error: &Error) -> StepFailure {
    StepFailure::Other(format!("{what}: {:?}: {error}", error.kind()))
}
