//! superpipe beside the bare ways: a connection by the protocol register-cached, with two registered buffers as sources.

use superpipe::{
    Address, Connection, Listener, Options as ConnectionOptions, Protocol, RegisteredBuf, Tuning,
    WaitStrategy,
};
use superpipe_bench::connection::{DEADLINE, fail};
use superpipe_bench::failure::Failure;
use superpipe_bench::pattern;

/// One end of the connection.
pub(crate) struct Registered {
    connection: Connection,
    /// used in turn
    sources: [RegisteredBuf; 2],
}

impl Registered {
    /// Connects to the other process, which accepts.
    pub(crate) fn connect(address: &Address, bytes_max: usize) -> Result<Self, Failure> {
        Self::new(Connection::connect(address, options(), DEADLINE), bytes_max)
    }

    /// Accepts the other process.
    pub(crate) fn accept(address: &Address, bytes_max: usize) -> Result<Self, Failure> {
        let mut listener = Listener::bind(address, options()).map_err(fail)?;
        Self::new(listener.accept(DEADLINE), bytes_max)
    }

    fn new(connection: Result<Connection, superpipe::Error>, bytes_max: usize) -> Result<Self, Failure> {
        let source = || RegisteredBuf::new(bytes_max).map_err(fail);
        Ok(Self { connection: connection.map_err(fail)?, sources: [source()?, source()?] })
    }

    const fn index(number: u64) -> usize {
        !number.is_multiple_of(2) as usize
    }

    /// Writes every byte of the source of message `number`.
    pub(crate) fn write(&mut self, number: u64, contents: u64, bytes: usize) {
        pattern::fill(contents, &mut self.sources[Self::index(number)][..bytes]);
    }

    pub(crate) fn flip_byte(&mut self, number: u64, bytes: usize) {
        self.sources[Self::index(number)][bytes - 1] ^= 1;
    }

    pub(crate) fn send(&mut self, number: u64, bytes: usize) -> Result<(), Failure> {
        let source = &self.sources[Self::index(number)];
        self.connection.send_registered(0, source, 0..bytes, DEADLINE).map_err(fail)
    }

    pub(crate) fn receive(&mut self, to: &mut [u8]) -> Result<(), Failure> {
        self.connection.recv_into(&mut [to], DEADLINE).map(drop).map_err(fail)
    }
}

fn options() -> ConnectionOptions {
    let tuning = Tuning { protocol: Some(Protocol::RegisterCached), ..Tuning::default() };
    let wait = WaitStrategy::Spin;
    ConnectionOptions { tuning, wait, idle_timeout: DEADLINE, ..ConnectionOptions::default() }
}
