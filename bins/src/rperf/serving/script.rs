//! The server's part of one run, message by message, without waiting: a ping-pong or the end of a stream.
//!
//! ```text
//!            +----------------- next window -----------------+
//!            v                                               |
//! BEGIN --> GO --> RECEIVE --> SEND (ping-pong) --> .. --> compared
//!                     ^          |
//!                     +----------+  next message of the window
//! ```
//!
//! A run whose messages take no preparing has one window.

use crate::protocol::Role;
use crate::rperf::buffers::Buffer;
use crate::rperf::clock::CpuUsage;
use crate::rperf::end::{End, check, offer, receive_into_within, send_within};
use crate::rperf::link::MessageError;
use crate::rperf::messages::{Memory, TAG_END, TAG_GO};
use crate::rperf::parts::{TURN_BYTES, send_part};
use crate::rperf::runs::{Pattern, Run};
use crate::rperf::samples::Samples;
use crate::rperf::stream::windows;
use crate::signals::Signals;
use core::hint;
use core::time::Duration;
use superpipe::os::monotonic_ns;
use superpipe::{
    Connection, Description, Drive, ErrorKind, Key, Poller, Received, RecvOperation, SendOperation, TrySend,
};

/// Wait for a message that arrives as a whole, before others are looked at.
const WHOLE_WAIT: Duration = Duration::from_millis(1);
/// The server's part of a run.
pub(super) struct Script {
    run: Run,
    samples: Samples,
    usage: CpuUsage,
    windows: Box<dyn Iterator<Item = (u64, bool)>>,
    phase: Phase,
    /// messages of the window, and true if they are timed one by one
    window: (u64, bool),
    /// messages received of the window, and of the run
    index: u64,
    total: u64,
    receive: RecvOperation,
    send: Option<SendOperation>,
    /// calls of the library that need no peer may be used: over shared memory, out of ordinary memory
    is_direct: bool,
    /// longest message that arrives as a whole, so that a wait that ends too early loses nothing of it
    whole_bytes: usize,
    /// beginning of the batch, and time of the last message
    batch_ns: u64,
    last_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Begin,
    Go,
    Receive,
    Send,
}

/// The connections of a client.
pub(super) struct Links<'a> {
    pub(super) poller: &'a mut Poller,
    pub(super) control: Key,
    pub(super) data: Key,
}

/// Turn that a script has.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    /// messages at most
    pub(super) messages: u32,
    /// looks for the next message: more than one where nobody else measures
    pub(super) looks: u32,
}

/// Result of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turned {
    /// All messages went.
    Done,
    /// There may be more to do.
    More,
    /// Nothing can be done now. True: until this end can send.
    Idle(bool),
}

impl Script {
    /// Begins a run, whose buffers are there.
    pub(super) fn new(run: Run, end: &End, description: &Description) -> Self {
        let is_prepared = run.pattern == Pattern::Check || end.plan.is_prepared();
        let all = if run.is_by_time() { u64::MAX } else { run.warmup + run.timed() };
        let windows: Box<dyn Iterator<Item = (u64, bool)>> = match (run.pattern, is_prepared) {
            (Pattern::Stream, true) => Box::new(
                windows(&run, end.is_registered).map(|(messages, is_timed)| (messages as u64, is_timed)),
            ),
            (Pattern::Check | Pattern::Pingpong | Pattern::Both, true) => {
                Box::new((0..all).map(|_| (1, false)))
            }
            (_, false) => Box::new(core::iter::once((all, false))),
        };
        Self {
            samples: Samples::new(&run, Role::Server),
            run,
            usage: CpuUsage::begin(),
            windows,
            phase: Phase::Begin,
            window: (0, false),
            index: 0,
            total: 0,
            receive: RecvOperation::new(),
            send: None,
            is_direct: description.fabric == "shm" && end.plan.memory != Memory::Advised,
            // the header of its chunk is in its block as well
            whole_bytes: usize::try_from(description.block_bytes / 2).unwrap_or(0),
            batch_ns: 0,
            last_ns: 0,
        }
    }

    /// Returns the run, its samples, and CPU time and elapsed time of this thread in nanoseconds.
    pub(super) fn finish(self) -> (Run, Samples, (u64, u64)) {
        (self.run, self.samples, self.usage.since())
    }

    /// Returns the number of messages that were received.
    pub(super) const fn messages(&self) -> u64 {
        self.total
    }

    /// Does what can be done now, within a turn.
    ///
    /// # Errors
    /// A message that cannot be sent or received, too little memory, or a signal.
    pub(super) fn turn(
        &mut self,
        end: &mut End,
        links: &mut Links<'_>,
        signals: &Signals,
        turn: Turn,
    ) -> Result<Turned, MessageError> {
        let is_prepared = self.run.pattern == Pattern::Check || end.plan.is_prepared();
        if self.phase == Phase::Begin {
            let Some(window) = self.windows.next() else { return Ok(Turned::Done) };
            (self.window, self.index) = (window, 0);
            let Some(data) = links.poller.connection(links.data) else { return Ok(Turned::Idle(false)) };
            if is_prepared {
                end.prepare(data, signals, usize::try_from(window.0).unwrap_or(usize::MAX))?;
            }
            if self.run.pattern != Pattern::Stream
                && let Some(to) = end.to.buffers().first_mut()
            {
                offer(data, to)?;
            }
            self.phase = Phase::Go;
        }
        if self.phase == Phase::Go {
            let Some(control) = links.poller.connection(links.control) else {
                return Ok(Turned::Idle(false));
            };
            if control.try_send(TAG_GO, &[]).map_err(MessageError::Library)? != TrySend::Sent {
                return Ok(Turned::Idle(true));
            }
            self.phase = Phase::Receive;
        }
        let Some(data) = links.poller.connection(links.data) else { return Ok(Turned::Idle(false)) };
        let most = TURN_BYTES.checked_div(self.run.bytes).unwrap_or(u64::MAX).max(1);
        let mut left = if turn.looks > 1 { turn.messages.into() } else { most.min(turn.messages.into()) };
        loop {
            if self.phase == Phase::Receive {
                if self.index == self.window.0 {
                    break;
                }
                if left == 0 {
                    return Ok(Turned::More);
                }
                match self.receive(end, data, turn)? {
                    Drive::Done(false) => return Ok(Turned::Done),
                    Drive::Done(true) => {}
                    Drive::Moved => return Ok(Turned::More),
                    Drive::Idle => return Ok(Turned::Idle(false)),
                }
                self.note_received();
                left -= 1;
                if self.run.pattern == Pattern::Stream {
                    continue;
                }
                self.phase = Phase::Send;
                if !is_prepared && let Some(to) = end.to.buffers().first_mut() {
                    offer(data, to)?;
                }
            }
            match self.send(end, data)? {
                Drive::Done(()) => self.phase = Phase::Receive,
                Drive::Moved => return Ok(Turned::More),
                Drive::Idle => return Ok(Turned::Idle(true)),
            }
        }
        if is_prepared {
            let is_compared = self.run.pattern == Pattern::Check || end.plan.is_verified;
            for index in 0..usize::try_from(self.window.0).unwrap_or(usize::MAX) {
                end.compare(index, is_compared, signals)?;
            }
        }
        self.phase = Phase::Begin;
        Ok(Turned::More)
    }

    /// Receives the next message, or a part of it. Done, and false: it was END.
    #[inline]
    fn receive(
        &mut self,
        end: &mut End,
        data: &mut Connection,
        turn: Turn,
    ) -> Result<Drive<bool>, MessageError> {
        let at = usize::try_from(self.index).unwrap_or(usize::MAX).min(end.to.buffers().len() - 1);
        let (memory, patience) = (end.plan.memory, end.patience);
        let buffer = &mut end.to.buffers()[at];
        let bytes = buffer.message_bytes();
        if self.is_direct && matches!(buffer, Buffer::Plain { .. } | Buffer::Superpipe(_)) {
            if turn.looks > 1 && bytes <= self.whole_bytes {
                return match data.recv_into(&mut [buffer.memory()], WHOLE_WAIT) {
                    Ok(received) => self.is_message(received, bytes).map(Drive::Done),
                    Err(error) if error.kind() == ErrorKind::Timeout => Ok(Drive::Idle),
                    Err(error) => Err(MessageError::Library(error)),
                };
            }
            for _ in 0..turn.looks {
                match data
                    .drive_recv(&mut self.receive, &mut [buffer.memory()])
                    .map_err(MessageError::Library)?
                {
                    Drive::Done(received) => {
                        self.receive = RecvOperation::new();
                        return self.is_message(received, bytes).map(Drive::Done);
                    }
                    Drive::Moved if turn.looks == 1 => return Ok(Drive::Moved),
                    Drive::Moved => {}
                    Drive::Idle => hint::spin_loop(),
                }
            }
            return Ok(Drive::Idle);
        }
        for _ in 0..turn.looks {
            if let Some(incoming) = data.try_peek().map_err(MessageError::Library)? {
                if incoming.tag == TAG_END && self.run.is_by_time() {
                    let received = data.recv_into(&mut [], patience).map_err(MessageError::Library)?;
                    return self.is_message(received, bytes).map(Drive::Done);
                }
                return receive_into_within(memory, data, buffer, patience).map(|()| Drive::Done(true));
            }
            hint::spin_loop();
        }
        Ok(Drive::Idle)
    }

    /// Returns true for a message of the run, and false for END.
    #[inline]
    fn is_message(&self, received: Received, bytes: usize) -> Result<bool, MessageError> {
        match received {
            Received { tag: TAG_END, bytes: 0 } if self.run.is_by_time() => Ok(false),
            _ => check(received, bytes).map(|()| true),
        }
    }

    /// Sends the answer, or a part of it.
    #[inline]
    fn send(&mut self, end: &mut End, data: &mut Connection) -> Result<Drive<()>, MessageError> {
        let patience = end.patience;
        let [buffer, ..] = end.from.buffers() else { return Err(MessageError::Unexpected) };
        if !self.is_direct || !matches!(buffer, Buffer::Plain { .. } | Buffer::Superpipe(_)) {
            return send_within(data, buffer, patience).map(Drive::Done);
        }
        send_part(data, &mut self.send, &buffer.message())
    }

    /// Notes that a message was received, and when, if that is a sample of a stream.
    #[inline]
    fn note_received(&mut self) {
        let (index, total) = (self.index, self.total);
        self.index += 1;
        self.total += 1;
        if self.run.pattern != Pattern::Stream {
            return;
        }
        // prepared windows
        if self.window.1 {
            let now = monotonic_ns();
            if index > 0 {
                self.samples.push(now - self.last_ns);
            }
            self.last_ns = now;
            return;
        }
        let Some(timed) = (total + 1).checked_sub(self.run.warmup) else { return };
        let Some(position) = timed.checked_sub(1) else {
            (self.batch_ns, self.last_ns) = (monotonic_ns(), monotonic_ns());
            return;
        };
        let batch = u64::from(self.run.batch);
        if batch == 1 {
            let now = monotonic_ns();
            self.samples.push(now - self.last_ns);
            self.last_ns = now;
            return;
        }
        // a batch between two readings of the clock, and then as many messages with one each
        let position = position % (2 * batch) + 1;
        if position < batch {
            return;
        }
        let now = monotonic_ns();
        if position == batch {
            self.samples.push_batch(now - self.batch_ns);
        } else {
            self.samples.push(now - self.last_ns);
        }
        (self.last_ns, self.batch_ns) = (now, now);
    }
}
