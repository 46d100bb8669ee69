//! superpipe's connections: one for commands, and two for each size.

use superpipe::{Address, Connection, Listener, Options, Tuning, WaitStrategy};
use superpipe_bench::connection::{DEADLINE, fail, polling};
use superpipe_bench::failure::Failure;

use crate::ring::Layout;

/// Least bytes of a landing buffer: the default.
const LANDING_BYTES: usize = 512 << 10;

/// The connections of an end.
pub(crate) struct Connections {
    /// Sleeps, so that no core is busy while another program is measured.
    pub(crate) control: Connection,
    pub(crate) pairs: Vec<Pair>,
}

/// The connections of a size.
pub(crate) struct Pair {
    /// Its landing buffer has as much room as the bare ring.
    pub(crate) in_place: Connection,
    pub(crate) copied: Connection,
}

impl Connections {
    /// Connects, in the order in which [`accept`](Self::accept) accepts.
    pub(crate) fn connect(address: &Address, sizes: &[usize]) -> Result<Self, Failure> {
        let connect = |options| Connection::connect(address, options, DEADLINE).map_err(fail);
        let control = sleeping(connect(polling())?);
        let pair = |&bytes: &usize| {
            let landing_bytes = Layout::new(bytes).ring_bytes().max(LANDING_BYTES);
            let landing_bytes = Some(u32::try_from(landing_bytes).unwrap_or(u32::MAX));
            let tuning = Tuning { landing_bytes, ..Tuning::default() };
            Ok(Pair { in_place: connect(Options { tuning, ..polling() })?, copied: connect(polling())? })
        };
        Ok(Self { control, pairs: sizes.iter().map(pair).collect::<Result<_, Failure>>()? })
    }

    /// Accepts them.
    pub(crate) fn accept(address: &Address, sizes: &[usize]) -> Result<Self, Failure> {
        let mut listener = Listener::bind(address, polling()).map_err(fail)?;
        let mut accept = || listener.accept(DEADLINE).map_err(fail);
        let control = sleeping(accept()?);
        let pair = |_| Ok(Pair { in_place: accept()?, copied: accept()? });
        Ok(Self { control, pairs: sizes.iter().map(pair).collect::<Result<_, Failure>>()? })
    }
}

fn sleeping(mut connection: Connection) -> Connection {
    connection.set_wait(WaitStrategy::Sleep);
    connection
}
