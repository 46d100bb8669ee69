//! Connections of one end that one poller drives.

use std::collections::HashMap;

use superpipe::{Connection, Key, PollEvents, Poller, PollerOptions, WaitStrategy};
use superpipe_bench::connection::fail;
use superpipe_bench::failure::Failure;

/// Bytes of a turn of one connection, and its messages: all others wait meanwhile.
const TURN_BYTES: usize = 256 << 10;
const TURN_MESSAGES: usize = 16;

pub(crate) struct Group {
    pub(crate) poller: Poller,
    pub(crate) keys: Vec<Key>,
    /// Places in that list.
    pub(crate) index: HashMap<Key, usize>,
    pub(crate) events: PollEvents,
}

impl Group {
    pub(crate) fn new(connections: Vec<Connection>) -> Result<Self, Failure> {
        let count = connections.len();
        let options = PollerOptions {
            wait: WaitStrategy::Spin,
            connections_max: u32::try_from(count).unwrap_or(u32::MAX),
            ..PollerOptions::default()
        };
        let mut poller = Poller::new(options).map_err(fail)?;
        let adopted = connections
            .into_iter()
            .map(|connection| poller.adopt(connection).map_err(|(_, error)| fail(error)));
        let keys: Vec<Key> = adopted.collect::<Result<_, _>>()?;
        let index = keys.iter().copied().enumerate().map(|(index, key)| (key, index)).collect();
        Ok(Self { poller, keys, index, events: PollEvents::with_capacity(256) })
    }
}

/// Messages of a turn.
pub(crate) fn turn(bytes: usize) -> usize {
    (TURN_BYTES / bytes.max(1)).clamp(1, TURN_MESSAGES)
}
