//! The measuring process: blocking calls.

use core::fmt;
use std::time::Instant;

use serde_json::{Value, json};
use superpipe::{Address, Connection, LandingMode, Options, PollEvents, Poller, PollerOptions, Tuning};
use superpipe_bench::connection::{DEADLINE, fail, polling};
use superpipe_bench::failure::Failure;
use superpipe_bench::stats::{Spread, median};

use super::idle;
use super::server::{Kind, TAG, encode};

/// Ends of the client.
pub(crate) struct Client {
    control: Connection,
    /// One that is served in each way.
    served: [Connection; 3],
    /// Idle ones beside the third, which nothing polls here. Their landing is on demand.
    _idle: Vec<Connection>,
    /// Idle ones that both ends poll.
    sleeping: Poller,
}

/// Figures of one size.
pub(crate) struct Row {
    bytes: usize,
    blocking_us: Spread,
    poller: Spread,
    among_idle: Spread,
}

impl Client {
    pub(crate) fn connect(address: &Address, idle: u32) -> Result<Self, Failure> {
        let connect = || Connection::connect(address, polling(), DEADLINE).map_err(fail);
        let tuning = Tuning { landing: Some(LandingMode::OnDemand), ..Tuning::default() };
        let on_demand = Options { tuning, ..polling() };
        let connect_idle = || Connection::connect(address, on_demand, DEADLINE).map_err(fail);
        let (control, blocking, alone) = (connect()?, connect()?, connect()?);
        let beside: Vec<_> = (0..idle).map(|_| connect_idle()).collect::<Result<_, _>>()?;
        let among = connect()?;
        let options = PollerOptions { connections_max: idle.max(1), ..PollerOptions::default() };
        let mut sleeping = Poller::new(options).map_err(fail)?;
        for _ in 0..idle {
            sleeping.adopt(connect_idle()?).map_err(|(_, error)| fail(error))?;
        }
        Ok(Self { control, served: [blocking, alone, among], _idle: beside, sleeping })
    }

    /// Measures messages of this length.
    pub(crate) fn measure(&mut self, bytes: usize, rounds: usize, slice_ms: u64) -> Result<Row, Failure> {
        let (message, mut room) = (vec![7; bytes], vec![0; bytes]);
        let took = self.slice(Kind::Blocking, 20, &message, &mut room)?;
        let fit = slice_ms as f64 * 1000.0 / took.max(0.001);
        #[expect(clippy::cast_possible_truncation, reason = "a count that is clamped")]
        let count = (fit as usize).clamp(1, 200_000);
        let mut times = [const { Vec::new() }; 3];
        for round in 0..=rounds {
            for turn in 0..Kind::SERVED.len() {
                let at = (turn + round) % Kind::SERVED.len();
                let took = self.slice(Kind::SERVED[at], count, &message, &mut room)?;
                // The first round warms up.
                if round > 0 {
                    times[at].push(took);
                }
            }
        }
        let [blocking, alone, among] = &times;
        let over = |one: &[f64], other: &[f64]| {
            Spread::new(&one.iter().zip(other).map(|(one, other)| one / other).collect::<Vec<_>>())
        };
        Ok(Row {
            bytes,
            blocking_us: Spread::new(blocking),
            poller: over(alone, blocking),
            among_idle: over(among, alone),
        })
    }

    /// Sends so many messages, each answered before the next. Returns the microseconds of one.
    fn slice(&mut self, kind: Kind, count: usize, message: &[u8], room: &mut [u8]) -> Result<f64, Failure> {
        self.control.send(TAG, &[&encode(kind, count, message.len())], DEADLINE).map_err(fail)?;
        self.control.recv_into(&mut [&mut []], DEADLINE).map_err(fail)?;
        let connection = &mut self.served[kind as usize];
        room.fill(0);
        let mut times = Vec::with_capacity(10);
        // Tenths, so that a pause of the machine spoils only one.
        for part in 0..10 {
            let part = count * (part + 1) / 10 - count * part / 10;
            let begin = Instant::now();
            for _ in 0..part {
                connection.send(TAG, &[message], DEADLINE).map_err(fail)?;
                connection.recv_into(&mut [&mut *room], DEADLINE).map_err(fail)?;
            }
            if part > 0 {
                times.push(begin.elapsed().as_secs_f64() * 1e6 / part as f64);
            }
        }
        if room != message {
            return Err(Failure::Integrity("the answer is another message".into()));
        }
        Ok(median(&times))
    }

    /// Lets all be idle. Returns the percent of a core that each end's poller took.
    pub(crate) fn be_idle(&mut self, seconds: u64) -> Result<[f64; 2], Failure> {
        self.control.send(TAG, &[&encode(Kind::Idle, 0, 0)], DEADLINE).map_err(fail)?;
        self.control.recv_into(&mut [&mut []], DEADLINE).map_err(fail)?;
        let ours = idle::percent_of_core(&mut self.sleeping, &mut PollEvents::with_capacity(64), seconds)?;
        let mut theirs = [0; 8];
        self.control.recv_into(&mut [&mut theirs], DEADLINE).map_err(fail)?;
        Ok([ours, f64::from_le_bytes(theirs)])
    }
}

impl Row {
    pub(crate) fn to_json(&self, idle: u32) -> Value {
        json!({
            "event": "median", "kind": "polling", "bytes": self.bytes, "idle": idle, "blocking_us": self.blocking_us.to_json(),
            "poller_over_blocking": self.poller.to_json(), "among_idle_over_alone": self.among_idle.to_json(),
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>9} {:>22} {:>32} {:>32}",
            self.bytes,
            self.blocking_us.to_text(),
            self.poller.to_text(),
            self.among_idle.to_text()
        )
    }
}
