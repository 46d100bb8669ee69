//! Timeouts of a tool that waits for its peer.

use core::time::Duration;

/// Timeout of operations that only the idle timeout limits, since a stream or a disk may take any time. A year, because the library
/// takes a duration.
pub const UNLIMITED: Duration = Duration::from_hours(366 * 24);
/// Timeout for the delivery of a final report, in either direction. A peer that runs answers within milliseconds; a longer wait
/// would only delay the end of a tool whose peer is stuck.
pub const REPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for the HELLO of a sender or rperf client, which sends it as soon as it is connected. It is half of the default
/// connect timeout of 10 s, so that a silent client does not make the next one fail.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for closing a connection, for the same reason.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
