//! Further connections of a client, and its runs over many of them.

use super::{Answer, Client, State, Stop, stop};
use crate::connection::session::Session;
use crate::rperf::many::exchange::Measured;
use crate::rperf::messages::{TAG_COUNTS, TAG_DONE};
use crate::rperf::runs::{Done, Pattern};
use std::collections::VecDeque;
use superpipe::{Key, Poller};

impl Client {
    /// Takes a further connection of its plan. Returns false if its plan has none of this number, or it is there.
    pub(in crate::rperf::serving) fn join(&mut self, number: u32, key: Key) -> bool {
        let lane = usize::try_from(number).unwrap_or(0).checked_sub(1);
        let Some(place) = lane.and_then(|lane| self.lanes.get_mut(lane)) else { return false };
        self.moves += 1;
        place.is_none() && place.replace(key).is_none()
    }

    /// Returns the number of its further connections, idle ones included.
    pub(in crate::rperf::serving) const fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// Moves what can be moved now over one of many connections. Returns true once the run is over.
    ///
    /// # Errors
    /// The measurement cannot go on.
    pub(in crate::rperf::serving) fn drive(
        &mut self,
        lane: usize,
        poller: &mut Poller,
        session: &Session<'_>,
    ) -> Result<bool, Stop> {
        let State::Spread(exchange) = &mut self.state else { return Ok(false) };
        let Some(key) = self.lanes.get(lane).copied().flatten() else { return Ok(false) };
        let Some(connection) = poller.connection(key) else { return Ok(false) };
        let interest = exchange.drive(lane, connection).map_err(|error| stop(session, error))?;
        poller.set_interest(key, interest);
        self.moves += 1;
        if exchange.is_done() {
            self.answer_spread();
        }
        Ok(!self.is_spread())
    }

    /// Has the figures of a run over many connections sent.
    fn answer_spread(&mut self) {
        let State::Spread(exchange) = core::mem::replace(&mut self.state, State::Run) else { return };
        let pattern = exchange.pattern();
        let Measured { counts, usage: (cpu_ns, wall_ns), .. } = exchange.finish();
        let done = Done { cpu_ns, wall_ns, ..Done::default() };
        let mut answers = VecDeque::from([Answer::new(TAG_DONE, done.encode().to_vec())]);
        if pattern != Pattern::Pingpong {
            answers.push_back(Answer::new(TAG_COUNTS, counts.encode()));
        }
        self.enter(State::Answer(answers), None);
    }
}
