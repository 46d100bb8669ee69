//! One end of one kind of connection.

use core::time::Duration;

use superpipe_bench::connection::DEADLINE;
use superpipe_bench::failure::Failure;
use superpipe_tokio::{Address, Connection, Options, RecvError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// Bytes at the begin of a message: the length of the next one.
pub(crate) const HEADER_BYTES: usize = 8;

/// Kind of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// superpipe, whose futures spin for a bounded time before they wait.
    Spin,
    /// superpipe, whose futures wait at once.
    Armed,
    Unix,
    Tcp,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Spin, Self::Armed, Self::Unix, Self::Tcp];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Spin => "superpipe, spin",
            Self::Armed => "superpipe, armed",
            Self::Unix => "UnixStream",
            Self::Tcp => "TcpStream",
        }
    }
}

/// One end.
pub(crate) struct End {
    transport: Transport,
    /// Bytes of the next message, which both ends know.
    bytes: usize,
}

enum Transport {
    Superpipe(Box<Connection>),
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Where the server listens, beside superpipe: a path next to it, and a port that a file there names.
pub(crate) fn unix_path(address: &Address) -> std::path::PathBuf {
    let Address::Shm(path) = address else { return "unix".into() };
    path.with_extension("unix")
}

impl End {
    pub(crate) fn superpipe(mut connection: Connection, kind: Kind, spin: Duration) -> Self {
        connection.set_spin(if kind == Kind::Spin { spin } else { Duration::ZERO });
        Self { transport: Transport::Superpipe(Box::new(connection)), bytes: HEADER_BYTES }
    }

    pub(crate) const fn unix(stream: UnixStream) -> Self {
        Self { transport: Transport::Unix(stream), bytes: HEADER_BYTES }
    }

    pub(crate) fn tcp(stream: TcpStream) -> Result<Self, Failure> {
        stream.set_nodelay(true).map_err(|error| Failure::Os("set TCP_NODELAY", error))?;
        Ok(Self { transport: Transport::Tcp(stream), bytes: HEADER_BYTES })
    }

    /// Bytes of the next message.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Has later messages be so long: one of the length before says so, and is answered.
    pub(crate) async fn announce(&mut self, bytes: usize) -> Result<(), Failure> {
        let mut message = vec![0; self.bytes];
        message[..HEADER_BYTES].copy_from_slice(&(bytes as u64).to_le_bytes());
        self.send(&message).await?;
        self.receive(&mut message).await?;
        self.bytes = bytes;
        Ok(())
    }

    /// Notes the length of the next message, as this one says.
    pub(crate) fn note_next(&mut self, message: &[u8]) -> Result<(), Failure> {
        let header = message.first_chunk().map_or(0, |header| u64::from_le_bytes(*header));
        self.bytes = usize::try_from(header).unwrap_or(0);
        match self.bytes {
            HEADER_BYTES..=0x400_0000 => Ok(()),
            _ => Err(Failure::Integrity("a message names no length".into())),
        }
    }

    pub(crate) async fn send(&mut self, message: &[u8]) -> Result<(), Failure> {
        match &mut self.transport {
            Transport::Superpipe(connection) => connection.send(1, &[message]).await.map_err(failed),
            Transport::Unix(stream) => stream.write_all(message).await.map_err(broken),
            Transport::Tcp(stream) => stream.write_all(message).await.map_err(broken),
        }
    }

    pub(crate) async fn receive(&mut self, room: &mut [u8]) -> Result<(), Failure> {
        match &mut self.transport {
            Transport::Superpipe(connection) => match connection.recv(&mut [&mut *room]).await {
                Ok(_) => Ok(()),
                Err(RecvError::NeedsOwnedBuffer(_)) => {
                    let message = connection.recv_message(room.len()).await.map_err(failed)?;
                    room.copy_from_slice(&message.bytes);
                    connection.recycle(message.bytes);
                    Ok(())
                }
                Err(error) => Err(failed(error)),
            },
            Transport::Unix(stream) => stream.read_exact(room).await.map(drop).map_err(broken),
            Transport::Tcp(stream) => stream.read_exact(room).await.map(drop).map_err(broken),
        }
    }
}

/// Connects one end of each kind.
pub(crate) async fn connect(address: &Address, spin: Duration) -> Result<Vec<End>, Failure> {
    let mut ends = Vec::new();
    for kind in [Kind::Spin, Kind::Armed] {
        let connection = Connection::connect(address, Options::default(), DEADLINE).await.map_err(failed)?;
        ends.push(End::superpipe(connection, kind, spin));
    }
    // The server listens there before it accepts by superpipe.
    let path = unix_path(address);
    ends.push(End::unix(UnixStream::connect(&path).await.map_err(broken)?));
    let port = std::fs::read_to_string(path.with_extension("port")).map_err(broken)?;
    ends.push(End::tcp(TcpStream::connect(port).await.map_err(broken)?)?);
    Ok(ends)
}

pub(crate) fn failed(error: impl core::fmt::Display) -> Failure {
    Failure::Os("use a connection", std::io::Error::other(error.to_string()))
}

pub(crate) fn broken(error: std::io::Error) -> Failure {
    Failure::Os("use a socket", error)
}
