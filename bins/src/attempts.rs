//! Attempts to connect that came to nothing, and after which a receiver goes on listening.

use crate::exit::{Code, Failure};
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
    count: u64,
    /// those since the last line
    untold: u64,
    told_at: Option<Instant>,
    last: Option<String>,
}

impl Attempts {
    /// None yet, at this address.
    #[must_use]
    pub const fn new(address: Address) -> Self {
        Self { address, count: 0, untold: 0, told_at: None, last: None }
    }

    /// Tells of one more that failed: each of the first, then one line in ten seconds.
    pub fn add(&mut self, session: &Session<'_>, failure: &Failure) {
        self.count += 1;
        self.untold += 1;
        let is_due = self.told_at.is_none_or(|told_at| told_at.elapsed() >= TELLING_INTERVAL);
        if self.count <= TOLD_SINGLY || is_due {
            let others = match self.untold {
                1 => String::new(),
                untold => format!(" (and {} attempts before it)", untold - 1),
            };
            session.say_if(true, &format!("{failure}{others}; still listening at {}", self.address));
            (self.untold, self.told_at) = (0, Some(Instant::now()));
        }
        self.last = Some(failure.text.clone());
    }

    /// The failure of a wait to which nobody came, with the last attempt where there was one.
    #[must_use]
    pub fn explain(&self, failure: Failure) -> Failure {
        match &self.last {
            Some(last) if failure.code == Code::Connect => {
                Failure::new(failure.code, format!("{failure}; the last attempt: {last}"))
            }
            _ => failure,
        }
    }
}
