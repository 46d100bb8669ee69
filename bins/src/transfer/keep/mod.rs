//! `rrecv --keep`: many senders, at once and one after another, in one thread.
//!
//! ```text
//! mod       the connections, their limits, and what is reported       sender    one sender: its messages in their order
//! commits   completes files beside that
//! ```
//!
//! Nothing here waits for one sender. What blocks is bounded: a write of at most 256 KiB per turn; making a file. A file is completed by another thread.

mod commits;
mod sender;

use crate::command_line::options::{Common, Listening, Receive};
use crate::connection::attempts::Attempts;
use crate::connection::listen;
use crate::connection::peer;
use crate::exit::{Code, Failure};
use crate::files::output::{IfExists, KeptFiles, Output};
use crate::protocol::Role;
use crate::quantity::format_duration;
use crate::report::bar::format_rate;
use crate::report::events::{Event, gb_per_s, round};
use crate::transfer::run::{Run, Transfers};
use crate::transfer::stop_cause::StopCause;
use commits::Commits;
use core::time::Duration;
use sender::{Context, Next, Sender};
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;
use superpipe::io::DigestKind;
use superpipe::{
    Connection, Error, ErrorKind, Interest, Key, Options, PollEvent, PollEvents, Poller, PollerOptions,
};

/// Default of --connections-max. So many take about 128 MiB, and fewer descriptors than the usual limit of 1024.
const CONNECTIONS_MAX: u32 = 128;
/// Events of a round.
const EVENTS: usize = 64;
/// Interval between two looks at deadlines.
const TICK: Duration = Duration::from_millis(50);
/// The same while files are being completed, whose end wakes nobody.
const COMMIT_TICK: Duration = Duration::from_millis(1);
/// Longest time for which a close holds up all others: over RDMA it waits until what was sent has left.
const LINGER: Duration = Duration::from_millis(50);

/// The server.
struct Server<'a, 'b> {
    run: &'a mut Run<'b>,
    options: &'a Receive,
    files: KeptFiles,
    poller: Poller,
    /// `None` once enough transfers are complete
    listener: Option<Key>,
    senders: HashMap<Key, Sender>,
    commits: Commits<Output>,
    attempts: Attempts,
    transfers: Transfers,
    /// last time that anybody was connected
    used_at: Instant,
}

/// Serves senders until a signal, the count or the timeout ends that.
///
/// # Errors
/// The directory cannot be written, nobody can connect, a signal arrived, or nobody connected in time.
pub(super) fn keep(run: &mut Run<'_>, options: &Receive, directory: &Path) -> Result<(), Failure> {
    let Listening { listen, accept_timeout } = &options.listening;
    run.transfers = Some(Transfers::default());
    run.start(listen, &directory.display().to_string(), None, *accept_timeout)?;
    let if_exists = if options.overwrite { IfExists::Replace } else { IfExists::Fail };
    let files = KeptFiles::open(directory, if_exists)?;
    // before this thread is pinned, so that it is not bound to the same core
    let commits = Commits::start()?;
    run.detach_events()?;
    run.session.pin()?;
    let failed = |session: &crate::connection::session::Session<'_>, error: &Error| session.failure(error);
    let mut poller = Poller::new(PollerOptions {
        connections_max: options.connections_max.unwrap_or(CONNECTIONS_MAX),
        wait: options.transfer.wait.strategy(),
        interrupt: Some(run.session.signals.flag()),
        ..PollerOptions::default()
    })
    .map_err(|error| failed(&run.session, &error))?;
    let made = listen::bind(&run.session, &options.listening, Options { linger: LINGER, ..run.options() })?;
    let address = made.local_addr().clone();
    let listener = poller.adopt_listener(made).map_err(|error| failed(&run.session, &error))?;
    run.listening(listen, &address);
    let mut server = Server {
        run,
        options,
        files,
        poller,
        listener: Some(listener),
        senders: HashMap::new(),
        commits,
        attempts: Attempts::new(address),
        transfers: Transfers::default(),
        used_at: Instant::now(),
    };
    let outcome = server.serve();
    server.end(outcome)
}

impl Server<'_, '_> {
    fn serve(&mut self) -> Result<(), Failure> {
        let mut events = PollEvents::with_capacity(EVENTS);
        let mut next_tick = Instant::now();
        loop {
            let wait = if self.commits.are_pending() { COMMIT_TICK } else { TICK };
            match self.poller.poll(&mut events, wait) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.run.session.failure(&error)),
            }
            if let Some((code, how)) = self.run.session.signals.arrived() {
                // [`end`](Self::end) adds what became of the transfers
                return Err(Failure::new(code, how));
            }
            for event in &events {
                self.handle(event)?;
            }
            while let Some((key, committed)) = self.commits.poll() {
                self.committed(key, committed);
            }
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + TICK;
                self.tick(now);
            }
            if self.is_over(now)? {
                return Ok(());
            }
        }
    }

    fn handle(&mut self, event: PollEvent) -> Result<(), Failure> {
        match event {
            PollEvent::Accepted { connection: key, .. } => {
                if let Some(connection) = self.poller.connection(key) {
                    self.run.connected(connection)?;
                }
                self.senders.insert(key, Sender::new(Instant::now()));
                self.step(key);
            }
            PollEvent::AcceptFailed { listener, .. } => self.accept_failed(listener)?,
            PollEvent::Readable { connection: key } | PollEvent::Writable { connection: key } => {
                self.step(key)
            }
            PollEvent::Ended { connection: key } => self.ended(key),
            // Its transfer is complete at this end, whatever it does.
            PollEvent::Silent { connection: key }
                if self.senders.get(&key).is_some_and(Sender::is_committing) => {}
            PollEvent::Silent { connection: key }
                if self.senders.get(&key).is_some_and(Sender::is_settled) =>
            {
                self.remove(key);
            }
            PollEvent::Silent { connection: key } => {
                let within = format_duration(self.run.session.common.idle_timeout);
                let text = format!("the sender was silent for {within} (--idle-timeout)");
                self.fail(key, Failure::new(Code::Timeout, text));
                self.remove(key);
            }
            _ => {}
        }
        Ok(())
    }

    /// Does what can be done for a sender.
    fn step(&mut self, key: Key) {
        let (Some(connection), Some(sender)) = (self.poller.connection(key), self.senders.get_mut(&key))
        else {
            return;
        };
        let context = Context { run: &*self.run, options: self.options, files: &self.files };
        match sender.step(connection, &context) {
            Ok(Next::Wait { to_send }) => {
                let readable = !sender.is_committing();
                self.poller.set_interest(key, Interest { readable, writable: to_send });
            }
            Ok(Next::Commit(output)) => {
                self.poller.set_interest(key, Interest::NONE);
                self.commits.begin(key, *output);
            }
            Err(_) if sender.is_settled() => self.remove(key),
            Err(StopCause::Local(failure)) => self.refuse(key, failure),
            Err(StopCause::ByPeer(reason)) => {
                sender.await_report(reason);
                self.step(key);
            }
            Err(StopCause::ConnectionFailed(failure)) => {
                self.fail(key, failure);
                self.remove(key);
            }
        }
    }

    /// Reports a failure of this end, and has it told to the sender.
    fn refuse(&mut self, key: Key, failure: Failure) {
        if let Some(sender) = self.senders.get_mut(&key) {
            sender.refuse(&failure);
        }
        self.fail(key, failure);
        self.step(key);
    }

    /// Reports the end of a file's completion.
    fn committed(&mut self, key: Key, committed: Result<(), Failure>) {
        if let Err(failure) = committed {
            return if self.poller.connection(key).is_some() {
                self.refuse(key, failure);
            } else {
                self.fail(key, failure);
                self.remove(key);
            };
        }
        let Some(sender) = self.senders.get_mut(&key) else { return };
        self.transfers.complete += 1;
        self.attempts.restart();
        report(self.run, sender, None);
        sender.confirm(self.run.session.common.idle_timeout);
        // its end was seen already
        if self.poller.connection(key).is_none() {
            return self.remove(key);
        }
        self.step(key);
    }

    /// Handles the end of a connection.
    fn ended(&mut self, key: Key) {
        let Some(sender) = self.senders.get(&key) else { return };
        if sender.is_committing() {
            // The transfer is complete at this end, whatever the sender does. It keeps its place, since its file has descriptors.
            return;
        }
        if !sender.is_settled() {
            let reason = sender.cancelled();
            let failure = self.poller.connection(key).map(|connection| why(self.run, connection));
            let failure = match (reason, failure) {
                (Some(reason), _) => peer::failure_of_reason(reason, Role::Sender),
                (None, Some(failure)) => failure,
                (None, None) => return,
            };
            self.fail(key, failure);
        }
        self.remove(key);
    }

    /// Reports a failed transfer or attempt.
    fn fail(&mut self, key: Key, failure: Failure) {
        self.transfers.failed += 1;
        let Some(sender) = self.senders.get(&key) else { return };
        if sender.elapsed().is_some() {
            report(self.run, sender, Some(&failure));
        }
        let text = match sender.name() {
            Some(name) => format!("{name}: {failure}"),
            None => failure.text,
        };
        self.attempts.add(&self.run.session, &Failure::new(failure.code, text));
    }

    /// Forgets a sender, and closes its connection. An incomplete file vanishes.
    fn remove(&mut self, key: Key) {
        let reason = self.senders.remove(&key).map(|sender| sender.reason());
        if let (Some(connection), Some(reason)) = (self.poller.remove(key), reason) {
            let _ = connection.close(reason, LINGER);
        }
    }

    /// Reports a client that did not become a connection.
    ///
    /// # Errors
    /// A limit has no room for any client.
    fn accept_failed(&mut self, listener: Key) -> Result<(), Failure> {
        let Some(error) = self.poller.take_accept_error(listener) else { return Ok(()) };
        let Common { memory, tuning, .. } = self.run.session.common;
        let failure = self.run.session.failure(&error);
        if memory.fit_no_connection(&failure.text, &tuning.tuning()) {
            return Err(failure);
        }
        self.transfers.failed += 1;
        self.attempts.add(&self.run.session, &failure);
        Ok(())
    }

    /// Looks at deadlines, and at places that somebody may need.
    fn tick(&mut self, now: Instant) {
        let late: Vec<_> =
            self.senders.iter().filter(|(_, sender)| sender.is_late(now)).map(|(key, _)| *key).collect();
        for key in late {
            let Some(sender) = self.senders.get(&key) else { continue };
            if sender.is_settled() {
                self.remove(key);
                continue;
            }
            let (failure, has_cancelled) = (sender.late(), sender.cancelled().is_some());
            if has_cancelled {
                self.fail(key, failure);
                self.remove(key);
            } else {
                self.refuse(key, failure);
            }
        }
        let places = self.options.connections_max.unwrap_or(CONNECTIONS_MAX);
        // Without a listener nobody else comes, and the end waits for those that are left.
        if self.poller.connection_count() >= places as usize || self.listener.is_none() {
            let longest = self.senders.iter().filter_map(|(key, sender)| Some((sender.idle(now)?, *key)));
            let longest = longest.max_by_key(|(idle, _)| *idle);
            let timeout = self.run.session.common.idle_timeout;
            if let Some((_, key)) = longest.filter(|(idle, _)| *idle >= timeout) {
                let why = match self.listener {
                    Some(_) => format!("all {places} places are taken (--connections-max)"),
                    None => "all files that were asked for are there (--count)".to_owned(),
                };
                let text =
                    format!("it sent nothing for {} (--idle-timeout), and {why}", format_duration(timeout));
                self.refuse(key, Failure::new(Code::Timeout, text));
            }
        }
    }

    /// Returns true once the work is done.
    ///
    /// # Errors
    /// Nobody connected in time, and nothing was received before.
    fn is_over(&mut self, now: Instant) -> Result<bool, Failure> {
        let is_complete = self.options.count.is_some_and(|count| self.transfers.complete >= count);
        if is_complete && let Some(listener) = self.listener.take() {
            self.poller.remove(listener);
            // those without data are not waited for
            let is_idle = |sender: &Sender| sender.elapsed().is_none() && !sender.is_settled();
            let idle = self.senders.iter().filter(|(_, sender)| is_idle(sender)).map(|(key, _)| *key);
            let idle: Vec<_> = idle.collect();
            for key in idle {
                self.remove(key);
            }
        }
        if !self.senders.is_empty() {
            self.used_at = now;
            return Ok(false);
        }
        let timeout = self.options.listening.accept_timeout;
        if is_complete || now.saturating_duration_since(self.used_at) < timeout {
            return Ok(is_complete);
        }
        if self.transfers.complete > 0 {
            return Ok(true);
        }
        let nobody = format!("nobody connected to {}", self.options.listening.listen);
        Err(self.attempts.explain(self.run.session.role.work(), timeout, &nobody))
    }

    /// Gives up what is under way: its files vanish.
    fn end(mut self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        // Whose file has its name is told so.
        for (key, committed) in self.commits.finish() {
            self.committed(key, committed);
        }
        let outcome = outcome.map_err(|Failure { code, text }| {
            let under_way = self.senders.values().filter(|sender| !sender.is_settled()).count();
            let became = format!("; {}, {under_way} given up", self.transfers);
            Failure::new(code, if code.is_signal() { text + &became } else { text })
        });
        self.run.transfers = Some(self.transfers);
        let code = outcome.as_ref().err().map_or(Code::Done, |failure| failure.code);
        for (key, sender) in self.senders.drain() {
            let reason = if sender.is_settled() { sender.reason() } else { code.into() };
            if let Some(connection) = self.poller.remove(key) {
                let _ = connection.close(reason, LINGER);
            }
        }
        outcome
    }
}

/// Returns the failure of a connection that has ended.
fn why(run: &Run<'_>, connection: &mut Connection) -> Failure {
    let error = connection.try_recv(&mut []).err();
    match error.map(|error| run.stop_cause(&error)) {
        Some(StopCause::ByPeer(reason)) => peer::failure_of_reason(reason, Role::Sender),
        Some(StopCause::ConnectionFailed(failure) | StopCause::Local(failure)) => failure,
        None => Failure::new(Code::PeerLost, "the sender ended in the middle of a message"),
    }
}

/// Reports a transfer that has ended, and of which the data had begun.
fn report(run: &Run<'_>, sender: &Sender, failure: Option<&Failure>) {
    let (digest, elapsed) = (sender.digest(), sender.elapsed().unwrap_or_default());
    let (bytes, kind, seconds) = (digest.bytes(), digest.kind(), round(elapsed.as_secs_f64()));
    let name = sender.name().unwrap_or_default();
    run.put(&Event::Transfer {
        name: &name,
        seconds,
        bytes,
        gb_per_s: gb_per_s(bytes, seconds),
        exit_code: failure.map_or(Code::Done, |failure| failure.code).number(),
        error: failure.map(|failure| failure.text.as_str()),
        checksum: kind.name(),
        checksum_value: format!("{:#018x}", digest.value()),
    });
    if failure.is_some() {
        return;
    }
    let checksum = match kind {
        DigestKind::None => String::new(),
        kind => format!(", {kind} {:x}", digest.value()),
    };
    let text = format!("{name}: {bytes} bytes in {seconds:.3} s, {}{checksum}", format_rate(bytes, elapsed));
    run.session.print_if(!run.session.common.quiet, &text);
    if !sender.remark().is_empty() {
        run.session.print_if(true, &format!("{name}: {}: {}", Role::Sender.part(), sender.remark()));
    }
}
