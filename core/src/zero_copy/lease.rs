//! One registration of the application's memory.

use crate::fabric::Fabric;
use crate::job::{Buffer, Job, JobKind, JobOutcome, JobResult, RecvMemory, Registration, SendMemory, Ticket};
use crate::job_time::{self, JobTime};
use crate::wire::grant::RemoteClaim;

/// Registration of one buffer. The states are drawn in the module above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lease {
    state: State,
    /// The job of this state is under way.
    has_begun: bool,
    /// It is to end as soon as the job under way is finished.
    is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Registering { buffer: Buffer, bytes: u64, is_source: bool },
    Ready(Held),
    EndingLink(Held),
    Deregistering(Registration),
    Gone,
}

/// Registered memory. Without `is_ours` the application has registered it, and will deregister it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    registration: Registration,
    claim: RemoteClaim,
    is_ours: bool,
}

impl Lease {
    const fn of(state: State) -> Self {
        Self { state, has_begun: false, is_over: false }
    }

    /// Begins with the memory of a message of `bytes` bytes.
    pub(crate) const fn of_source(memory: SendMemory, bytes: u64) -> Self {
        Self::of(match memory {
            SendMemory::Lent(buffer) | SendMemory::Keepable { buffer, .. } => {
                State::Registering { buffer, bytes, is_source: true }
            }
            SendMemory::Registered(registration) => {
                let claim = RemoteClaim { address: 0, key: 0 };
                State::Ready(Held { registration, claim, is_ours: false })
            }
            // It is not registered.
            SendMemory::Exposed(..) => State::Gone,
        })
    }

    /// Begins with memory for a message of `bytes` bytes.
    pub(crate) const fn of_destination(memory: RecvMemory, bytes: u64) -> Self {
        Self::of(match memory {
            RecvMemory::Lent(buffer) => State::Registering { buffer, bytes, is_source: false },
            RecvMemory::Registered(claim) => {
                State::Ready(Held { registration: Registration(0), claim, is_ours: false })
            }
        })
    }

    /// Returns the registration and its claim, while it may be used.
    pub(crate) const fn ready(&self) -> Option<(Registration, RemoteClaim)> {
        match self.state {
            State::Ready(Held { registration, claim, .. }) if !self.is_over => Some((registration, claim)),
            State::Registering { .. }
            | State::Ready(_)
            | State::EndingLink(_)
            | State::Deregistering(_)
            | State::Gone => None,
        }
    }

    /// Returns true while a job is under way.
    pub(crate) const fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    pub(crate) const fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone)
    }

    /// Ends the use of the memory. With `under_way` the device may still use it, so the link has to end first.
    pub(crate) fn end(&mut self, under_way: bool) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        match self.state {
            State::Ready(held) if under_way => self.state = State::EndingLink(held),
            State::Ready(held) => self.state = held.after_use(),
            State::Registering { .. } if !self.has_begun => self.state = State::Gone,
            State::Registering { .. } | State::EndingLink(_) | State::Deregistering(_) | State::Gone => {}
        }
        planted!(BorrowEndedEarly => self.state = State::Gone);
    }

    /// Returns the kind of the job that is under way.
    pub(crate) const fn job(&self) -> Option<JobKind> {
        match self.state {
            _ if !self.has_begun => None,
            State::Registering { is_source: true, .. } => Some(JobKind::RegisterSource),
            State::Registering { is_source: false, .. } => Some(JobKind::RegisterDestination),
            State::EndingLink(_) => Some(JobKind::EndLink),
            State::Deregistering(_) => Some(JobKind::Deregister),
            State::Ready(_) | State::Gone => None,
        }
    }

    /// Begins the job of this state, if one is due, and returns its time.
    pub(crate) fn begin_job<F: Fabric>(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        ticket: Ticket,
    ) -> Option<JobTime> {
        let job = match self.state {
            _ if self.has_begun => return None,
            State::Registering { buffer, bytes, is_source: true } => Job::RegisterSource { buffer, bytes },
            State::Registering { buffer, bytes, is_source: false } => {
                Job::RegisterDestination { buffer, bytes }
            }
            State::EndingLink(_) => Job::EndLink,
            State::Deregistering(registration) => Job::Deregister(registration),
            State::Ready(_) | State::Gone => return None,
        };
        let time = job_time::begin(fabric, link, ticket, job).ok();
        self.has_begun = time.is_some();
        time
    }

    /// Handles the end of the job of this state. Returns false if none is under way.
    pub(crate) fn handle_finished<A, B>(&mut self, result: JobResult<A, B>) -> bool {
        if !self.has_begun {
            return false;
        }
        self.has_begun = false;
        self.state = match (self.state, result) {
            (State::Registering { .. }, Ok(JobOutcome::Registered(registration, claim))) => {
                let held = Held { registration, claim, is_ours: true };
                if self.is_over { held.after_use() } else { State::Ready(held) }
            }
            (State::EndingLink(held), _) => held.after_use(),
            (State::Registering { .. } | State::Deregistering(_) | State::Ready(_) | State::Gone, _) => {
                State::Gone
            }
        };
        true
    }
}

impl Held {
    /// Returns the state once no write can be under way.
    const fn after_use(self) -> State {
        if self.is_ours { State::Deregistering(self.registration) } else { State::Gone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobFailed;

    const CLAIM: RemoteClaim = RemoteClaim { address: 7, key: 9 };

    fn registered() -> JobResult<(), ()> {
        Ok(JobOutcome::Registered(Registration(5), CLAIM))
    }

    fn begun(state: State) -> Lease {
        Lease { has_begun: true, ..Lease::of(state) }
    }

    fn is_registering(lease: &Lease) -> bool {
        matches!(lease.state, State::Registering { .. })
    }

    fn registering() -> Lease {
        begun(State::Registering { buffer: Buffer(3), bytes: 100, is_source: false })
    }

    #[test]
    fn what_is_registered_is_ready_until_it_is_over() {
        let mut lease = registering();
        assert!(is_registering(&lease) && lease.ready().is_none());
        assert!(lease.handle_finished(registered()));
        assert_eq!(lease.ready(), Some((Registration(5), CLAIM)));
        lease.end(false);
        assert_eq!((lease.ready(), lease.state), (None, State::Deregistering(Registration(5))));
        lease.has_begun = true;
        assert!(lease.handle_finished::<(), ()>(Ok(JobOutcome::Released)));
        assert!(lease.is_gone());
    }

    #[test]
    fn the_link_ends_before_memory_in_use_is_deregistered() {
        let mut lease = registering();
        lease.handle_finished(registered());
        lease.end(true);
        assert!(matches!(lease.state, State::EndingLink(_)));
        lease.end(false);
        assert!(matches!(lease.state, State::EndingLink(_)), "it is over already");
        lease.has_begun = true;
        assert!(lease.handle_finished::<(), ()>(Ok(JobOutcome::Released)));
        assert_eq!(lease.state, State::Deregistering(Registration(5)));
    }

    #[test]
    fn a_refused_registration_leaves_nothing() {
        let mut lease = registering();
        assert!(lease.handle_finished::<(), ()>(Err(JobFailed::Refused)));
        assert!(lease.is_gone());
        assert!(!lease.handle_finished(registered()), "no job is under way");
    }

    #[test]
    fn what_is_over_while_it_is_registered_is_deregistered() {
        let mut lease = registering();
        lease.end(false);
        assert!(is_registering(&lease));
        lease.handle_finished(registered());
        assert_eq!((lease.ready(), lease.state), (None, State::Deregistering(Registration(5))));
    }

    #[test]
    fn memory_that_was_registered_before_stays_so() {
        for under_way in [false, true] {
            let mut lease = Lease::of_destination(RecvMemory::Registered(CLAIM), 100);
            assert_eq!(lease.ready().map(|(_, claim)| claim), Some(CLAIM));
            lease.end(under_way);
            assert_eq!(lease.is_gone(), !under_way);
        }
    }
}
