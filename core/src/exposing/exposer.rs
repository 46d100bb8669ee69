//! The sender's half: it has the fabric hand memory over, asks the peer to map it, and withdraws it. wire.md 5.6.
//!
//! ```text
//!      expose         job begins         job ends        EXPOSE is sent         MAPPED                     WITHDRAWN is sent
//! FREE -----> QUEUED -----------> EXPOSING ------> DUE -----------------> ASKED ------> READY -> LEAVING ------------------> WITHDRAWN
//!   ^          |                     | failed                               | refused    withdraw                              |
//!   |          | withdraw            v                                      v                                                  |
//!   +----------+--- withdraw --- REFUSED <----------------------------------+                                                  |
//!   +------------------------- WITHDRAWN and all chunks that name the place are acknowledged ----------------------------------+
//! ```
//!
//! Memory that is withdrawn before the peer has answered goes on to the answer: what was handed over must be asked for, and what was
//! asked for is answered. Then it goes on to LEAVING, or to FREE after a refusal.
//!
//! The same half exposes memory that the peer may write, as the receiver of messages: it offers such memory to transfers, and WITHDRAWN waits until no
//! transfer may be written into it. wire.md 4.10.

use core::hash::{Hash, Hasher};

use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::job::{Buffer, Exposed, Job, JobKind, JobOutcome, JobResult, Ticket};
use crate::job_time::{self, JobTime};
use crate::memory::JOBS_MAX;
use crate::wire::control::Control;
use crate::wire::grant::{MapCause, PeerAccess};
use crate::wire::sequence::is_before;

use super::{EXPOSED_MAX, ExposedState};

/// Ticket of the job that exposes memory. Those before belong to landing buffers that grow, and to registered memory.
pub(super) const TICKET: u8 = JOBS_MAX + 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Free,
    Queued(Buffer),
    Exposing,
    Due { bytes: u32 },
    Asked { bytes: u32 },
    Ready { bytes: u32 },
    Refused,
    Leaving,
    Withdrawn { control: u64 },
}

/// The newest chunk that names a place: its sequence, and the blocks produced with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Named {
    sequence: u64,
    produced: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place<R> {
    generation: u32,
    state: State,
    access: PeerAccess,
    /// The memory itself, if the peer may write it, from the end of the job on.
    memory: Option<R>,
    /// The application has withdrawn it.
    is_withdrawn: bool,
    named: Option<Named>,
}

impl<R> Hash for Place<R> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { generation, state, access, memory: _, is_withdrawn, named } = self;
        (generation, state, access, is_withdrawn, named).hash(hasher);
    }
}

impl<R> Place<R> {
    const FREE: Self = Self {
        generation: 0,
        state: State::Free,
        access: PeerAccess::Read,
        memory: None,
        is_withdrawn: false,
        named: None,
    };

    fn free(&mut self) {
        *self = Self { generation: self.generation.wrapping_add(1), ..Self::FREE };
    }

    /// Goes on after a refusal.
    fn refuse(&mut self) {
        if self.is_withdrawn {
            self.free();
        } else {
            self.state = State::Refused;
        }
    }

    /// Returns true while the peer may read the memory. `acked` is the count of blocks that it has acknowledged.
    fn is_shared(&self, acked: u64) -> bool {
        planted!(ExposedNotShared => return false);
        self.named.is_some_and(|named| is_before(acked, named.produced))
    }
}

/// The sender's half.
#[derive(Clone, Debug)]
pub(crate) struct Exposer<R> {
    places: [Place<R>; EXPOSED_MAX],
    /// Generation of the ticket.
    ticket: u32,
}

impl<R> Hash for Exposer<R> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { places, ticket } = self;
        (places, ticket).hash(hasher);
    }
}

impl<R: Copy> Exposer<R> {
    pub(super) const fn new() -> Self {
        Self { places: [const { Place::FREE }; EXPOSED_MAX], ticket: 0 }
    }

    /// Takes a place for memory. Returns `None` if none is free.
    pub(crate) fn expose(&mut self, buffer: Buffer, access: PeerAccess) -> Option<Exposed> {
        let (index, place) =
            self.places.iter_mut().enumerate().find(|(_, place)| place.state == State::Free)?;
        (place.state, place.access) = (State::Queued(buffer), access);
        Some(Exposed { place: u8::try_from(index).ok()?, generation: place.generation })
    }

    fn get(&self, exposed: Exposed) -> Option<&Place<R>> {
        let place = self.places.get(usize::from(exposed.place))?;
        planted!(StaleExposed => return Some(place));
        (place.generation == exposed.generation && place.state != State::Free).then_some(place)
    }

    pub(crate) fn state(&self, exposed: Exposed) -> ExposedState {
        match self.get(exposed) {
            Some(place) if !place.is_withdrawn => match place.state {
                State::Queued(_) | State::Exposing | State::Due { .. } | State::Asked { .. } => {
                    ExposedState::Pending
                }
                State::Ready { .. } => ExposedState::Ready,
                State::Refused => ExposedState::Refused,
                State::Free | State::Leaving | State::Withdrawn { .. } => ExposedState::Gone,
            },
            _ => ExposedState::Gone,
        }
    }

    /// Returns true while the peer may read the memory. `acked` is the count of blocks that it has acknowledged.
    pub(crate) fn is_shared(&self, exposed: Exposed, acked: u64) -> bool {
        self.get(exposed).is_some_and(|place| place.is_shared(acked))
    }

    /// Returns true if a message of `bytes` bytes from `offset` on may name this memory.
    pub(crate) fn may_name(&self, exposed: Exposed, offset: u32, bytes: u64) -> bool {
        self.get(exposed).is_some_and(|place| match place.state {
            _ if place.access == PeerAccess::Write => false,
            State::Ready { bytes: all } => {
                !place.is_withdrawn && u64::from(offset).saturating_add(bytes) <= u64::from(all)
            }
            State::Asked { .. } => {
                planted!(MappedNotAwaited => return true);
                false
            }
            _ => false,
        })
    }

    /// Returns memory that the peer has mapped for writing, and its bytes.
    pub(crate) fn writable(&self, exposed: Exposed) -> Option<(R, u32)> {
        let place = self.get(exposed).filter(|place| place.access == PeerAccess::Write)?;
        match place.state {
            State::Ready { bytes } => Some((place.memory?, bytes)),
            _ => None,
        }
    }

    /// Notes that a chunk of this sequence names the memory. `produced` blocks are produced with it.
    pub(crate) fn note_named(&mut self, exposed: Exposed, sequence: u64, produced: u64) {
        if let Some(place) = self.places.get_mut(usize::from(exposed.place)) {
            place.named = Some(Named { sequence, produced });
        }
    }

    /// Withdraws memory. Returns false for a stale handle, and if it was withdrawn before.
    pub(crate) fn withdraw(&mut self, exposed: Exposed) -> bool {
        if self.get(exposed).is_none_or(|place| place.is_withdrawn) {
            return false;
        }
        let Some(place) = self.places.get_mut(usize::from(exposed.place)) else { return false };
        place.is_withdrawn = true;
        match place.state {
            State::Queued(_) | State::Refused => place.free(),
            State::Ready { .. } => place.state = State::Leaving,
            State::Free
            | State::Exposing
            | State::Due { .. }
            | State::Asked { .. }
            | State::Leaving
            | State::Withdrawn { .. } => {}
        }
        true
    }

    /// Begins the job that is due, and returns its time.
    pub(super) fn begin_job<F: Fabric>(&mut self, fabric: &mut F, link: &mut F::Link) -> Option<JobTime> {
        if self.is_exposing() {
            return None;
        }
        let ticket = Ticket { index: TICKET, generation: self.ticket };
        for (index, place) in self.places.iter_mut().enumerate() {
            if let (State::Queued(buffer), Ok(number)) = (place.state, u8::try_from(index)) {
                let job = Job::Expose { place: number, buffer, access: place.access };
                let time = job_time::begin(fabric, link, ticket, job).ok()?;
                place.state = State::Exposing;
                return Some(time);
            }
        }
        None
    }

    /// Returns true from the begin of a job until the peer has answered.
    fn is_exposing(&self) -> bool {
        self.places
            .iter()
            .any(|place| matches!(place.state, State::Exposing | State::Due { .. } | State::Asked { .. }))
    }

    /// Handles the end of the job, and returns its kind. A stale ticket is ignored.
    pub(super) fn handle_finished<A>(&mut self, ticket: Ticket, result: JobResult<R, A>) -> Option<JobKind> {
        if ticket.generation != self.ticket {
            return None;
        }
        let place = self.places.iter_mut().find(|place| place.state == State::Exposing)?;
        self.ticket = self.ticket.wrapping_add(1);
        match result {
            Ok(JobOutcome::Exposed { bytes, memory })
                if place.access == PeerAccess::Read || memory.is_some() =>
            {
                place.state = State::Due { bytes };
                place.memory = memory.filter(|_| place.access == PeerAccess::Write);
            }
            _ => place.refuse(),
        }
        Some(JobKind::Expose)
    }

    /// Handles the peer's answer to EXPOSE: it has mapped the memory, or refuses with a cause.
    pub(super) fn handle_answer(&mut self, place: u8, cause: Option<MapCause>) -> Result<(), ProtocolError> {
        let place = self.places.get_mut(usize::from(place)).ok_or(ProtocolError::ExposeAnswer)?;
        let State::Asked { bytes } = place.state else { return Err(ProtocolError::ExposeAnswer) };
        match cause {
            Some(_) => place.refuse(),
            None if place.is_withdrawn => place.state = State::Leaving,
            None => place.state = State::Ready { bytes },
        }
        Ok(())
    }

    /// Returns the control message that is due: the first of these. A place that a transfer may be `written` into is not left.
    pub(crate) fn due(&self, mut written: Option<u8>) -> Option<Control> {
        planted!(WithdrawnWhileOffered => written = None);
        self.places.iter().enumerate().find_map(|(index, place)| {
            let number = u8::try_from(index).ok()?;
            match place.state {
                State::Due { bytes } => Some(Control::Expose { place: number, bytes, access: place.access }),
                State::Leaving if written == Some(number) => None,
                State::Leaving => {
                    let last = place.named.map_or(0, |named| named.sequence);
                    Some(Control::Withdrawn { place: number, last })
                }
                _ => None,
            }
        })
    }

    /// Notes that a message which was due was sent, as control message of this sequence.
    pub(crate) fn note_sent(&mut self, control: &Control, sequence: u64) {
        let (Control::Expose { place, .. } | Control::Withdrawn { place, .. }) = control else { return };
        let Some(place) = self.places.get_mut(usize::from(*place)) else { return };
        match place.state {
            State::Due { bytes } => place.state = State::Asked { bytes },
            State::Leaving => place.state = State::Withdrawn { control: sequence },
            _ => {}
        }
    }

    /// Frees the places whose WITHDRAWN, and whose chunks, the peer has acknowledged: up to this control message, and this count of blocks.
    pub(crate) fn free_acked(&mut self, controls: u64, blocks: u64) {
        for place in &mut self.places {
            let State::Withdrawn { control } = place.state else { continue };
            let mut is_over = !is_before(controls, control) && !place.is_shared(blocks);
            planted!(PlaceReused => is_over = true);
            if is_over {
                place.free();
            }
        }
    }

    /// Returns true while acknowledgements are awaited that free a place.
    pub(crate) fn awaits_ack(&self) -> bool {
        self.places.iter().any(|place| matches!(place.state, State::Withdrawn { .. }))
    }

    /// Returns true while the answer to EXPOSE is awaited.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.places.iter().any(|place| matches!(place.state, State::Asked { .. }))
    }

    /// Returns true while a job or a control message is due, or a job is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.places.iter().any(|place| {
            matches!(place.state, State::Queued(_) | State::Exposing | State::Due { .. } | State::Leaving)
        })
    }

    /// Returns true while a job is under way.
    pub(super) fn awaits_job(&self) -> bool {
        self.places.iter().any(|place| place.state == State::Exposing)
    }
}
