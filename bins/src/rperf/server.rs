//! The end that answers: does what a client asks, within bounds, until the client has enough.

use super::end::End;
use super::link::{Heard, Link};
use super::messages::{Plan, Ready, TAG_DONE, TAG_PLAN, TAG_READY, TAG_RECORDS, TAG_RUN};
use super::options::Serve;
use super::runs::{Done, Pattern, Run};
use super::samples::{Samples, Scale};
use crate::exit::{Code, Failure};
use crate::listen::Place;
use crate::peer;
use crate::quantity::shown;
use crate::session::{GOODBYE, Session};
use crate::trace::Trace;
use core::time::Duration;
use std::time::Instant;
use superpipe::Connection;
use superpipe::os::WaitStrategy;

/// Time for a client to make the connection that it asked for.
const RECONNECT: Duration = Duration::from_secs(5);
/// Time in which nobody connects, after which this end checks that the client is still there.
const LOOK: Duration = Duration::from_millis(200);

/// A measurement that a client has begun.
struct Measurement {
    plan: Plan,
    first: Run,
}

/// Answers one client, or one after the other. Where no measurement begins, that is told, and another client waited for.
///
/// # Errors
/// When no measurement begins in time, a signal comes, or the one client's measurement fails.
pub fn serve(session: &Session<'_>, serve: &Serve, trace: &mut Trace) -> Result<(), Failure> {
    session.pin()?;
    // Until a client asks for another way: a wait for one need not spend anything.
    let options = session.options(WaitStrategy::Sleep);
    let mut place = Place::listen(session, &serve.listening, options)?;
    let mut deadline = Instant::now() + serve.listening.accept_timeout;
    loop {
        let connection = place.accept(deadline)?;
        session.connected(&connection)?;
        let mut link = Link::new(session, connection, trace);
        let outcome = match begin(&mut link) {
            Ok(measurement) => answer(&mut link, &mut place, measurement),
            Err(failure) if session.signals.failure().is_none() => {
                place.failed(&failure);
                link.dismiss(failure);
                continue;
            }
            Err(failure) => Err(failure),
        };
        link.end(&outcome);
        if let Some(failure) = session.signals.failure() {
            return Err(failure);
        }
        if !serve.keep {
            return outcome;
        }
        if let Err(failure) = outcome {
            session.say_if(true, &failure.text);
        }
        place.restart();
        deadline = Instant::now() + serve.listening.accept_timeout;
    }
}

/// Hears what is to be measured, up to the first run: until then another client may take this one's place.
fn begin(link: &mut Link<'_>) -> Result<Measurement, Failure> {
    link.exchange_hellos()?;
    let plan = Plan::decode(&link.hear_more(TAG_PLAN)?).map_err(peer::broken)?;
    let core = link.session.core();
    let ready = Ready { wait: plan.wait.unwrap_or_else(|| wait(plan.core, core)), core };
    link.tell(TAG_READY, &ready.encode())?;
    link.set_wait(ready.wait);
    let first = Run::decode(&link.hear_more(TAG_RUN)?, &plan).map_err(peer::broken)?;
    Ok(Measurement { plan, first })
}

/// Does all runs of a measurement.
fn answer(link: &mut Link<'_>, place: &mut Place<'_>, measurement: Measurement) -> Result<(), Failure> {
    let Measurement { plan, first } = measurement;
    let mut end = End::new(link.session.role, plan, None);
    perform(link, place, &mut end, &first)?;
    while let Heard::Message(bytes) = link.hear(TAG_RUN)? {
        let run = Run::decode(&bytes, &plan).map_err(peer::broken)?;
        perform(link, place, &mut end, &run)?;
    }
    Ok(())
}

/// Does this end's part of one run, and tells what was measured of it.
fn perform(link: &mut Link<'_>, place: &mut Place<'_>, end: &mut End, run: &Run) -> Result<(), Failure> {
    if run.is_reconnected {
        let connection = reconnect(link, place)?;
        link.replace_data(connection);
    }
    if run.is_recorded {
        link.data().record(true);
    }
    let mut samples = Samples::new(run, link.session.role);
    let performed = end.perform(link, run, &mut samples);
    let (cpu_ns, wall_ns) = performed.map_err(|mishap| link.explain(mishap))?;
    end.verdict()?;
    let figures = match run.pattern {
        Pattern::Stream => samples.figures(Scale { legs: 1, reading_ns: 0 }),
        _ => Default::default(),
    };
    let records = run.is_recorded.then(|| link.take_records());
    link.tell(TAG_DONE, &Done { figures, cpu_ns, wall_ns }.encode())?;
    if let Some(track) = records {
        link.tell(TAG_RECORDS, &track.encode())?;
        link.trace.add(track);
    }
    Ok(())
}

/// Chooses a way to wait for both ends, where the client leaves it open: two ends that spin on one core hinder each other.
fn wait(theirs: Option<u32>, ours: Option<u32>) -> WaitStrategy {
    match (theirs, ours) {
        (Some(theirs), Some(ours)) if theirs != ours => WaitStrategy::Spin,
        _ => WaitStrategy::Yield,
    }
}

/// Accepts the same client's next connection; strangers who connect meanwhile are sent away.
fn reconnect(link: &mut Link<'_>, place: &mut Place<'_>) -> Result<Connection, Failure> {
    let deadline = Instant::now() + RECONNECT;
    loop {
        let Some(connection) = place.accept_before(deadline.min(Instant::now() + LOOK))? else {
            link.check()?;
            if Instant::now() >= deadline {
                let text = format!("the client made no new connection within {}", shown(RECONNECT));
                return Err(Failure::new(Code::Connect, text));
            }
            continue;
        };
        if connection.peer().is_maybe(link.control().peer()) {
            link.session.connected(&connection)?;
            return Ok(connection);
        }
        // it may be gone already
        let _ = connection.close(Code::Connect.into(), GOODBYE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_that_are_sure_of_a_core_each_spin() {
        assert_eq!(wait(Some(0), Some(1)), WaitStrategy::Spin);
        for (theirs, ours) in [(None, None), (Some(1), Some(1)), (Some(1), None), (None, Some(1))] {
            assert_eq!(wait(theirs, ours), WaitStrategy::Yield);
        }
    }
}
