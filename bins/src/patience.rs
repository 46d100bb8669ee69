//! Times that a tool waits for its peer.

use core::time::Duration;

/// For what the peer's silence bounds, not the time: a stream lasts as long as it lasts, and a disk takes its time.
pub const PATIENCE: Duration = Duration::from_hours(366 * 24);
/// For the peer to take our last words, or for us to hear its own.
pub const LAST_WORDS: Duration = Duration::from_secs(2);
/// For the HELLO of a sender or rperf client, which it sends as soon as it is connected. Others who connect meanwhile look for a
/// receiver or server for 10 s by default.
pub const HELLO_PATIENCE: Duration = Duration::from_secs(5);
/// For good-byes.
pub const GOODBYE: Duration = Duration::from_secs(1);
