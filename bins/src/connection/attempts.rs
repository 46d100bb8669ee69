//! Failed attempts to connect, after which a tool goes on listening.

use crate::connection::session::Session;
use crate::exit::{Code, Failure};
use crate::quantity::format_duration;
use core::time::Duration;
use std::time::Instant;
use superpipe::Address;

/// Attempts that are reported one by one. A client that tries again and again must not fill a log.
const REPORTED_SINGLY: u64 = 16;
/// Least interval between two lines after those.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The failed attempts of one run.
#[derive(Debug)]
pub struct Attempts {
    address: Address,
    /// attempts since the wait began
    count: u64,
    /// lines written about attempts
    reported_count: u64,
    /// attempts since the last line
    unreported_count: u64,
    reported_at: Option<Instant>,
    last: Option<String>,
}

impl Attempts {
    /// Creates an empty record for this address.
    #[must_use]
    pub const fn new(address: Address) -> Self {
        Self { address, count: 0, reported_count: 0, unreported_count: 0, reported_at: None, last: None }
    }

    /// Records a failed attempt, and reports it: each of the first 16, then one line per 10 s.
    pub fn add(&mut self, session: &Session<'_>, failure: &Failure) {
        self.count += 1;
        self.unreported_count += 1;
        let is_due = self.reported_at.is_none_or(|reported_at| reported_at.elapsed() >= REPORT_INTERVAL);
        if self.reported_count < REPORTED_SINGLY || is_due {
            let others = match self.unreported_count {
                1 => String::new(),
                count => format!(" (and {} attempts before it)", count - 1),
            };
            session.print_if(true, &format!("{failure}{others}; still listening at {}", self.address));
            (self.unreported_count, self.reported_at) = (0, Some(Instant::now()));
            self.reported_count += 1;
        }
        self.last = Some(failure.text.clone());
    }

    /// Resets the count after an attempt that succeeded. The limit on lines is not reset.
    pub fn restart(&mut self) {
        (self.count, self.last) = (0, None);
    }

    /// Returns the failure of a wait in which no `work` ("transfer") began. It names the last attempt; `nobody` is the text if
    /// there was none.
    #[must_use]
    pub fn explain(&self, work: &str, accept_timeout: Duration, nobody: &str) -> Failure {
        let within = format_duration(accept_timeout);
        let text = match &self.last {
            None => format!("{nobody} within {within}; see --accept-timeout"),
            Some(last) => {
                let failed = match self.count {
                    1 => "1 attempt failed".to_owned(),
                    count => format!("{count} attempts failed, the last"),
                };
                format!(
                    "no {work} began at {} within {within} (--accept-timeout); {failed}: {last}",
                    self.address
                )
            }
        };
        Failure::new(Code::Connect, text)
    }
}
