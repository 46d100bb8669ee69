//! Attempts to connect that came to nothing, and after which a tool goes on listening.

use crate::exit::{Code, Failure};
use crate::quantity::shown;
use crate::session::Session;
use core::time::Duration;
use std::time::Instant;
use superpipe::Address;

/// Attempts that are told one by one. A stranger who tries again and again must not fill a log.
const TOLD_SINGLY: u64 = 16;
/// Between two lines after those.
const TELLING_INTERVAL: Duration = Duration::from_secs(10);

/// The failed attempts of one run.
#[derive(Debug)]
pub struct Attempts {
    address: Address,
    /// since the wait began
    count: u64,
    /// lines about them
    told_count: u64,
    /// attempts since the last line
    untold: u64,
    told_at: Option<Instant>,
    last: Option<String>,
}

impl Attempts {
    /// No attempts yet, at this address.
    #[must_use]
    pub const fn new(address: Address) -> Self {
        Self { address, count: 0, told_count: 0, untold: 0, told_at: None, last: None }
    }

    /// Tells of one more that failed: each of the first, then one line in ten seconds.
    pub fn add(&mut self, session: &Session<'_>, failure: &Failure) {
        self.count += 1;
        self.untold += 1;
        let is_due = self.told_at.is_none_or(|told_at| told_at.elapsed() >= TELLING_INTERVAL);
        if self.told_count < TOLD_SINGLY || is_due {
            let others = match self.untold {
                1 => String::new(),
                untold => format!(" (and {} attempts before it)", untold - 1),
            };
            session.say_if(true, &format!("{failure}{others}; still listening at {}", self.address));
            (self.untold, self.told_at) = (0, Some(Instant::now()));
            self.told_count += 1;
        }
        self.last = Some(failure.text.clone());
    }

    /// Counts anew: one came to something. What was told stays told.
    pub fn restart(&mut self) {
        (self.count, self.last) = (0, None);
    }

    /// Returns the failure of a wait in which no `work` ("transfer") began, with the last attempt if there was one. `nobody` says that
    /// there was none.
    #[must_use]
    pub fn explain(&self, work: &str, accept_timeout: Duration, nobody: &str) -> Failure {
        let within = shown(accept_timeout);
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
