//! Descriptors of registered buffers, which go over the socket. wire.md 7.2.
//!
//! A buffer is one packet `B` with a descriptor. It comes before the control message EXPOSE that names its place. So the packet is there
//! when the buffer is to be mapped. Until then it waits in the socket, or here, if a sleep was about to end: a packet that stayed in the
//! socket would end each sleep at once.
//!
//! Here is one buffer per place at most, so a peer makes this end hold eight descriptors. A further packet breaks the rules, as does any
//! other packet that is no wake byte: then the connection ends. Descriptors of a peer are closed in the background, since their last close
//! can block.

use core::fmt;

use superpipe_core::EXPOSED_MAX;

use super::ancillary::SentFd;
use super::descriptor_passing::Descriptors;
use super::receive_queue::Peeked;
use super::socket::Socket;
use super::socket_error::SocketError;

/// The packet that wakes a sleeping end.
pub(super) const WAKE: [u8; 1] = *b"W";
/// First byte of a packet with a buffer.
pub(super) const BUFFER: u8 = b'B';
/// Bytes of such a packet: `B`, the place, two reserved bytes, and the bytes of the buffer.
const PACKET_BYTES: usize = 8;

/// Buffers that the peer has sent, and that are not mapped.
#[derive(Debug, Default)]
pub(super) struct SentBuffers {
    places: [Option<SentBuffer>; EXPOSED_MAX],
    /// This process has no descriptor left for the packet at the head of the socket's queue.
    is_starved: bool,
    breach: Option<Breach>,
}

/// A buffer that the peer has sent.
#[derive(Debug)]
pub(super) struct SentBuffer {
    /// Bytes, as the peer says.
    pub(super) bytes: u32,
    /// Descriptor, which was not checked.
    pub(super) fd: SentFd,
}

/// The packet at the head of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// None, or the end.
    Nothing,
    /// A wake byte. It is still there.
    Wake,
    /// A buffer, which was taken in.
    Buffer,
    /// A buffer for whose descriptor this process has no room. It is still there.
    Starved,
    /// A packet that breaks a rule. It is still there.
    Breach,
}

/// A packet that the peer must not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breach {
    /// Neither a wake byte nor a buffer.
    Unknown,
    /// A buffer in a place that does not exist, without bytes, or with reserved bytes that are not zero.
    Malformed,
    /// A buffer in a place that holds another one, which was not mapped yet.
    Taken,
    /// A buffer without a descriptor.
    NoDescriptor,
    /// More than one descriptor, or one with a wake byte.
    Descriptors,
}

/// Returns the packet that goes with the descriptor of a buffer.
pub(super) const fn packet(place: u8, bytes: u32) -> [u8; PACKET_BYTES] {
    let [b0, b1, b2, b3] = bytes.to_le_bytes();
    [BUFFER, place, 0, 0, b0, b1, b2, b3]
}

impl SentBuffers {
    /// Takes in the packet at the head of the queue, if it is a buffer.
    pub(super) fn take_next(&mut self, socket: &Socket) -> Next {
        if self.breach.is_some() {
            return Next::Breach;
        }
        // One byte more, to see whether the packet is longer.
        let mut bytes = [0; PACKET_BYTES + 1];
        self.is_starved = false;
        let peeked = match socket.peek(&mut bytes, Descriptors::One) {
            Ok(Some(peeked)) => peeked,
            Ok(None) | Err(SocketError::Closed) => return Next::Nothing,
            Err(_) => return self.broken(Breach::Unknown),
        };
        let packet = bytes.get(..peeked.bytes).unwrap_or(&[]);
        match self.judge(packet, peeked, socket) {
            Ok(next) => next,
            Err(breach) => self.broken(breach),
        }
    }

    fn judge(&mut self, packet: &[u8], peeked: Peeked, socket: &Socket) -> Result<Next, Breach> {
        let Peeked { is_truncated, fd, has_more_fds, .. } = peeked;
        if has_more_fds && fd.is_none() && packet.first() == Some(&BUFFER) {
            self.is_starved = true;
            return Ok(Next::Starved);
        }
        let carries = fd.is_some() || has_more_fds;
        if packet == WAKE {
            return if carries { Err(Breach::Descriptors) } else { Ok(Next::Wake) };
        }
        if packet.is_empty() && !is_truncated {
            return if carries || !socket.has_ended() { Err(Breach::Unknown) } else { Ok(Next::Nothing) };
        }
        let &[BUFFER, place, zero, zeros, b0, b1, b2, b3] = packet else { return Err(Breach::Unknown) };
        let bytes = u32::from_le_bytes([b0, b1, b2, b3]);
        if has_more_fds {
            return Err(Breach::Descriptors);
        }
        let fd = fd.ok_or(Breach::NoDescriptor)?;
        let to = self.places.get_mut(usize::from(place)).filter(|_| bytes > 0 && (zero, zeros) == (0, 0));
        let to = to.ok_or(Breach::Malformed)?;
        if to.is_some() {
            return Err(Breach::Taken);
        }
        *to = Some(SentBuffer { bytes, fd });
        socket.discard_head();
        Ok(Next::Buffer)
    }

    const fn broken(&mut self, breach: Breach) -> Next {
        self.breach = Some(breach);
        Next::Breach
    }

    /// Returns the buffer that was sent for a place.
    pub(super) fn take(&mut self, place: u8) -> Option<SentBuffer> {
        self.places.get_mut(usize::from(place))?.take()
    }

    /// Returns true if a buffer waits in the socket until this process has a descriptor for it.
    pub(super) const fn is_starved(&self) -> bool {
        self.is_starved
    }

    /// Returns the packet that broke a rule, if one did.
    pub(super) const fn breach(&self) -> Option<Breach> {
        self.breach
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the peer sent ")?;
        f.write_str(match self {
            Self::Unknown => "a packet that is neither a wake byte nor a buffer",
            Self::Malformed => "a buffer in a place that does not exist, or without bytes",
            Self::Taken => "a buffer in a place whose buffer was not mapped yet",
            Self::NoDescriptor => "a buffer without its descriptor",
            Self::Descriptors => "a packet with more descriptors than it may carry",
        })?;
        f.write_str(" (wire.md 7.2)")
    }
}

#[cfg(test)]
mod tests;
