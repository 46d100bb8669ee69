//! What is due: a listener or a connect that goes on, a keepalive, a look at an armed connection.
//!
//! Each slot has a time at which it is due, and a round looks at all of them once the earliest has come.

use super::events::{PollEvent, PollEvents};
use super::{Entry, Key, Poller, number};
use crate::blocking::ConnectProgress;
use crate::connection::Connection;
use crate::error::Error;
use crate::watched::{Member, State};

/// Time after which descriptors that could not be watched are watched again.
const WATCH_AGAIN_NS: u64 = 1_000_000;

impl Poller {
    pub(super) fn set_due(&mut self, key: Key, due_ns: u64) {
        if let Some(due) = self.due.get_mut(key.slot as usize) {
            *due = due_ns;
            self.earliest_ns = self.earliest_ns.min(due_ns);
        }
    }

    /// Looks at everything that is due, as long as there is room for events.
    pub(super) fn look_at_due(&mut self, events: &mut PollEvents) {
        self.earliest_ns = u64::MAX;
        let used = self.entries.used() as usize;
        let first = core::mem::take(&mut self.next_due);
        for slot in (first.min(used)..used).chain(0..first.min(used)) {
            let Some(due) = self.due.get_mut(slot) else { continue };
            if *due > self.clock.now_ns {
                self.earliest_ns = self.earliest_ns.min(*due);
                continue;
            }
            // A flood of clients leaves room for connections.
            if !events.has_room_beside() {
                // It is the first one of the next call.
                self.earliest_ns = 0;
                self.next_due = if self.next_due == 0 { slot } else { self.next_due };
                continue;
            }
            *due = u64::MAX;
            #[expect(clippy::cast_possible_truncation, reason = "there are 2^16 slots at most")]
            if let Some(key) = self.entries.key_at(slot as u32) {
                self.look_at_one(key, events);
            }
        }
    }

    /// Looks at something that is due.
    fn look_at_one(&mut self, key: Key, events: &mut PollEvents) {
        match self.entries.get(key) {
            Some(Entry::Listening(_)) => self.accept(key, events),
            Some(Entry::Connecting(_)) => self.drive_connect(key, events),
            Some(Entry::Member(_)) => self.tend(key, events),
            Some(Entry::Failed(_)) | None => {}
        }
    }

    /// Takes the next connection of a listener, if there is a place for it.
    fn accept(&mut self, key: Key, events: &mut PollEvents) {
        // It is due once a place is free.
        if !self.has_place() {
            return;
        }
        let now_ns = self.clock.now_ns;
        let Some(Entry::Listening(listening)) = self.entries.get_mut(key) else { return };
        let accepted = listening.accept(now_ns);
        let due_ns = listening.due_ns;
        self.set_due(key, due_ns);
        match accepted {
            Ok(None) => {}
            Ok(Some(ready)) => match self.adopt(Connection::from(ready)) {
                Ok(connection) => {
                    self.report.counts.accepted += 1;
                    events.push(PollEvent::Accepted { listener: key, connection });
                }
                Err((_, error)) => self.accept_failed(key, error, events),
            },
            Err(error) => self.accept_failed(key, error, events),
        }
    }

    fn accept_failed(&mut self, key: Key, error: Error, events: &mut PollEvents) {
        self.report.counts.accept_failed += 1;
        events.push(PollEvent::AcceptFailed { listener: key, kind: error.kind() });
        if let Some(Entry::Listening(listening)) = self.entries.get_mut(key) {
            listening.keep_error(error);
        }
    }

    /// Has the listeners look for clients that waited for a place.
    pub(super) fn place_is_free(&mut self) {
        if self.counts.listeners > 0 && self.counts.connections + 1 == self.options.connections_max {
            self.set_due_where(|entry| matches!(entry, Entry::Listening(_)));
        }
    }

    /// Continues a connect.
    fn drive_connect(&mut self, key: Key, events: &mut PollEvents) {
        let now_ns = self.clock.now_ns;
        let Some(Entry::Connecting(connect)) = self.entries.get_mut(key) else { return };
        match connect.drive(now_ns, &self.threads) {
            ConnectProgress::Pending => {
                let mut due_ns = connect.timeout_ns();
                if let Some(fds) = connect.unwatched() {
                    let watch = |fd| self.epoll.watch(fd, number(key));
                    match fds.iter().filter_map(|fd| fd.fd()).try_for_each(watch) {
                        Ok(()) => connect.note_watched(),
                        // It is asked again soon.
                        Err(_) => due_ns = due_ns.min(now_ns.saturating_add(WATCH_AGAIN_NS)),
                    }
                }
                self.set_due(key, due_ns);
            }
            ConnectProgress::Done(ready) => {
                let member = Member::new(Connection::from(ready), (self.poller, number(key)), now_ns);
                self.put(key, Entry::Member(member));
                match self.establish(key) {
                    Ok(()) => {
                        self.report.counts.connected += 1;
                        events.push(PollEvent::Connected { connection: key });
                    }
                    Err(error) => self.fail(key, error, events),
                }
            }
            ConnectProgress::Failed(error) => self.fail(key, error, events),
        }
    }

    fn fail(&mut self, key: Key, error: Error, events: &mut PollEvents) {
        self.report.counts.connect_failed += 1;
        events.push(PollEvent::ConnectFailed { connection: key, kind: error.kind() });
        self.put(key, Entry::Failed(error));
    }

    fn put(&mut self, key: Key, entry: Entry) {
        if let Some(place) = self.entries.get_mut(key) {
            *place = entry;
        }
    }

    /// Sends a connection's keepalive, and looks at an armed one: a wake-up may have been lost.
    fn tend(&mut self, key: Key, events: &mut PollEvents) {
        let now_ns = self.clock.now_ns;
        let Some(Entry::Member(member)) = self.entries.get_mut(key) else { return };
        if member.state == State::Ended {
            return;
        }
        let mut is_busy = false;
        if now_ns >= member.keepalive_ns() {
            let is_silent;
            [is_busy, is_silent] = member.tend(now_ns);
            if is_silent {
                events.push(PollEvent::Silent { connection: key });
            }
        }
        let mut due_ns = member.keepalive_ns();
        if member.state == State::Armed && self.looks_at_armed {
            let look = member.glance();
            if is_busy || look.is_readable || look.is_writable || look.has_moved || look.has_ended {
                self.activate(key);
            } else {
                due_ns = due_ns.min(member.note_look(now_ns));
            }
        }
        self.set_due(key, due_ns);
    }

    /// Has all connects that need threads looked at: one has ended.
    pub(super) fn wake_connects(&mut self) {
        self.set_due_where(|entry| matches!(entry, Entry::Connecting(connect) if connect.needs_thread()));
    }

    fn set_due_where(&mut self, is_meant: impl Fn(&Entry) -> bool) {
        for slot in 0..self.entries.used() {
            let Some(key) = self.entries.key_at(slot) else { continue };
            if self.entries.get(key).is_some_and(&is_meant) {
                self.set_due(key, 0);
            }
        }
    }
}
