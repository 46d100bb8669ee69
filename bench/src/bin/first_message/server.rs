//! The other process: it accepts a connection per command, answers its messages, and tells the time of its jobs.

use superpipe::{Address, ErrorKind, Listener};
use superpipe_bench::channel::Channel;
use superpipe_bench::connection::{DEADLINE, fail, polling};
use superpipe_bench::failure::Failure;
use superpipe_bench::map::{self, SharedMapping};
use superpipe_bench::pattern;
use superpipe_bench::probe::{self, PROBE_BYTES};
use superpipe_bench::spin::Timeout;

/// Commands: their first word.
pub(crate) const PROBE: u64 = 0;
pub(crate) const VISIT: u64 = 1;

/// Bytes of the mapping: the channel, and the lines of the probe.
pub(crate) const MAP_BYTES: usize = probe::BEHIND_CHANNEL + PROBE_BYTES;

/// Results of a visit: nanoseconds of jobs until the first answer, and 1 if a message was wrong.
pub(crate) const RESULTS: usize = 2;

pub(crate) fn serve(
    map: &SharedMapping,
    address: &Address,
    bytes_max: usize,
    timeout: &Timeout,
) -> Result<(), Failure> {
    let mut listener = Listener::bind(address, polling()).map_err(fail)?;
    let mut channel = Channel::new(map);
    let mut buffer = map::resident(bytes_max, false)?;
    let mut probe_number = 0;
    loop {
        let [command, first_number, ..] = channel.take(timeout)?;
        if command == PROBE {
            probe::answer(map, probe::BEHIND_CHANNEL, &mut probe_number, timeout)?;
            channel.answer(&[]);
            continue;
        }
        let mut connection = listener.accept(DEADLINE).map_err(fail)?;
        let (mut number, mut jobs_ns, mut is_wrong) = (first_number, 0, false);
        loop {
            let received = match connection.recv_into(&mut [&mut buffer], DEADLINE) {
                Ok(received) => received,
                Err(error) if matches!(error.kind(), ErrorKind::Closed(_)) => break,
                Err(error) => return Err(fail(error)),
            };
            connection.send(0, &[&[0; 8]], DEADLINE).map_err(fail)?;
            if number == first_number {
                jobs_ns = connection.counters().jobs_ns;
            }
            is_wrong |= pattern::find_wrong_byte(number, &buffer[..received.bytes]).is_some();
            number += 1;
        }
        channel.answer(&[jobs_ns, u64::from(is_wrong)]);
    }
}
