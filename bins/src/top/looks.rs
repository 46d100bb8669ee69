//! Looks at all processes, one after the other.

use super::rates::{Previous, Rates};
use crate::exit::{Code, Failure};
use std::collections::BTreeMap;
use superpipe::metrics::{ConnectionLine, Reader, Snapshot, processes};
use superpipe::{Error, ErrorKind};

/// Looks so far.
#[derive(Debug)]
pub struct Looks {
    /// processes to look at; none: all of this user
    pids: Vec<u32>,
    is_named: bool,
    is_first: bool,
    readers: BTreeMap<u32, Reader>,
    previous: Previous,
}

/// One look.
#[derive(Debug)]
pub struct Look {
    /// processes, by their numbers
    pub snapshots: Vec<Snapshot>,
    /// rates of each connection, by process and number
    pub rates: BTreeMap<(u32, u64), Rates>,
    /// texts for processes that were named and have ended, or cannot be read any more
    pub gone: Vec<String>,
}

impl Look {
    /// Returns the connections with their processes and rates.
    pub fn connections(&self) -> impl Iterator<Item = (&Snapshot, &ConnectionLine, Rates)> {
        self.snapshots.iter().flat_map(move |snapshot| {
            snapshot.connections.iter().map(move |line| {
                let rates = self.rates.get(&(snapshot.pid, line.number)).copied().unwrap_or_default();
                (snapshot, line, rates)
            })
        })
    }
}

impl Looks {
    /// Begins, with these processes, or all of this user if there are none.
    #[must_use]
    pub fn new(pids: Vec<u32>) -> Self {
        let is_named = !pids.is_empty();
        Self { pids, is_named, is_first: true, readers: BTreeMap::new(), previous: Previous::default() }
    }

    /// Looks at all processes. `None`: none of those that were named is left.
    ///
    /// # Errors
    /// At the first look: a process that was named publishes nothing, or cannot be read. Later: /proc cannot be read.
    pub fn look(&mut self) -> Result<Option<Look>, Failure> {
        let is_first = core::mem::replace(&mut self.is_first, false);
        let is_named = self.is_named;
        let wanted =
            if is_named { self.pids.clone() } else { processes().map_err(|error| failure(&error))? };
        self.readers.retain(|pid, _| wanted.contains(pid));
        for pid in wanted {
            if self.readers.contains_key(&pid) {
                continue;
            }
            match Reader::open(pid) {
                Ok(reader) => _ = self.readers.insert(pid, reader),
                Err(error) if is_named && is_first => return Err(failure(&error)),
                // It has ended since it was found.
                Err(_) => {}
            }
        }
        let (mut snapshots, mut gone) = (Vec::new(), Vec::new());
        self.readers.retain(|_, reader| match reader.read() {
            Ok(snapshot) => {
                snapshots.push(snapshot);
                true
            }
            Err(error) => {
                gone.push(error.to_string());
                false
            }
        });
        if is_named {
            self.pids.retain(|pid| self.readers.contains_key(pid));
        } else {
            // Processes come and go.
            gone.clear();
        }
        let rates = self.previous.rates(&snapshots);
        if is_named && self.pids.is_empty() && gone.is_empty() {
            return Ok(None);
        }
        Ok(Some(Look { snapshots, rates, gone }))
    }
}

/// Returns the failure for an error of the library.
fn failure(error: &Error) -> Failure {
    let code = match error.kind() {
        ErrorKind::Connect => Code::Connect,
        ErrorKind::Auth | ErrorKind::Version | ErrorKind::Protocol => Code::Protocol,
        ErrorKind::PeerLost => Code::PeerLost,
        ErrorKind::Limit | ErrorKind::Device => Code::Device,
        _ => Code::LocalIo,
    };
    Failure::new(code, error.to_string())
}
