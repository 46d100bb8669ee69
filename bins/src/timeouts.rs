//! Timeouts of a tool that waits for its peer.

use core::time::Duration;

/// Timeout of operations that only the idle timeout limits: a stream or a disk may take any time.
pub const PATIENCE: Duration = Duration::from_hours(366 * 24);
/// Timeout for the delivery of a final report, in either direction.
pub const LAST_WORDS: Duration = Duration::from_secs(2);
/// Timeout for the HELLO of a sender or rperf client, which sends it as soon as it is connected. It is half of the default
/// connect timeout of 10 s, so that a silent client does not make the next one fail.
pub const HELLO_PATIENCE: Duration = Duration::from_secs(5);
/// Timeout for closing a connection.
pub const GOODBYE: Duration = Duration::from_secs(1);
