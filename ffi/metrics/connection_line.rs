//! Line of a connection.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use superpipe_core::{Arrival, Counters, Protocol};

use super::words::{LineWords, Malformed, Packer, Unpacker, counters_as_words};
use crate::description::Peer;
use crate::fabric::shm::PeerCred;

/// End of a connection that this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It connected.
    Connected,
    /// It accepted.
    Accepted,
}

/// State of a connection, as its process saw it when the line was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Both ends may send.
    Open,
    /// The peer's CLOSE arrived, and what it sent before is still being taken out.
    PeerCloses,
    /// This end has closed.
    ClosedHere,
    /// The peer has closed.
    ClosedByPeer,
    /// The peer broke a rule, or the device failed.
    Failed,
    /// The peer is gone without closing.
    PeerLost,
}

/// Counts of a connection since it was made. They wrap. [`Counters`] has more, for the process itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionCounts {
    /// Transfers, messages and streams, of which something was sent.
    pub transfers_sent: u64,
    /// Transfers of which something was received.
    pub transfers_received: u64,
    /// Messages among them that left in a slot line: up to 104 bytes over shared memory, up to 40 over RDMA.
    pub inline_sent: u64,
    /// Messages that came in a slot line.
    pub inline_received: u64,
    /// Payload bytes sent, except those of messages in a slot line, which nothing counts.
    pub bytes_sent: u64,
    /// Payload bytes received, except those of messages in a slot line.
    pub bytes_received: u64,
    /// Payload bytes among those sent that a device wrote out of the application's memory into that of the peer's.
    pub remote_bytes_sent: u64,
    /// Payload bytes among those received that came so.
    pub remote_bytes_received: u64,
    /// Payload bytes among those sent that the peer copies straight out of registered buffers.
    pub exposed_bytes_sent: u64,
    /// Payload bytes among those received that were copied so.
    pub exposed_bytes_received: u64,
    /// Payload bytes among those sent that this end wrote into trusted buffers of the peer.
    pub split_bytes_sent: u64,
    /// Payload bytes among those received that came so.
    pub split_bytes_received: u64,
    /// Remote writes posted.
    pub remote_writes: u64,
    /// Times that a sender found no free block, because the receiver has not consumed enough.
    pub credit_waits: u64,
    /// Times that a sender waited for a CTS.
    pub cts_waits: u64,
    /// Work requests that found the send queue full.
    pub queue_full: u64,
    /// Larger landing buffers of the peer that this end asked for.
    pub growths_asked: u64,
    /// Larger landing buffers that the peer refused, or that this end could not use.
    pub growths_refused: u64,
    /// Larger landing buffers that this end provisioned for its peer.
    pub growths: u64,
    /// Growths that this end refused its peer.
    pub refusals: u64,
    /// Times that this end asked its peer to leave a larger landing buffer.
    pub shrinks: u64,
    /// Transfers of this end that ended by a CANCEL.
    pub cancels_sent: u64,
    /// Transfers of the peer that ended so.
    pub cancels_received: u64,
    /// Transfers of the peer that this end rejected.
    pub rejects_sent: u64,
    /// Transfers of this end that the peer rejected.
    pub rejects_received: u64,
    /// Keepalives sent.
    pub keepalives_sent: u64,
    /// Looks at the peer's acknowledgements that found another keepalive.
    pub keepalives_received: u64,
    /// Messages whose memory was registered before.
    pub registrations_hit: u64,
    /// Messages for which a registration had to begin, or which went another way.
    pub registrations_missed: u64,
    /// Registrations among them that failed.
    pub registrations_failed: u64,
}

counters_as_words!(
    ConnectionCounts: transfers_sent, transfers_received, inline_sent, inline_received, bytes_sent, bytes_received,
    remote_bytes_sent, remote_bytes_received, exposed_bytes_sent, exposed_bytes_received, split_bytes_sent,
    split_bytes_received, remote_writes, credit_waits, cts_waits, queue_full, growths_asked, growths_refused, growths,
    refusals, shrinks, cancels_sent, cancels_received, rejects_sent, rejects_received, keepalives_sent,
    keepalives_received, registrations_hit, registrations_missed, registrations_failed,
);

/// A connection, as its process copied it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionLine {
    /// Number of the connection, which no other one of its process has.
    pub number: u64,
    /// Fabric, by the scheme of its addresses: `shm` or `verbs`.
    pub fabric: &'static str,
    /// End that the process is.
    pub role: Role,
    /// Peer, in the namespaces of the process.
    pub peer: Peer,
    /// State of the connection.
    pub state: State,
    /// Protocol of transfers that both ends agreed on.
    pub protocol: Protocol,
    /// Arrival mode.
    pub arrival: Arrival,
    /// Time at which the connection was made: nanoseconds of the monotonic clock, as the other times.
    pub made_at_ns: u64,
    /// Time at which this line was copied.
    pub copied_at_ns: u64,
    /// Time of the first copy that found the peer's newest activity: the peer was active at that time or up to one copy earlier.
    pub active_at_ns: u64,
    /// Bytes of the process's budget that the connection took when it began.
    pub provisioned_bytes: u64,
    /// Bytes of all blocks of a landing buffer; of the largest one, if landing is on demand.
    pub landing_max_bytes: u64,
    /// Bytes of landing buffers for the peer now, beside the one that the connection began with.
    pub landing_bytes: u64,
    /// Most of these bytes at a time.
    pub landing_peak_bytes: u64,
    /// Bytes of the peer's memory that are mapped now.
    pub mapped_bytes: u64,
    /// Bytes of the peer's landing buffer that this end cycles through.
    pub window_bytes: u64,
    /// What was counted.
    pub counts: ConnectionCounts,
}

impl From<&Counters> for ConnectionCounts {
    fn from(counters: &Counters) -> Self {
        Self {
            transfers_sent: counters.transfers_sent,
            transfers_received: counters.transfers_received,
            inline_sent: counters.inline_sent,
            inline_received: counters.inline_received,
            bytes_sent: counters.bytes_sent,
            bytes_received: counters.bytes_received,
            remote_bytes_sent: counters.remote_bytes_sent,
            remote_bytes_received: counters.remote_bytes_received,
            exposed_bytes_sent: counters.exposed_bytes_sent,
            exposed_bytes_received: counters.exposed_bytes_received,
            split_bytes_sent: counters.split_bytes_sent,
            split_bytes_received: counters.split_bytes_received,
            remote_writes: counters.remote_writes,
            credit_waits: counters.credit_waits,
            cts_waits: counters.cts_waits,
            queue_full: counters.sq_full,
            growths_asked: counters.growths_asked,
            growths_refused: counters.growths_refused,
            growths: counters.growths,
            refusals: counters.refusals.iter().fold(0, |sum, count| sum.wrapping_add(*count)),
            shrinks: counters.shrinks,
            cancels_sent: counters.cancels_sent,
            cancels_received: counters.cancels_received,
            rejects_sent: counters.rejects_sent,
            rejects_received: counters.rejects_received,
            keepalives_sent: counters.keepalives_sent,
            keepalives_received: counters.keepalives_received,
            registrations_hit: counters.registrations_hit,
            registrations_missed: counters.registrations_missed,
            registrations_failed: counters.registrations_failed,
        }
    }
}

impl Role {
    const ALL: [Self; 2] = [Self::Connected, Self::Accepted];

    /// Returns the role of the end that `connects`, or of the other.
    pub(crate) const fn of(connects: bool) -> Self {
        if connects { Self::Connected } else { Self::Accepted }
    }

    /// Returns the name of the role.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Accepted => "accepted",
        }
    }
}

impl State {
    pub(super) const ALL: [Self; 6] =
        [Self::Open, Self::PeerCloses, Self::ClosedHere, Self::ClosedByPeer, Self::Failed, Self::PeerLost];

    /// Returns the name of the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::PeerCloses => "peer-closes",
            Self::ClosedHere => "closed-here",
            Self::ClosedByPeer => "closed-by-peer",
            Self::Failed => "failed",
            Self::PeerLost => "peer-lost",
        }
    }
}

/// Fabrics, by their numbers in a line.
const FABRICS: [&str; 2] = ["shm", "verbs"];
/// Arrival modes, by their numbers in a line.
const ARRIVALS: [Arrival; 3] = [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify];

impl ConnectionLine {
    pub(super) fn to_words(self) -> LineWords {
        let mut packer = Packer::new();
        packer
            .put(self.number)
            .put(place(&FABRICS, &self.fabric))
            .put(place(&Role::ALL, &self.role))
            .put(place(&State::ALL, &self.state))
            .put(place(&Protocol::ALL, &self.protocol))
            .put(place(&ARRIVALS, &self.arrival));
        pack_peer(&mut packer, self.peer);
        packer
            .put(self.made_at_ns)
            .put(self.copied_at_ns)
            .put(self.active_at_ns)
            .put(self.provisioned_bytes)
            .put(self.landing_max_bytes)
            .put(self.landing_bytes)
            .put(self.landing_peak_bytes)
            .put(self.mapped_bytes)
            .put(self.window_bytes);
        self.counts.pack(&mut packer);
        packer.finish()
    }

    /// Reads a line. `None`: no connection has it now.
    pub(super) fn of_words(words: &[u64]) -> Result<Option<Self>, Malformed> {
        let mut from = Unpacker::new(words);
        let number = from.take();
        if number == 0 {
            return Ok(None);
        }
        Ok(Some(Self {
            number,
            fabric: at(&FABRICS, from.take(), "a fabric")?,
            role: at(&Role::ALL, from.take(), "a role")?,
            state: at(&State::ALL, from.take(), "a state")?,
            protocol: at(&Protocol::ALL, from.take(), "a protocol")?,
            arrival: at(&ARRIVALS, from.take(), "an arrival mode")?,
            peer: unpack_peer(&mut from)?,
            made_at_ns: from.take(),
            copied_at_ns: from.take(),
            active_at_ns: from.take(),
            provisioned_bytes: from.take(),
            landing_max_bytes: from.take(),
            landing_bytes: from.take(),
            landing_peak_bytes: from.take(),
            mapped_bytes: from.take(),
            window_bytes: from.take(),
            counts: ConnectionCounts::unpack(&mut from),
        }))
    }
}

/// Returns the number that stands for a value.
fn place<T: PartialEq>(all: &[T], value: &T) -> u64 {
    // One that is not there is a bug, and is shown as what no reader knows.
    all.iter().position(|one| one == value).map_or(u64::MAX, |place| place as u64)
}

fn at<T: Copy>(all: &[T], number: u64, what: &'static str) -> Result<T, Malformed> {
    usize::try_from(number).ok().and_then(|number| all.get(number).copied()).ok_or(Malformed(what))
}

/// Numbers of the kinds of peers.
const PROCESS: u64 = 1;
const HOST_V4: u64 = 2;
const HOST_V6: u64 = 3;
const UNKNOWN: u64 = 4;

fn pack_peer(packer: &mut Packer, peer: Peer) {
    match peer {
        Peer::Process(PeerCred { pid, uid, gid }) => {
            packer.put(PROCESS).put(u64::from(pid)).put(u64::from(uid)).put(u64::from(gid))
        }
        Peer::Host(address) => {
            let (kind, bytes) = match address.ip() {
                IpAddr::V4(ip) => (HOST_V4, ip.to_ipv6_mapped().octets()),
                IpAddr::V6(ip) => (HOST_V6, ip.octets()),
            };
            packer.put(kind).put(u64::from(address.port())).put_bytes(bytes)
        }
        Peer::Unknown => packer.put(UNKNOWN).put(0).put(0).put(0),
    };
}

fn unpack_peer(from: &mut Unpacker<'_>) -> Result<Peer, Malformed> {
    let number = |word: u64| u32::try_from(word).map_err(|_| Malformed("a process"));
    let (kind, first) = (from.take(), from.take());
    if kind == PROCESS {
        let (pid, uid) = (number(first)?, number(from.take())?);
        return Ok(Peer::Process(PeerCred { pid, uid, gid: number(from.take())? }));
    }
    let bytes = from.take_bytes();
    let port = || u16::try_from(first).map_err(|_| Malformed("a port"));
    match kind {
        HOST_V4 => {
            let [.., a, b, c, d] = bytes;
            Ok(Peer::Host(SocketAddr::new(Ipv4Addr::new(a, b, c, d).into(), port()?)))
        }
        HOST_V6 => Ok(Peer::Host(SocketAddr::new(Ipv6Addr::from(bytes).into(), port()?))),
        UNKNOWN => Ok(Peer::Unknown),
        _ => Err(Malformed("a peer")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A line in which every field has another value.
    pub(in crate::metrics) fn line(number: u64) -> ConnectionLine {
        let mut words = [0; 30];
        words.iter_mut().zip(100 * number..).for_each(|(word, value)| *word = value);
        ConnectionLine {
            number,
            fabric: "verbs",
            role: Role::Accepted,
            peer: Peer::Host("10.1.2.3:456".parse().unwrap()),
            state: State::ClosedByPeer,
            protocol: Protocol::Auto,
            arrival: Arrival::Notify,
            made_at_ns: 1,
            copied_at_ns: 2,
            active_at_ns: 3,
            provisioned_bytes: 4,
            landing_max_bytes: 5,
            landing_bytes: 6,
            landing_peak_bytes: 7,
            mapped_bytes: 8,
            window_bytes: 9,
            counts: ConnectionCounts::unpack(&mut Unpacker::new(&words)),
        }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let process = Peer::Process(PeerCred { pid: 7, uid: 8, gid: u32::MAX });
        for peer in [process, Peer::Host("[fe80::1:2]:65535".parse().unwrap()), Peer::Unknown, line(1).peer] {
            let line = ConnectionLine { peer, ..line(9) };
            assert_eq!(ConnectionLine::of_words(&line.to_words()), Ok(Some(line)));
        }
        for state in State::ALL {
            let line = ConnectionLine { state, fabric: "shm", role: Role::Connected, ..line(9) };
            assert_eq!(ConnectionLine::of_words(&line.to_words()), Ok(Some(line)));
        }
        let named: Vec<_> = line(9).counts.named().collect();
        assert_eq!(named.first(), Some(&("transfers_sent", 900)));
        assert_eq!(named.last(), Some(&("registrations_failed", 929)));
    }

    #[test]
    fn a_line_without_a_number_is_nobodys() {
        assert_eq!(ConnectionLine::of_words(&ConnectionLine { number: 0, ..line(9) }.to_words()), Ok(None));
    }

    #[test]
    fn numbers_that_stand_for_nothing_are_refused() {
        for (word, what) in [
            (1, "a fabric"),
            (2, "a role"),
            (3, "a state"),
            (4, "a protocol"),
            (5, "an arrival mode"),
            (6, "a peer"),
        ] {
            for wrong in [99, u64::MAX] {
                let mut words = line(9).to_words();
                words[word] = wrong;
                assert_eq!(ConnectionLine::of_words(&words), Err(Malformed(what)));
            }
        }
        let mut words = line(9).to_words();
        words[7] = 1 << 16;
        assert_eq!(ConnectionLine::of_words(&words), Err(Malformed("a port")));
    }
}
