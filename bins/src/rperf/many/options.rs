//! Options of many connections, and what cannot be had with them.

use crate::exit::{Code, Failure};
use crate::rperf::SAMPLES_MAX;
use crate::rperf::messages::{CONNECTIONS_MAX, UNDER_WAY_MAX};
use crate::rperf::options::{ClientOptions, Test};
use superpipe::os::Bytes;

/// Connections of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Many {
    /// those over which messages are spread
    pub connections: u32,
    /// those that are idle meanwhile
    pub idle: u32,
}

/// Returns the connections that the options ask for; `None` if messages go over one connection, by calls that wait.
///
/// # Errors
/// The options contradict each other.
pub fn of(options: &ClientOptions) -> Result<Option<Many>, Failure> {
    let ClientOptions { connections, idle, bidirectional, .. } = options;
    if options.time.is_some() && options.iterations.is_some() {
        return usage("--time and --iterations both say when a size is over: leave out one of them".into());
    }
    if *bidirectional && options.test == Some(Test::Latency) {
        return usage(
            "--bidirectional sends streams, and no message is answered: use it with --test stream".into(),
        );
    }
    if connections.is_none() && idle.is_none() && !bidirectional {
        return Ok(None);
    }
    let alone = [
        ("--fresh", options.fresh.is_some()),
        ("--reconnect", options.reconnect.is_some()),
        ("--registered", options.registered),
        ("--verify", options.verify),
        ("--picture", options.picture.is_some()),
        ("--trace", options.common.trace.is_some()),
    ];
    if let Some((name, _)) = alone.into_iter().find(|(_, is_given)| *is_given) {
        return usage(format!(
            "{name} is for one connection by itself: leave it out, or leave out --connections, --idle and --bidirectional"
        ));
    }
    let many = Many { connections: connections.unwrap_or(1), idle: idle.unwrap_or(0) };
    if many.connections.saturating_add(many.idle) > CONNECTIONS_MAX {
        return usage(format!("--connections and --idle are at most {CONNECTIONS_MAX} together"));
    }
    if options.warmup.is_some_and(|warmup| warmup > SAMPLES_MAX) {
        return usage(format!(
            "--warmup is at most {SAMPLES_MAX} with --connections, --idle and --bidirectional"
        ));
    }
    let bytes = options.sizes.max().saturating_mul(many.connections.into());
    if bytes > UNDER_WAY_MAX {
        return usage(format!(
            "one message of {} over each of {} connections needs buffers of {}, and the limit is {}: lower --sizes or --connections",
            Bytes(options.sizes.max()),
            many.connections,
            Bytes(bytes),
            Bytes(UNDER_WAY_MAX)
        ));
    }
    Ok(Some(many))
}

fn usage<T>(text: String) -> Result<T, Failure> {
    Err(Failure::new(Code::Usage, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rperf::options::Perf;
    use clap::Parser;

    fn read(arguments: &[&str]) -> Result<Option<Many>, String> {
        let arguments = ["rperf", "localhost"].iter().chain(arguments);
        of(&Perf::try_parse_from(arguments).unwrap().client).map_err(|failure| {
            assert_eq!(failure.code, Code::Usage);
            failure.text
        })
    }

    #[test]
    fn many_connections_are_asked_for_by_three_options() {
        let many = |connections, idle| Ok(Some(Many { connections, idle }));
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["--time", "2"]), Ok(None));
        assert_eq!(read(&["--connections", "64"]), many(64, 0));
        assert_eq!(read(&["--idle", "1000", "--test", "latency"]), many(1, 1000));
        assert_eq!(read(&["--bidirectional"]), many(1, 0));
        assert_eq!(read(&["--bidirectional", "--test=stream", "--connections=2", "--idle=3"]), many(2, 3));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_remedy() {
        for (arguments, words) in [
            (&["--time=1", "--iterations=5"][..], "leave out one of them"),
            (&["--bidirectional", "--test=latency"], "--test stream"),
            (&["--connections=2", "--fresh"], "--fresh is for one connection"),
            (&["--idle=2", "--reconnect"], "--reconnect is for one connection"),
            (&["--bidirectional", "--registered"], "leave out --connections"),
            (&["--connections=2", "--verify"], "--verify"),
            (&["--connections=2", "--trace=x"], "--trace"),
            (&["--connections=2", "--picture=x"], "--picture"),
            (&["--connections=10000", "--idle=10000"], "at most 16384"),
            (&["--connections=5", "--sizes=1G"], "lower --sizes or --connections"),
        ] {
            let text = read(arguments).unwrap_err();
            assert!(text.contains(words), "{arguments:?}: {text}");
        }
    }
}
