//! What both processes have in common, and one process's end: its connections and buffers.

use superpipe::{Address, Budget, Connection, Error, Options as ConnectionOptions};
use superpipe_bench::failure::Failure;
use superpipe_bench::map::{Buffer, SharedMapping};
use superpipe_bench::meeting::{DEADLINE, fail};

use crate::config::{Config, Link, Options};

/// What connections of a sweep may provision together.
const BUDGET_BYTES: u64 = 8 << 30;

/// What both processes have in common: made before the fork.
pub(crate) struct World<'a> {
    pub(crate) map: &'a SharedMapping,
    pub(crate) options: &'a Options,
    /// a command names a configuration by its index here
    pub(crate) configs: Vec<Config>,
    pub(crate) address: Address,
}

/// What one process has.
pub(crate) struct End<'a> {
    pub(crate) world: &'a World<'a>,
    connections: Vec<Connection>,
    from: Buffer,
    to: Buffer,
}

/// A message's two buffers, and the connection.
pub(crate) struct Work<'a> {
    pub(crate) from: &'a mut [u8],
    pub(crate) to: &'a mut [u8],
    pub(crate) connection: &'a mut Connection,
}

impl<'a> End<'a> {
    /// A connection for each way of tuning, and the buffers, resident.
    pub(crate) fn new(
        world: &'a World<'a>,
        mut connect: impl FnMut(ConnectionOptions) -> Result<Connection, Error>,
    ) -> Result<Self, Failure> {
        let options = world.options;
        Budget::set_limit_bytes(BUDGET_BYTES);
        let connect = |link: &Link| {
            connect(ConnectionOptions {
                wait: options.wait,
                idle_timeout: DEADLINE,
                tuning: link.tuning(),
                landing_bytes_max: u32::MAX,
                ..ConnectionOptions::default()
            })
        };
        let connections = Link::all(options).iter().map(connect).collect::<Result<_, _>>().map_err(fail)?;
        let bytes_max = options.sizes.iter().map(|size| size.0).max().unwrap_or(0) + options.offset.0;
        let huge = options.common.huge;
        let (from, to) = (Buffer::new(bytes_max, huge)?, Buffer::new(bytes_max, huge)?);
        Ok(Self { world, connections, from, to })
    }

    /// What a configuration is measured with.
    pub(crate) fn work(&mut self, config: Config) -> Work<'_> {
        let at = self.world.options.offset.0;
        Work {
            from: &mut self.from.bytes_mut()[at..at + config.bytes],
            to: &mut self.to.bytes_mut()[at..at + config.bytes],
            connection: &mut self.connections[config.link_index],
        }
    }
}

impl Work<'_> {
    /// Sends the one buffer.
    #[inline]
    pub(crate) fn send(&mut self) -> Result<(), Failure> {
        self.connection.send(0, &[self.from], DEADLINE).map_err(fail)
    }

    /// Receives into the other, which the message must fill.
    #[inline]
    pub(crate) fn receive(&mut self) -> Result<(), Failure> {
        let received = self.connection.recv_into(&mut [self.to], DEADLINE).map_err(fail)?;
        if received.bytes == self.to.len() { Ok(()) } else { Err(wrong_length(received.bytes)) }
    }
}

#[cold]
fn wrong_length(bytes: usize) -> Failure {
    Failure::Integrity(format!("a message of {bytes} bytes"))
}

/// A word to and from a message of 8 bytes.
pub(crate) fn word_of(message: &mut [u8]) -> Result<&mut [u8; 8], Failure> {
    message.try_into().map_err(|_| Failure::Usage("a message of 8 bytes has one word".into()))
}
