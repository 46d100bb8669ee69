//! The server: it performs the runs that a client sends, within limits, until the client ends.

use super::end::End;
use super::link::{Incoming, Link};
use super::messages::{Plan, Ready, TAG_DONE, TAG_PLAN, TAG_READY, TAG_RECORDS, TAG_RUN, default_wait};
use super::options::Serve;
use super::runs::{Done, Pattern, Run};
use super::samples::{Samples, Scale};
use super::serving;
use crate::connection::listen::Acceptor;
use crate::connection::peer;
use crate::connection::session::Session;
use crate::exit::{Code, Failure};
use crate::quantity::format_duration;
use crate::timeouts::CLOSE_TIMEOUT;
use crate::trace::Trace;
use core::time::Duration;
use std::time::Instant;
use superpipe::Connection;
use superpipe::WaitStrategy;

/// Limit on the time of a client's reconnect. It exceeds the client's own limit, so that the client fails first and reports why.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between two checks that the client is alive while its reconnect is awaited.
const PEER_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A measurement that has begun with its first run.
struct Measurement {
    plan: Plan,
    first: Run,
}

/// Serves one client, or with `--keep` one after the other. If a measurement does not begin, the server reports that and waits for
/// another client.
///
/// # Errors
/// No measurement begins in time, a signal comes, or the measurement of the one client fails.
pub fn serve(session: &Session<'_>, serve: &Serve, trace: &mut Trace) -> Result<(), Failure> {
    session.pin()?;
    if serve.keep {
        return serving::serve(session, serve);
    }
    // A client's plan replaces this; until then the server need not use its core.
    let options = session.options(WaitStrategy::Sleep);
    let mut acceptor = Acceptor::listen(session, &serve.listening, options)?;
    let mut deadline = Instant::now() + serve.listening.accept_timeout;
    loop {
        let mut connection = acceptor.accept(deadline)?;
        session.connected(&mut connection)?;
        let mut link = Link::new(session, connection, trace);
        let outcome = match begin(&mut link) {
            Ok(measurement) => run_all(&mut link, &mut acceptor, measurement),
            Err(failure) if session.signals.failure().is_none() => {
                acceptor.failed(&failure);
                link.reject(failure);
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
            session.print_if(true, &failure.text);
        }
        acceptor.restart();
        deadline = Instant::now() + serve.listening.accept_timeout;
    }
}

/// Receives PLAN and the first RUN. A failure before that leaves the server free for another client.
fn begin(link: &mut Link<'_>) -> Result<Measurement, Failure> {
    link.exchange_hellos()?;
    let plan = Plan::decode(&link.receive_message(TAG_PLAN)?).map_err(peer::failure_of_violation)?;
    let core = link.session.core();
    let ready = Ready { wait: plan.wait.unwrap_or_else(|| default_wait(plan.core, core)), core };
    link.send(TAG_READY, &ready.encode())?;
    link.set_wait(ready.wait);
    let first = Run::decode(&link.receive_message(TAG_RUN)?, &plan).map_err(peer::failure_of_violation)?;
    Ok(Measurement { plan, first })
}

/// Performs all runs of a measurement.
fn run_all(
    link: &mut Link<'_>,
    acceptor: &mut Acceptor<'_>,
    measurement: Measurement,
) -> Result<(), Failure> {
    let Measurement { plan, first } = measurement;
    let mut end = End::new(link.session.role, plan, None);
    perform(link, acceptor, &mut end, &first)?;
    while let Incoming::Message(bytes) = link.receive(TAG_RUN)? {
        let run = Run::decode(&bytes, &plan).map_err(peer::failure_of_violation)?;
        perform(link, acceptor, &mut end, &run)?;
    }
    Ok(())
}

/// Performs the server's part of one run, and sends its figures.
fn perform(
    link: &mut Link<'_>,
    acceptor: &mut Acceptor<'_>,
    end: &mut End,
    run: &Run,
) -> Result<(), Failure> {
    if run.is_reconnected {
        let connection = reconnect(link, acceptor)?;
        link.replace_data(connection);
    }
    if run.is_recorded {
        link.data().record(true);
    }
    let mut samples = Samples::new(run, link.session.role);
    let performed = end.perform(link, run, &mut samples);
    let (cpu_ns, wall_ns) = performed.map_err(|error| link.explain(error))?;
    link.close_replaced();
    end.check_contents()?;
    let figures = match run.pattern {
        Pattern::Stream => samples.figures(Scale { trips: 1, reading_ns: 0 }),
        _ => Default::default(),
    };
    let records = run.is_recorded.then(|| link.take_records());
    link.send(TAG_DONE, &Done { figures, cpu_ns, wall_ns }.encode())?;
    if let Some(track) = records {
        link.send(TAG_RECORDS, &track.encode())?;
        link.trace.add(track);
    }
    Ok(())
}

/// Accepts the next connection of the same client, and closes those of other processes.
fn reconnect(link: &mut Link<'_>, acceptor: &mut Acceptor<'_>) -> Result<Connection, Failure> {
    let deadline = Instant::now() + RECONNECT_TIMEOUT;
    loop {
        let Some(mut connection) =
            acceptor.accept_before(deadline.min(Instant::now() + PEER_CHECK_INTERVAL))?
        else {
            link.check_peer()?;
            if Instant::now() >= deadline {
                let text = format!(
                    "the client made no new connection within {}",
                    format_duration(RECONNECT_TIMEOUT)
                );
                return Err(Failure::new(Code::Connect, text));
            }
            continue;
        };
        if connection.peer().may_be(link.control().peer()) {
            link.session.connected(&mut connection)?;
            return Ok(connection);
        }
        // a stranger that is gone already needs no answer
        let _ = connection.close(Code::Connect.into(), CLOSE_TIMEOUT);
    }
}
