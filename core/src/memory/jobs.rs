//! Table of the jobs under way. A ticket carries the generation of its place, so that a stale one is refused.

use crate::job::{JobKind, Ticket};
use crate::job_time::JobTime;

/// Most jobs of an end at a time: a landing buffer, an image, and the release of two of each.
pub(crate) const JOBS_MAX: u8 = 6;

/// What a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// The provider's next landing buffer.
    Landing,
    /// The requester's image of it.
    Image,
    /// Release of a landing buffer.
    LandingRelease,
    /// Release of an image that was left.
    ImageRelease,
    /// Release of an image that was not used.
    UnusedImageRelease,
}

impl Purpose {
    pub(crate) const fn kind(self) -> JobKind {
        match self {
            Self::Landing => JobKind::ProvisionLanding,
            Self::Image => JobKind::ProvisionImage,
            Self::LandingRelease => JobKind::ReleaseLanding,
            Self::ImageRelease | Self::UnusedImageRelease => JobKind::ReleaseImage,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Hash)]
struct Place {
    generation: u32,
    purpose: Option<Purpose>,
    time: JobTime,
}

/// The jobs under way.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Jobs {
    places: [Place; JOBS_MAX as usize],
    /// Places that are taken.
    count: u8,
}

impl Jobs {
    /// Returns the ticket of a new job. Returns `None` if as many are under way as there are places.
    pub(crate) fn open(&mut self, purpose: Purpose) -> Option<Ticket> {
        let (index, place) = self.places.iter_mut().enumerate().find(|(_, place)| place.purpose.is_none())?;
        place.purpose = Some(purpose);
        self.count += 1;
        Some(Ticket { index: u8::try_from(index).ok()?, generation: place.generation })
    }

    /// Gives back the ticket of a job that could not begin. It is the next ticket again, since no fabric holds it.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        if let Some(place) = self.places.get_mut(usize::from(ticket.index)) {
            self.count -= u8::from(place.purpose.take().is_some());
        }
    }

    /// Notes the time at which a job began.
    pub(crate) fn note_begun(&mut self, ticket: Ticket, time: JobTime) {
        if let Some(place) = self.places.get_mut(usize::from(ticket.index)) {
            place.time = time;
        }
    }

    /// Ends a job, and returns what it was for and its time. Returns `None` for a stale ticket.
    pub(crate) fn finish(&mut self, ticket: Ticket) -> Option<(Purpose, JobTime)> {
        let place = self.places.get_mut(usize::from(ticket.index))?;
        let mut is_current = place.generation == ticket.generation;
        planted!(StaleTicketTaken => is_current = true);
        if !is_current {
            return None;
        }
        let purpose = place.purpose.take()?;
        self.count -= 1;
        place.generation = place.generation.wrapping_add(1);
        Some((purpose, place.time))
    }

    /// Returns the times of the jobs under way.
    pub(crate) fn times(&mut self) -> impl Iterator<Item = (Purpose, &mut JobTime)> {
        self.places.iter_mut().filter_map(|place| Some((place.purpose?, &mut place.time)))
    }

    /// Returns true if no job is under way.
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_time::{Awaited, Look};
    use crate::nanos::Nanos;

    #[test]
    fn a_ticket_ends_its_job_once() {
        let mut jobs = Jobs::default();
        let first = jobs.open(Purpose::Landing).unwrap();
        assert!(!jobs.is_empty());
        jobs.note_begun(first, JobTime::new(Nanos(7)));
        assert_eq!(
            jobs.times().map(|(purpose, _)| purpose).collect::<std::vec::Vec<_>>(),
            [Purpose::Landing]
        );
        let (purpose, time) = jobs.finish(first).unwrap();
        let look = Look { moved: 0, awaited: Awaited::No, steps_ns: 0 };
        assert_eq!((purpose, time.end(look, Nanos(9)).begun), (Purpose::Landing, Nanos(7)));
        assert!(jobs.is_empty());
        assert!(jobs.finish(first).is_none(), "it is over");
        let second = jobs.open(Purpose::Image).unwrap();
        assert_eq!(first.index, second.index, "the place is used again");
        assert!(jobs.finish(first).is_none(), "the ticket is stale");
        assert_eq!(jobs.finish(second).map(|(purpose, _)| purpose), Some(Purpose::Image));
        assert!(jobs.finish(Ticket { index: u8::MAX, generation: 0 }).is_none());
    }

    #[test]
    fn a_job_that_could_not_begin_leaves_the_table_as_it_was() {
        let mut jobs = Jobs::default();
        let refused = jobs.open(Purpose::Landing).unwrap();
        jobs.withdraw(refused);
        assert!(jobs.is_empty());
        assert_eq!(jobs.open(Purpose::Image), Some(refused));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut jobs = Jobs::default();
        let all: [Option<Ticket>; JOBS_MAX as usize] = core::array::from_fn(|_| jobs.open(Purpose::Landing));
        assert!(all.iter().all(Option::is_some));
        assert_eq!(jobs.open(Purpose::Landing), None);
        assert_eq!(jobs.finish(all[3].unwrap()).map(|(purpose, _)| purpose), Some(Purpose::Landing));
        assert_eq!(jobs.open(Purpose::ImageRelease).map(|ticket| ticket.index), Some(3));
    }
}
