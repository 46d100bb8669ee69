//! The measuring process: slices of each connection in turn.

use core::time::Duration;

use memmap2::MmapMut;
use superpipe::os::monotonic_ns;
use superpipe::{Address, Connection};
use superpipe_bench::channel::Channel;
use superpipe_bench::connection::{DEADLINE, fail, polling};
use superpipe_bench::failure::Failure;
use superpipe_bench::map::{self, SharedMapping};
use superpipe_bench::pattern;
use superpipe_bench::probe::{self, Distance};
use superpipe_bench::spin::Timeout;

use crate::contestant::ALL;
use crate::server::{LAST, MESSAGE, MORE, PROBE, RESULTS, SLICE};

pub(crate) struct Client<'a> {
    map: &'a SharedMapping,
    channel: Channel<'a>,
    timeout: &'a Timeout,
    connections: Vec<Connection>,
    message: MmapMut,
    slice_ns: u64,
    probe_number: u64,
}

impl<'a> Client<'a> {
    pub(crate) fn new(
        map: &'a SharedMapping,
        address: &Address,
        bytes_max: usize,
        slice: Duration,
        timeout: &'a Timeout,
    ) -> Result<Self, Failure> {
        let mut connections = Vec::new();
        for contestant in ALL {
            let mut connection = Connection::connect(address, polling(), DEADLINE).map_err(fail)?;
            contestant.prepare(&mut connection);
            connections.push(connection);
        }
        let mut message = map::resident(bytes_max, false)?;
        pattern::fill(MESSAGE, &mut message);
        let slice_ns = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
        let channel = Channel::new(map);
        Ok(Self { map, channel, timeout, connections, message, slice_ns, probe_number: 0 })
    }

    /// Probes the distance of the cores.
    pub(crate) fn distance(&mut self) -> Result<Distance, Failure> {
        self.channel.post([PROBE, 0, 0, 0, 0, 0]);
        let distance = probe::measure(self.map, probe::BEHIND_CHANNEL, &mut self.probe_number, self.timeout)?;
        self.channel.wait_done(0, self.timeout)?;
        Ok(distance)
    }

    /// Returns the GB/s of a slice of each contestant.
    pub(crate) fn slices(&mut self, bytes: usize) -> Result<[f64; ALL.len()], Failure> {
        let mut rates = [0.0; ALL.len()];
        for (place, rate) in rates.iter_mut().enumerate() {
            self.channel.post([SLICE, place as u64, 0, 0, 0, 0]);
            *rate = self.slice(place, bytes)?;
            if self.channel.wait_done(RESULTS, self.timeout)? != [0] {
                return Err(Failure::Integrity(format!("a message of {bytes} bytes, {}", ALL[place].name)));
            }
        }
        Ok(rates)
    }

    /// Sends messages for the time of a slice. The answer to the last one ends the measurement.
    fn slice(&mut self, place: usize, bytes: usize) -> Result<f64, Failure> {
        let (connection, message) = (&mut self.connections[place], &self.message[..bytes]);
        let begin_ns = monotonic_ns();
        let mut messages = 0_u64;
        loop {
            let is_last = monotonic_ns() - begin_ns >= self.slice_ns;
            connection.send(if is_last { LAST } else { MORE }, &[message], DEADLINE).map_err(fail)?;
            messages += 1;
            if is_last {
                break;
            }
        }
        connection.recv_into(&mut [&mut [0; 8]], DEADLINE).map_err(fail)?;
        Ok((messages * bytes as u64) as f64 / (monotonic_ns() - begin_ns) as f64)
    }
}
