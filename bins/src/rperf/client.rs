//! The client: it sends the plan and each run to the server, takes part in the runs, and reports the results.

use super::clock;
use super::copies::Copies;
use super::end::End;
use super::link::Link;
use super::many::{self, options::Many};
use super::messages::{Join, Plan, Ready, TAG_DONE, TAG_PLAN, TAG_READY, TAG_RUN};
use super::options::{ClientOptions, Test};
use super::output::Output;
use super::planned::LastPlanned;
use super::row::{Row, percent};
use super::runs::{Done, Figures, Pattern, Run};
use super::samples::{Samples, Scale};
use crate::connection::peer;
use crate::connection::session::Session;
use crate::exit::{Code, Failure};
use crate::report::events::ConnectionProperties;
use crate::trace::Trace;
use crate::trace::mark::MARKS_MAX;
use crate::trace::picture::Picture;
use crate::trace::timeline::Timeline;
use crate::trace::track::Track;
use core::hash::BuildHasher;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::hash::RandomState;
use std::time::Instant;
use superpipe::os::{Bytes, WaitStrategy};
use superpipe::{Address, Connection};

/// Time that the timed messages of a size should take together: 60 s for 200 sizes.
const TIMED_TIME: Duration = Duration::from_millis(300);
/// Limit on that time for long messages, of which fewer than the least count are then timed.
const TIMED_TIME_MAX: Duration = Duration::from_secs(2);
/// Least and largest count of timed messages per size.
const ITERATIONS: RangeInclusive<u64> = 16..=1_000_000;
/// Time after which the warm-up ends. Until then it is repeated with four times as many messages.
const WARM_UP_TIME: Duration = Duration::from_millis(20);
/// Limit on the time of one reconnect. The server listens already, so a longer wait would only hide that it has ended.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval between messages below which they are timed in batches, since a reading of the clock would distort it.
const BATCHED_INTERVAL_MAX: Duration = Duration::from_micros(2);

/// Longest inline message, which has no blocks to draw. (Over RDMA those of more than 40 bytes have.)
const INLINE_BYTES_MAX: u64 = 104;
/// Limit on the messages that are recorded, and on those before them. The recorder holds about as many long ones.
const RECORDED_MAX: u64 = 32;

/// A connected client.
struct Client<'a> {
    options: &'a ClientOptions,
    address: &'a Address,
    link: Link<'a>,
    end: End,
    ready: Ready,
    properties: ConnectionProperties,
    reading_ns: u64,
    /// run of the timed messages of the last size
    last: Option<Run>,
}

/// Results of a run at both ends.
struct Outcome {
    figures: Figures,
    /// timed messages
    messages: u64,
    /// CPU time and elapsed time of this end's thread, in nanoseconds
    usage: (u64, u64),
    peer_usage: (u64, u64),
    /// time from sending RUN to receiving DONE
    took: Duration,
    copies: Copies,
    planned: Option<LastPlanned>,
}

/// Measures every size of the options.
///
/// # Errors
/// The failure that ends the measurement early.
pub fn measure(
    session: &Session<'_>,
    options: &ClientOptions,
    address: &Address,
    trace: &mut Trace,
) -> Result<(), Failure> {
    if options.picture.is_some() && options.sizes.iter().last().is_some_and(|bytes| bytes <= INLINE_BYTES_MAX)
    {
        let text = "--picture cannot draw a message of 104 bytes or less, which can be sent without blocks; end --sizes with a larger size";
        return Err(Failure::new(Code::Usage, text));
    }
    let many = many::options::of(options)?;
    let mut output = Output::open(options, &session.signals)?;
    session.pin()?;
    let mut connection =
        session.connect(address, session.options(WaitStrategy::Sleep), options.connect_timeout)?;
    let properties = session.connected(&mut connection)?;
    let reading_ns = clock::reading_ns();
    let mut link = Link::new(session, connection, trace);
    let outcome = match (send_plan(&mut link, options, many), many) {
        (Err(failure), _) => Err(failure),
        (Ok((plan, ready)), Some(many)) => {
            let mut end = End::new(session.role, plan, options.inject_flip);
            let ends = (&mut end, &ready);
            many::client::measure(options, address, many, &mut link, ends, &properties, &mut output)
        }
        (Ok((plan, ready)), None) => {
            let end = End::new(session.role, plan, options.inject_flip);
            let mut client =
                Client { options, address, link, end, ready, properties, reading_ns, last: None };
            let outcome = client.all(&mut output);
            link = client.link;
            outcome
        }
    };
    link.end(&outcome);
    outcome.and_then(|()| output.finish())
}

/// Sends PLAN, the settings of all sizes, and receives READY, which sets the wait strategy of both ends.
fn send_plan(
    link: &mut Link<'_>,
    options: &ClientOptions,
    many: Option<Many>,
) -> Result<(Plan, Ready), Failure> {
    link.exchange_hellos()?;
    let plan = Plan {
        wait: options.wait.map(crate::command_line::options::Wait::strategy),
        memory: options.memory(),
        is_verified: options.verify,
        is_registered: options.registered,
        core: link.session.core(),
        seed: RandomState::new().hash_one(0),
        bytes_max: options.sizes.max(),
        connections: many.map_or(0, |many| many.connections),
        idle: many.map_or(0, |many| many.idle),
    };
    link.send(TAG_PLAN, &plan.encode())?;
    let ready =
        Ready::decode(&link.receive_message(TAG_READY)?, &plan).map_err(peer::failure_of_violation)?;
    link.set_wait(ready.wait);
    Ok((plan, ready))
}

impl Client<'_> {
    /// Measures every size, then records some more messages of the last one.
    fn all(&mut self, output: &mut Output) -> Result<(), Failure> {
        for bytes in self.options.sizes.iter() {
            output.put(self.size(bytes)?)?;
        }
        let Some(last) = self.last.filter(|_| self.options.picture.is_some() || self.link.trace.is_wanted())
        else {
            return Ok(());
        };
        let [client, server] = self.record(&last)?;
        let picture = self.options.picture.is_some().then(|| self.picture(last.bytes, &client, &server));
        // Even if the picture cannot be drawn, the trace keeps them.
        self.link.trace.add(client);
        self.link.trace.add(server);
        picture.map_or(Ok(()), |picture| output.draw(&picture?))
    }

    /// Records a few more messages like those of the last run at both ends. Returns the client's records and the server's.
    fn record(&mut self, last: &Run) -> Result<[Track; 2], Failure> {
        let samples = if last.is_by_time() { RECORDED_MAX } else { last.samples };
        let (warmup, samples) = (last.warmup.clamp(1, RECORDED_MAX), samples.clamp(1, RECORDED_MAX));
        self.link.data().record(true);
        self.run(&Run { batch: 1, warmup, samples, time_ns: 0, is_recorded: true, ..*last })?;
        let server = self.link.receive_records()?;
        Ok([self.link.take_records(), server])
    }

    /// Returns the picture of the recorded message of median duration.
    fn picture(&self, bytes: u64, client: &Track, server: &Track) -> Result<Picture, Failure> {
        let is_answered = self.options.test() == Test::Latency;
        let timeline = Timeline::median(&client.marks, &server.marks, bytes, is_answered);
        let ConnectionProperties { protocol, fabric, block_bytes, .. } = self.properties;
        match timeline {
            Some(timeline) => Ok(Picture { timeline, bytes, block_bytes, protocol, fabric }),
            None if [client, server].iter().all(|track| track.marks.len() < MARKS_MAX) => Err(Failure::new(
                Code::Device,
                format!(
                    "cannot draw a message of {}: it went past the blocks, out of a registered buffer; draw it without --registered, by \
                         another protocol than register-cached",
                    Bytes(bytes)
                ),
            )),
            None => Err(Failure::new(
                Code::Device,
                format!(
                    "cannot draw a message of {}: it has more events than the {MARKS_MAX} that a recorder holds; draw a \
                     smaller one, or use larger blocks",
                    Bytes(bytes)
                ),
            )),
        }
    }

    /// Measures one size.
    fn size(&mut self, bytes: u64) -> Result<Row, Failure> {
        let pattern = match self.options.test() {
            Test::Latency => Pattern::Pingpong,
            Test::Stream => Pattern::Stream,
        };
        let check = Run {
            pattern: Pattern::Check,
            is_reconnected: self.options.reconnect.is_some(),
            is_recorded: false,
            batch: 1,
            bytes,
            warmup: 0,
            samples: 1,
            time_ns: 0,
            connection: 0,
        };
        let first = self.first(&check)?;
        let idle = Run { pattern, is_reconnected: false, samples: 0, ..check };
        let each = self.warm_up(&idle, first.took)?;
        let run = self.timed(&idle, each);
        let outcome = self.run(&run)?;
        if self.end.is_registered {
            self.link
                .session
                .print_if(self.link.session.common.verbose, &format!("{}: {}", Bytes(bytes), outcome.copies));
        }
        if let Some(planned) = &outcome.planned {
            let session = self.link.session;
            session.print_if(session.common.verbose, &format!("planned: {}", planned.explanation));
        }
        self.last = Some(run);
        Ok(self.row(&run, &first, &outcome))
    }

    /// Measures the first message of each connection. Returns the median outcome.
    fn first(&mut self, check: &Run) -> Result<Outcome, Failure> {
        let mut firsts = Vec::new();
        for _ in 0..self.options.reconnect.unwrap_or(1) {
            firsts.push(self.run(check)?);
        }
        firsts.sort_by_key(|outcome| outcome.figures.p50_ps);
        Ok(firsts.swap_remove(firsts.len() / 2))
    }

    /// Warms up with messages that are not timed. Returns the time per message.
    fn warm_up(&mut self, idle: &Run, first: Duration) -> Result<Duration, Failure> {
        let mut warmup = self.options.warmup.unwrap_or(1);
        let mut each = first;
        loop {
            if warmup > 0 {
                let took = self.run(&Run { warmup, ..*idle })?.took;
                each = took / u32::try_from(warmup).unwrap_or(u32::MAX);
                if took >= WARM_UP_TIME || warmup >= *ITERATIONS.end() {
                    return Ok(each);
                }
            }
            if self.options.warmup.is_some() {
                return Ok(each);
            }
            warmup *= 4;
        }
    }

    /// Returns the run of the timed messages: as many as the options say, or as fit [`TIMED_TIME`].
    fn timed(&self, idle: &Run, each: Duration) -> Run {
        let fit =
            |time: Duration| u64::try_from(time.as_nanos() / each.as_nanos().max(1)).unwrap_or(u64::MAX);
        let iterations = self.options.iterations.unwrap_or_else(|| {
            fit(TIMED_TIME).clamp(*ITERATIONS.start(), *ITERATIONS.end()).min(fit(TIMED_TIME_MAX).max(3))
        });
        let time = self.options.time;
        let batch = match time.map_or(iterations, fit) {
            _ if each >= BATCHED_INTERVAL_MAX || self.end.plan.is_prepared() => 1,
            1280.. => 64,
            160.. => 8,
            _ => 1,
        };
        let samples = if batch > 1 { iterations / (2 * u64::from(batch)) } else { iterations };
        // messages flow already when the clock starts
        let warmup = fit(Duration::from_millis(1)).clamp(1, 64);
        if let Some(time) = time {
            let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            return Run { batch, warmup, samples: 0, time_ns, ..*idle };
        }
        Run { batch, warmup, samples, ..*idle }
    }

    /// Sends RUN, takes part in the run, and receives DONE with the server's figures.
    fn run(&mut self, run: &Run) -> Result<Outcome, Failure> {
        let begin = Instant::now();
        self.link.send(TAG_RUN, &run.encode())?;
        if run.is_reconnected {
            let mut connection = self.reconnect()?;
            if self.ready.joins {
                self.link.join(&mut connection, Join { token: self.ready.token, number: 0 })?;
            }
            self.link.replace_data(connection);
        }
        let before = Copies::of(self.link.data());
        let planned_before = self.link.data().last_planned();
        let mut samples = Samples::new(run, self.link.session.role);
        let performed = self.end.perform(&mut self.link, run, &mut samples);
        let usage = performed.map_err(|error| self.link.explain(error))?;
        self.link.close_replaced();
        let copies = Copies::of(self.link.data()).since(&before);
        let done = Done::decode(&self.link.receive_message(TAG_DONE)?).map_err(peer::failure_of_violation)?;
        self.end.check_contents()?;
        let messages = if run.pattern == Pattern::Stream { done.messages } else { samples.count() };
        let figures = match run.pattern {
            Pattern::Stream => done.figures,
            _ => samples.figures(Scale { trips: 2, reading_ns: self.reading_ns }),
        };
        let planned = LastPlanned::newest(self.link.data(), run.bytes, planned_before);
        let peer_usage = (done.cpu_ns, done.wall_ns);
        Ok(Outcome { figures, messages, usage, peer_usage, took: begin.elapsed(), copies, planned })
    }

    /// Connects once more to the server, which listens again.
    fn reconnect(&mut self) -> Result<Connection, Failure> {
        let session = self.link.session;
        let timeout = self.options.connect_timeout.min(RECONNECT_TIMEOUT);
        let mut connection = match session.connect(self.address, session.options(self.ready.wait), timeout) {
            Ok(connection) => connection,
            Err(failure) => return Err(self.link.check_peer().err().unwrap_or(failure)),
        };
        session.connected(&mut connection)?;
        Ok(connection)
    }

    fn row(&self, run: &Run, first: &Outcome, outcome: &Outcome) -> Row {
        let [copy_in, copy_out] = outcome.copies.kernels_of(run.bytes);
        let planned = outcome.planned.as_ref();
        let mut row = Row {
            event: "result",
            test: self.options.test(),
            bytes: run.bytes,
            first_us: 0.0,
            min_us: 0.0,
            p50_us: 0.0,
            avg_us: 0.0,
            p99_us: 0.0,
            p999_us: 0.0,
            max_us: 0.0,
            gb_per_s: 0.0,
            iterations: outcome.messages,
            batch: run.batch,
            fresh: self.end.plan.memory.name(),
            reconnect: self.options.reconnect.unwrap_or(0),
            protocol: self.properties.protocol,
            wait: self.ready.wait.name(),
            cpu_percent: percent(outcome.usage),
            peer_cpu_percent: percent(outcome.peer_usage),
            one_copy_percent: outcome.copies.percent(),
            split_copy_percent: outcome.copies.split_percent(),
            registrations_hit: outcome.copies.hit,
            registrations_missed: outcome.copies.missed,
            planned_way: planned.map(|planned| planned.way),
            planned_reason: planned.map(|planned| planned.reason),
            planned_memory: planned.map(|planned| planned.memory),
            predicted_us: planned.map(|planned| planned.predicted_us),
            took_us: planned.map(|planned| planned.took_us),
            copy_in,
            copy_out,
            window_bytes: outcome.copies.window_bytes,
            verified: if self.end.plan.is_verified { "always" } else { "before" },
            fabric: self.properties.fabric,
            device: self.properties.device.clone(),
            arrival: self.properties.arrival,
            arrival_reason: self.properties.arrival_reason,
            landing: self.properties.landing,
            block_bytes: self.properties.block_bytes,
            block_count: self.properties.block_count,
            chunk_bytes: self.properties.chunk_bytes,
            folds: self.properties.folds,
            c0_bytes: self.properties.c0_bytes,
            growth: self.properties.growth,
            first_chunk: self.properties.first_chunk,
            sub_blocks: self.properties.sub_blocks,
            triple_buffer: self.properties.triple_buffer,
            core: self.end.plan.core,
            peer_core: self.ready.core,
            clock_ns: self.reading_ns,
            version: env!("CARGO_PKG_VERSION"),
        };
        row.set_figures(&first.figures, &outcome.figures);
        row
    }
}
