//! superpipe beside the bare ways: a connection by the protocol register-cached, with two registered buffers as sources, and a trusted one as
//! destination.

use core::hint::black_box;

use superpipe::{
    Address, Connection, Listener, Options as ConnectionOptions, PeerTrust, Protocol, RegisteredBuf,
    TrustedBuf, Tuning, WaitStrategy,
};
use superpipe_bench::connection::{DEADLINE, fail};
use superpipe_bench::failure::Failure;
use superpipe_bench::pattern;

/// One end of the connection.
pub(crate) struct Registered {
    connection: Connection,
    /// used in turn
    sources: [RegisteredBuf; 2],
    destination: TrustedBuf,
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
        let destination = TrustedBuf::new(bytes_max).map_err(fail)?;
        Ok(Self { connection: connection.map_err(fail)?, sources: [source()?, source()?], destination })
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

    /// Offers the destination for the next message.
    pub(crate) fn offer(&mut self) -> Result<(), Failure> {
        self.connection.offer(&mut self.destination).map(drop).map_err(fail)
    }

    /// Receives into the trusted buffer.
    pub(crate) fn receive_trusted(&mut self) -> Result<(), Failure> {
        self.connection.recv_trusted(&mut self.destination, DEADLINE).map(drop).map_err(fail)
    }

    /// Copies the message in the trusted buffer out.
    pub(crate) fn copy_received(&self, to: &mut [u8]) -> Result<(), Failure> {
        self.destination.read(0, to).map_err(fail)
    }

    /// Reads every byte of the message in the trusted buffer.
    pub(crate) fn read_received(&self, bytes: usize) {
        // SAFETY: the message was received, and the buffer was not offered since.
        let message = unsafe { self.destination.as_slice() };
        black_box(message[..bytes].iter().fold(0, |sum, byte| sum ^ byte));
    }

    pub(crate) fn receive(&mut self, to: &mut [u8]) -> Result<(), Failure> {
        self.connection.recv_into(&mut [to], DEADLINE).map(drop).map_err(fail)
    }
}

fn options() -> ConnectionOptions {
    let tuning = Tuning { protocol: Some(Protocol::RegisterCached), ..Tuning::default() };
    let wait = WaitStrategy::Spin;
    // SAFETY: the peer is this program.
    let peer_trust = unsafe { PeerTrust::declare() };
    ConnectionOptions { tuning, wait, peer_trust, idle_timeout: DEADLINE, ..ConnectionOptions::default() }
}
