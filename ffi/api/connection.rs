//! A connection.

use core::fmt;
use core::time::Duration;
use std::thread;

use superpipe_core::{
    Counters, End, Endpoint, Event, Incoming, Length, Protocol, Reason, RefusedSend, TransferId, TryRecv,
};

use super::address::Address;
use super::blocking::Lender;
use super::budget::Budget;
use super::cold::Cold;
use super::deadline::Deadline;
use super::error::{Error, ErrorKind};
use super::options::Options;
use super::streams::{RecvStream, SendStream};
use super::transport::Transport;
use crate::os::{WaitStrategy, monotonic_ns};
use crate::port::Port;
use crate::shm::fabric::{Shm, segment_bytes};
use crate::shm::handshake::{self, Agreed, HandshakeError};
use crate::shm::{ConnectError, PeerCred, ShmAddress, Socket};
use crate::tuning::Settled;

/// Looks for a message before anything else is done: a microsecond or two, the time of an answer from a near core.
const TRIES: u32 = 64;
/// The same, while it is waited for and other things are looked at, too.
const TRIES_IN_A_WAIT: u32 = 1;
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(20);
/// For good-byes.
const GOODBYE: Duration = Duration::from_secs(1);

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The sender's tag.
    pub tag: u64,
    /// Its bytes.
    pub bytes: usize,
}

/// What a connection runs on, for reports.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The fabric.
    pub fabric: &'static str,
    /// What was settled with the peer.
    pub settled: Settled,
    /// Bytes of memory that this end provisioned.
    pub provisioned_bytes: u64,
}

/// One end of a connection.
///
/// Messages and streams of one direction arrive in the order in which they were sent; the two directions are
/// independent. A message that nobody receives holds its blocks, and then the sender waits: two ends that both only send
/// will both meet their deadlines.
///
/// Dropped, it says good-bye to the peer, who can still receive everything that was sent.
pub struct Connection<P: Port = Shm> {
    /// Away while it is lent.
    transport: Option<Box<Transport<P>>>,
    lender: Lender<P>,
    description: Description,
    peer: Option<PeerCred>,
    _budget: Budget,
}

impl Connection {
    /// Connects to a listener; where nobody listens yet, again and again until the deadline.
    ///
    /// # Errors
    /// The last cause: `Connect`, `Auth`, `Version`, `Protocol`, `Usage` (wishes that contradict each other), `Limit`,
    /// `Timeout`, `Interrupted`.
    pub fn connect(
        address: &Address,
        options: Options,
        deadline: impl Into<Deadline>,
    ) -> Result<Self, Error> {
        let deadline_ns = deadline.into().at_ns();
        options.tuning.validate().map_err(|text| Error::new(ErrorKind::Usage, text))?;
        let shm = address.shm().map_err(|error| Error::new(ErrorKind::Connect, error.to_string()))?;
        loop {
            let (error, again) = match Self::connect_once(address, &shm, options, deadline_ns) {
                Ok(connection) => return Ok(connection),
                Err(result) => result,
            };
            if options.is_interrupted() {
                return Err(Error::interrupted());
            }
            if !again || monotonic_ns() >= deadline_ns {
                return Err(error);
            }
            thread::sleep(RETRY);
        }
    }

    /// One attempt; an error, and whether a moment later there may be none.
    fn connect_once(
        address: &Address,
        shm: &ShmAddress,
        options: Options,
        deadline_ns: u64,
    ) -> Result<Self, (Error, bool)> {
        let path = shm.socket_path().map_err(|error| (error.into(), false))?;
        let socket = Socket::connect(&path).map_err(|error| {
            let again =
                matches!(error, ConnectError::NotFound(_) | ConnectError::Refused(_) | ConnectError::Busy(_));
            (error.into(), again)
        })?;
        let met = || {
            check_peer(&socket, address)?;
            let interrupted = || options.is_interrupted();
            let agreed = handshake::connect(&socket, &options.tuning, deadline_ns, &interrupted)?;
            let mut connection = Self::on_shm(socket, agreed, options)?;
            connection.warm_up(true, deadline_ns)?;
            Ok(connection)
        };
        // Whoever listens may have ended between the two.
        met().map_err(|error: Error| {
            let again = error.kind() == ErrorKind::PeerLost;
            (error, again)
        })
    }

    /// The listening side's half, on a socket that was accepted. `None`: whoever it was went away without a word.
    pub(super) fn accept(socket: Socket, address: &Address, options: Options) -> Result<Option<Self>, Error> {
        check_peer(&socket, address)?;
        let deadline_ns = Deadline::from(options.handshake_timeout).at_ns();
        let interrupted = || options.is_interrupted();
        match handshake::accept(
            &socket,
            &options.tuning,
            options.landing_bytes_max,
            deadline_ns,
            &interrupted,
        ) {
            Err(HandshakeError::Nobody) => Ok(None),
            agreed => {
                let mut connection = Self::on_shm(socket, agreed?, options)?;
                connection.warm_up(false, deadline_ns)?;
                Ok(Some(connection))
            }
        }
    }

    pub(super) fn on_shm(socket: Socket, agreed: Agreed, options: Options) -> Result<Self, Error> {
        let Agreed { mine, theirs, settled, fenced } = agreed;
        let provisioned_bytes = u64::from(segment_bytes(settled.layout));
        let budget = Budget::take(provisioned_bytes)?;
        let peer = socket.peer_cred().ok();
        let port = Shm::new();
        let attachment = Shm::attach(mine, theirs, settled.layout, socket, fenced);
        let endpoint = Endpoint::new(&port, attachment, settled.config, superpipe_core::Origin::default())
            .map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
        Ok(Self {
            transport: Some(Box::new(Transport::new(endpoint, port, options))),
            lender: Lender::new(),
            description: Description { fabric: Shm::NAME, settled, provisioned_bytes },
            peer,
            _budget: budget,
        })
    }

    /// The peer's process, where the kernel tells.
    #[must_use]
    pub const fn peer(&self) -> Option<PeerCred> {
        self.peer
    }
}

/// On a port of this host both ends belong to one user.
fn check_peer(socket: &Socket, address: &Address) -> Result<(), Error> {
    let peer = socket.peer_cred()?;
    // SAFETY: takes nothing, gives a number, and cannot fail.
    let own = unsafe { libc::geteuid() };
    if address.is_private() && peer.uid != own {
        return Err(Error::new(
            ErrorKind::Auth,
            format!(
                "the peer belongs to user {}, this process to user {own}; between users use shm:PATH, \
                 and let the other open that socket",
                peer.uid
            ),
        ));
    }
    Ok(())
}

impl<P: Port> Connection<P> {
    #[inline]
    pub(super) fn transport(&mut self) -> &mut Transport<P> {
        match &mut self.transport {
            Some(transport) => transport,
            None => unreachable!("it is lent only inside `blocking`, which borrows the connection"),
        }
    }

    /// Sends a message, gathered from slices; returns when the caller may use them again. The receiver has it then, or
    /// will.
    ///
    /// # Errors
    /// `Timeout`: the receiver took nothing in, the message was given up, and the connection can still be used.
    /// `Rejected`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    #[inline]
    pub fn send(&mut self, tag: u64, slices: &[&[u8]], deadline: impl Into<Deadline>) -> Result<(), Error> {
        let transport = self.transport();
        match transport.endpoint.try_send(&mut transport.port, tag, slices) {
            Ok(_) => Ok(()),
            Err(refused) => self.send_slowly(tag, slices, refused, deadline.into()),
        }
    }

    #[cold]
    fn send_slowly(
        &mut self,
        tag: u64,
        slices: &[&[u8]],
        mut refused: RefusedSend,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let transport = self.transport();
        if matches!(refused, RefusedSend::NoCredit | RefusedSend::Busy) {
            refused = match transport.wait(deadline, |endpoint, port| {
                let sent = endpoint.try_send(port, tag, slices);
                (!matches!(sent, Err(RefusedSend::NoCredit | RefusedSend::Busy))).then_some(sent)
            })? {
                Ok(_) => return Ok(()),
                Err(refused) => refused,
            };
        }
        if refused != RefusedSend::TooLong {
            return Err(self.refused(refused));
        }
        let bytes = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let id = self.start(tag, Length::Exact(bytes as u64), deadline)?;
        let transport = self.transport();
        let mut sent = 0;
        let result = transport.wait(deadline, |endpoint, port| {
            loop {
                match endpoint.push_from(port, id, slices, sent) {
                    Ok(0) if bytes > 0 => return None,
                    Ok(pushed) => sent += pushed,
                    Err(refused) => return Some(Err(refused)),
                }
                if sent == bytes {
                    return Some(Ok(()));
                }
            }
        });
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(refused)) => Err(self.refused(refused)),
            Err(error) => {
                self.give_up(id, Reason::GIVEN_UP);
                Err(error)
            }
        }
    }

    /// Starts a transfer, once the one before has been told to the peer.
    pub(super) fn start(
        &mut self,
        tag: u64,
        length: Length,
        deadline: Deadline,
    ) -> Result<TransferId, Error> {
        let started = self.transport().wait(deadline, |endpoint, _| {
            let started = endpoint.start(tag, length);
            (started != Err(RefusedSend::Busy)).then_some(started)
        })?;
        started.map_err(|refused| self.refused(refused))
    }

    pub(super) fn give_up(&mut self, id: TransferId, reason: Reason) {
        let transport = self.transport();
        // It may have ended meanwhile: then there is nothing to give up.
        let _ = transport.endpoint.cancel(&mut transport.port, id, reason);
    }

    /// Why a sending call was refused for good.
    pub(super) fn refused(&mut self, refused: RefusedSend) -> Error {
        let transport = self.transport();
        match (refused, transport.endpoint.closed()) {
            (RefusedSend::Rejected(reason), _) => Error::rejected(reason),
            (RefusedSend::Closed, Some(closed)) => Error::closed(closed),
            _ => Error::new(ErrorKind::Usage, refused.to_string()),
        }
    }

    /// Receives the next message whole, scattered into slices.
    ///
    /// # Errors
    /// `TooSmall`: the message is longer than the slices together, or a stream; it is still there. `Timeout`: what came of
    /// it is lost if it had begun, and the rest is rejected. `Cancelled`, `Closed`, `PeerLost`, `Protocol`, `Device`,
    /// `Interrupted`.
    #[inline]
    pub fn recv_into(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        let transport = self.transport();
        let begun = match transport.endpoint.try_recv(&mut transport.port, slices, TRIES) {
            TryRecv::Taken { tag, bytes } => return Ok(Received { tag, bytes }),
            TryRecv::Begun { tag, bytes } => Some(Received { tag, bytes }),
            TryRecv::Nothing | TryRecv::Other => None,
        };
        self.recv_slowly(slices, begun, deadline.into(), false)
    }

    /// Waits for the next message, and takes it block by block; into cold memory with care.
    #[cold]
    #[inline(never)]
    pub(super) fn recv_slowly(
        &mut self,
        slices: &mut [&mut [u8]],
        begun: Option<Received>,
        deadline: Deadline,
        is_cold: bool,
    ) -> Result<Received, Error> {
        let mut cold = None;
        let room = slices.iter().map(|slice| slice.len()).sum::<usize>() as u64;
        let mut tag = begun.map(|begun| begun.tag);
        let mut bytes = begun.map_or(0, |begun| begun.bytes);
        let transport = self.transport();
        let result = transport.wait(deadline, |endpoint, port| {
            if tag.is_none() {
                // Cold memory is prepared before it is written.
                let found =
                    if is_cold { TryRecv::Other } else { endpoint.try_recv(port, slices, TRIES_IN_A_WAIT) };
                match found {
                    TryRecv::Nothing => return None,
                    TryRecv::Taken { tag: its, bytes: all } => {
                        (tag, bytes) = (Some(its), all);
                        return Some(Ok(()));
                    }
                    TryRecv::Begun { tag: its, bytes: some } => {
                        (tag, bytes) = (Some(its), some);
                        return None;
                    }
                    TryRecv::Other => {}
                }
                let incoming = endpoint.incoming(port)?;
                match incoming.length {
                    Length::Exact(length) if length <= room => {
                        tag = Some(incoming.tag);
                        cold = is_cold.then(|| Cold::new(usize::try_from(length).unwrap_or(usize::MAX)));
                    }
                    length => return Some(Err(too_small(length, room))),
                }
            }
            let pulled = match &mut cold {
                None => endpoint.pull_from(port, slices, bytes),
                Some(cold) => cold.pull(endpoint, port, slices),
            };
            bytes += pulled.bytes;
            match pulled.end {
                End::No => None,
                End::Fin => Some(Ok(())),
                End::Cancelled(reason) => Some(Err(Error::cancelled(reason))),
            }
        });
        match result {
            Ok(Ok(())) => Ok(Received { tag: tag.unwrap_or_default(), bytes }),
            Ok(Err(error)) => Err(error),
            Err(error) => {
                if tag.is_some() {
                    transport.endpoint.reject(&mut transport.port, Reason::GIVEN_UP);
                }
                Err(error)
            }
        }
    }

    /// Waits for the next transfer, and leaves it there.
    ///
    /// # Errors
    /// `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn incoming(&mut self, deadline: impl Into<Deadline>) -> Result<Incoming, Error> {
        self.transport().wait(deadline.into(), |endpoint, port| endpoint.incoming(port))
    }

    /// Refuses the transfer at the head. False if there is none.
    pub fn reject(&mut self, reason: Reason) -> bool {
        let transport = self.transport();
        transport.endpoint.reject(&mut transport.port, reason)
    }

    /// Opens a stream: a transfer whose length shows when it ends.
    ///
    /// # Errors
    /// `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn send_stream(&mut self, tag: u64) -> Result<SendStream<'_, P>, Error> {
        let id = self.start(tag, Length::Stream, Deadline::NONE)?;
        Ok(SendStream::new(self, id))
    }

    /// Waits for the next transfer, to be received as a stream whatever its length.
    ///
    /// # Errors
    /// `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn recv_stream(&mut self, deadline: impl Into<Deadline>) -> Result<RecvStream<'_, P>, Error> {
        let incoming = self.incoming(deadline)?;
        Ok(RecvStream::new(self, incoming))
    }

    /// Waits until the peer has taken out all that was sent, and said so. It says so when a message of more than 40
    /// bytes or a stream ends; of the last few smaller ones at its next wait, progress or close.
    ///
    /// # Errors
    /// `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn flush(&mut self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        self.transport().wait(deadline.into(), |endpoint, _| endpoint.delivered().then_some(()))
    }

    /// Runs `work`, which may be blocked for long (a disk, another service), while a helper thread shows the peer that
    /// this end lives. The first call makes the thread.
    pub fn blocking<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.lender.lend(&mut self.transport, work)
    }

    /// Closes. With [`Reason::DONE`] the peer can take out what was sent before it sees the end; with another reason it
    /// sees that at once.
    ///
    /// # Errors
    /// `Timeout` where the peer could not even be told.
    pub fn close(mut self, reason: Reason, deadline: impl Into<Deadline>) -> Result<(), Error> {
        self.transport().close(reason, deadline.into())
    }

    /// One round of progress, for a program with a loop of its own. Whether anything was done.
    pub fn progress(&mut self) -> bool {
        let transport = self.transport();
        transport.endpoint.progress(&mut transport.port) > 0
    }

    /// What happened without being asked for.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.transport().endpoint.poll_event()
    }

    /// Sets the protocol of the transfers started from now on.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.transport().endpoint.set_protocol(protocol);
    }

    /// Sets how to wait from now on.
    pub fn set_wait(&mut self, wait: WaitStrategy) {
        self.transport().set_wait(wait);
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&mut self) -> Counters {
        self.transport().endpoint.counters()
    }

    /// What it runs on.
    #[must_use]
    pub const fn describe(&self) -> Description {
        self.description
    }
}

fn too_small(length: Length, room: u64) -> Error {
    let text = match length {
        Length::Exact(bytes) => {
            format!("the message has {bytes} bytes and the buffer {room}: receive it into a larger one")
        }
        Length::Stream => "a stream comes next, not a message: receive it with recv_stream".into(),
    };
    Error::new(ErrorKind::TooSmall, text)
}

impl<P: Port> Drop for Connection<P> {
    fn drop(&mut self) {
        if let Some(transport) = &mut self.transport {
            // Nobody is left to be told that the peer could not be.
            let _ = transport.close(Reason::DONE, GOODBYE.into());
        }
    }
}

impl<P: Port> fmt::Debug for Connection<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("description", &self.description)
            .field("peer", &self.peer)
            .finish()
    }
}
