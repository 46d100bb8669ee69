//! The end that asks: says what is to be done for each size, does its part, and tells what came out.

use super::clock;
use super::end::End;
use super::link::Link;
use super::messages::{Plan, Ready, TAG_DONE, TAG_PLAN, TAG_READY, TAG_RUN};
use super::options::{Ask, Test};
use super::output::Output;
use super::row::{Row, percent};
use super::runs::{Done, Figures, Pattern, Run};
use super::samples::{Samples, Scale};
use crate::exit::{Code, Failure};
use crate::peer;
use crate::report::Joined;
use crate::session::Session;
use crate::trace::Trace;
use crate::trace::journey::Journey;
use crate::trace::mark::MARKS_MAX;
use crate::trace::picture::Picture;
use crate::trace::track::Track;
use core::hash::BuildHasher;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::hash::RandomState;
use std::time::Instant;
use superpipe::os::{Bytes, WaitStrategy};
use superpipe::{Address, Connection};

/// Time that the timed messages of a size should take together.
const TIMED: Duration = Duration::from_millis(300);
/// Time that they may take where the fewest that make a figure take longer.
const TIMED_MAX: Duration = Duration::from_secs(2);
/// The fewest messages that make a figure, and the most.
const ITERATIONS: RangeInclusive<u64> = 16..=1_000_000;
/// Time that the warm-up should take.
const WARM: Duration = Duration::from_millis(20);
/// Time for a connection to a server that listens: short enough to notice soon that it does not any more.
const RECONNECT: Duration = Duration::from_secs(3);
/// Messages that follow each other within this time are timed in batches.
const SHORT: Duration = Duration::from_micros(2);

/// The most bytes of a message that travels in a line.
const LINE_BYTES: u64 = 40;
/// Messages that are recorded, at most, and those before them: as many as the recorder holds where they are long.
const RECORDED: u64 = 32;

/// The measuring end, connected.
struct Client<'a> {
    ask: &'a Ask,
    address: &'a Address,
    link: Link<'a>,
    end: End,
    ready: Ready,
    joined: Joined,
    reading_ns: u64,
    /// the timed messages of the size before
    last: Option<Run>,
}

/// Results of a run, of both ends.
struct Outcome {
    figures: Figures,
    /// nanoseconds that this end's thread ran, and that went by
    usage: (u64, u64),
    peer_usage: (u64, u64),
    /// from asking to the answer
    took: Duration,
}

/// Measures all that was asked for.
///
/// # Errors
/// The failure that ends it early.
pub fn measure(
    session: &Session<'_>,
    ask: &Ask,
    address: &Address,
    trace: &mut Trace,
) -> Result<(), Failure> {
    if ask.picture.is_some() && ask.sizes.iter().last().is_some_and(|bytes| bytes <= LINE_BYTES) {
        let text = "a message of 40 bytes or less travels without blocks: for --picture end --sizes with a longer one";
        return Err(Failure::new(Code::Usage, text));
    }
    let mut output = Output::open(ask, &session.signals)?;
    session.pin()?;
    let connection = session.connect(address, session.options(WaitStrategy::Sleep), ask.connect_timeout)?;
    let joined = session.connected(&connection)?;
    let reading_ns = clock::reading_ns();
    let mut link = Link::new(session, connection, trace);
    let outcome = match agree(&mut link, ask) {
        Err(failure) => Err(failure),
        Ok((plan, ready)) => {
            let end = End::new(session.role, plan, ask.inject_flip);
            let mut client = Client { ask, address, link, end, ready, joined, reading_ns, last: None };
            let outcome = client.all(&mut output);
            link = client.link;
            outcome
        }
    };
    link.end(&outcome);
    outcome.and_then(|()| output.finish())
}

/// Tells the server what holds for all sizes, and hears how both ends wait.
fn agree(link: &mut Link<'_>, ask: &Ask) -> Result<(Plan, Ready), Failure> {
    link.exchange_hellos()?;
    let plan = Plan {
        wait: ask.wait.map(crate::options::Wait::strategy),
        memory: ask.memory(),
        is_verified: ask.verify,
        core: link.session.core(),
        seed: RandomState::new().hash_one(0),
        bytes_max: ask.sizes.max(),
    };
    link.tell(TAG_PLAN, &plan.encode())?;
    let ready = Ready::decode(&link.hear_more(TAG_READY)?, &plan).map_err(peer::broken)?;
    link.set_wait(ready.wait);
    Ok((plan, ready))
}

impl Client<'_> {
    /// Measures every size, and has the messages after the last recorded.
    fn all(&mut self, output: &mut Output) -> Result<(), Failure> {
        for bytes in self.ask.sizes.iter() {
            output.put(self.size(bytes)?)?;
        }
        let Some(last) = self.last.filter(|_| self.ask.picture.is_some() || self.link.trace.is_wanted())
        else {
            return Ok(());
        };
        let [client, server] = self.record(&last)?;
        if self.ask.picture.is_some() {
            output.draw(&self.picture(last.bytes, &client, &server)?)?;
        }
        self.link.trace.add(client);
        self.link.trace.add(server);
        Ok(())
    }

    /// Has both ends record a few more messages, of the kind that was timed last. Returns the client's records and the server's.
    fn record(&mut self, last: &Run) -> Result<[Track; 2], Failure> {
        let (warmup, samples) = (last.warmup.clamp(1, RECORDED), last.samples.clamp(1, RECORDED));
        self.link.data().record(true);
        self.run(&Run { batch: 1, warmup, samples, is_recorded: true, ..*last })?;
        let server = self.link.hear_records()?;
        Ok([self.link.take_records(), server])
    }

    /// Returns the picture of the typical one of the messages that were recorded.
    fn picture(&self, bytes: u64, client: &Track, server: &Track) -> Result<Picture, Failure> {
        let is_answered = self.ask.test == Test::Latency;
        let journey = Journey::typical(&client.marks, &server.marks, bytes, is_answered);
        let Joined { protocol, fabric, block_bytes, .. } = self.joined;
        match journey {
            Some(journey) => Ok(Picture { journey, bytes, block_bytes, protocol, fabric }),
            None => Err(Failure::new(
                Code::Device,
                format!(
                    "cannot draw a message of {}: it is more events than the {MARKS_MAX} that are kept; draw a smaller \
                     one, or one in larger blocks",
                    Bytes(bytes)
                ),
            )),
        }
    }

    /// Measures one size.
    fn size(&mut self, bytes: u64) -> Result<Row, Failure> {
        let pattern = match self.ask.test {
            Test::Latency => Pattern::Pingpong,
            Test::Stream => Pattern::Stream,
        };
        let check = Run {
            pattern: Pattern::Check,
            is_reconnected: self.ask.reconnect.is_some(),
            is_recorded: false,
            batch: 1,
            bytes,
            warmup: 0,
            samples: 1,
        };
        let first = self.first(&check)?;
        let idle = Run { pattern, is_reconnected: false, samples: 0, ..check };
        let each = self.warm_up(&idle, first.took)?;
        let run = self.timed(&idle, each);
        let outcome = self.run(&run)?;
        self.last = Some(run);
        Ok(self.row(&run, &first, &outcome))
    }

    /// Measures the first message; of several connections' the median.
    fn first(&mut self, check: &Run) -> Result<Outcome, Failure> {
        let mut firsts = Vec::new();
        for _ in 0..self.ask.reconnect.unwrap_or(1) {
            firsts.push(self.run(check)?);
        }
        firsts.sort_by_key(|outcome| outcome.figures.p50_ps);
        Ok(firsts.swap_remove(firsts.len() / 2))
    }

    /// Warms up by messages that are not timed. Returns the time that one takes.
    fn warm_up(&mut self, idle: &Run, first: Duration) -> Result<Duration, Failure> {
        let mut warmup = self.ask.warmup.unwrap_or(1);
        let mut each = first;
        loop {
            if warmup > 0 {
                let took = self.run(&Run { warmup, ..*idle })?.took;
                each = took / u32::try_from(warmup).unwrap_or(u32::MAX);
                if took >= WARM || warmup >= *ITERATIONS.end() {
                    return Ok(each);
                }
            }
            if self.ask.warmup.is_some() {
                return Ok(each);
            }
            warmup *= 4;
        }
    }

    /// Returns the run of the messages that are timed: as many as were asked for or make sense.
    fn timed(&self, idle: &Run, each: Duration) -> Run {
        let fit =
            |time: Duration| u64::try_from(time.as_nanos() / each.as_nanos().max(1)).unwrap_or(u64::MAX);
        let iterations = self.ask.iterations.unwrap_or_else(|| {
            fit(TIMED).clamp(*ITERATIONS.start(), *ITERATIONS.end()).min(fit(TIMED_MAX).max(3))
        });
        let batch = match iterations {
            _ if each >= SHORT || self.end.plan.is_with_care() => 1,
            1280.. => 64,
            160.. => 8,
            _ => 1,
        };
        let samples = if batch > 1 { iterations / (2 * u64::from(batch)) } else { iterations };
        // the clock starts while messages flow
        let warmup = fit(Duration::from_millis(1)).clamp(1, 64);
        Run { batch, warmup, samples, ..*idle }
    }

    /// Has the server begin a run, takes part in it, and hears how it was there.
    fn run(&mut self, run: &Run) -> Result<Outcome, Failure> {
        let begin = Instant::now();
        self.link.tell(TAG_RUN, &run.encode())?;
        if run.is_reconnected {
            let connection = self.reconnect()?;
            self.link.replace_data(connection);
        }
        let mut samples = Samples::new(run, self.link.session.role);
        let performed = self.end.perform(&mut self.link, run, &mut samples);
        let usage = performed.map_err(|mishap| self.link.explain(mishap))?;
        let done = Done::decode(&self.link.hear_more(TAG_DONE)?).map_err(peer::broken)?;
        self.end.verdict()?;
        let figures = match run.pattern {
            Pattern::Stream => done.figures,
            _ => samples.figures(Scale { legs: 2, reading_ns: self.reading_ns }),
        };
        Ok(Outcome { figures, usage, peer_usage: (done.cpu_ns, done.wall_ns), took: begin.elapsed() })
    }

    /// Connects to the server, which listens, once more.
    fn reconnect(&mut self) -> Result<Connection, Failure> {
        let session = self.link.session;
        let timeout = self.ask.connect_timeout.min(RECONNECT);
        let connection = match session.connect(self.address, session.options(self.ready.wait), timeout) {
            Ok(connection) => connection,
            Err(failure) => return Err(self.link.check().err().unwrap_or(failure)),
        };
        session.connected(&connection)?;
        Ok(connection)
    }

    fn row(&self, run: &Run, first: &Outcome, outcome: &Outcome) -> Row {
        let mut row = Row {
            event: "result",
            test: self.ask.test,
            bytes: run.bytes,
            first_us: 0.0,
            min_us: 0.0,
            p50_us: 0.0,
            avg_us: 0.0,
            p99_us: 0.0,
            p999_us: 0.0,
            max_us: 0.0,
            gb_per_s: 0.0,
            iterations: run.timed(),
            batch: run.batch,
            fresh: self.end.plan.memory.name(),
            reconnect: self.ask.reconnect.unwrap_or(0),
            protocol: self.joined.protocol,
            wait: self.ready.wait.name(),
            cpu_percent: percent(outcome.usage),
            peer_cpu_percent: percent(outcome.peer_usage),
            verified: if self.end.plan.is_verified { "always" } else { "before" },
            fabric: self.joined.fabric,
            device: self.joined.device.clone(),
            arrival: self.joined.arrival,
            arrival_reason: self.joined.arrival_reason,
            block_bytes: self.joined.block_bytes,
            block_count: self.joined.block_count,
            chunk_bytes: self.joined.chunk_bytes,
            folds: self.joined.folds,
            core: self.end.plan.core,
            peer_core: self.ready.core,
            clock_ns: self.reading_ns,
            version: env!("CARGO_PKG_VERSION"),
        };
        row.set_figures(&first.figures, &outcome.figures);
        row
    }
}
