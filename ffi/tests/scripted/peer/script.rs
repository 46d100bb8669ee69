//! Scripts of a peer, as data.

use core::net::SocketAddr;
use std::path::PathBuf;

use super::size;

/// Steps, in their order. After the last the peer stalls until this end is done with it.
pub(crate) type Script = &'static [Step];

/// Which end the peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Connects,
    Listens,
}

/// Place where the two ends meet.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Shm(PathBuf),
    Rdma(SocketAddr),
}

/// Bytes of a packet that are other than they should be: where, and which.
pub(crate) type Patch = (usize, &'static [u8]);

/// Kinds of packets (wire.md 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hello = 1,
    Welcome = 2,
    Grant = 3,
    Ready = 4,
    Refused = 5,
}

/// Ancillary data of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    Nothing,
    /// a segment as wire.md 6.4 wants it
    Segment,
    /// a sparse segment as 6.4 wants it
    Sparse,
    /// the same, with a hole in it
    Holed,
    /// the same, twice
    Two,
    /// memory that breaks a rule of 6.4
    Unsealed,
    Small,
    Large,
    ReadOnly,
    WriteSealed,
    /// a sparse segment that breaks one
    SmallSparse,
    LargeSparse,
    HeldSparse,
    /// a registered buffer of 128 KiB as wire.md 6.4 wants it, with a message of tag 1 in it
    Buffer,
    /// the same, which can be mapped for writing
    OpenBuffer,
    /// the same, a page shorter, or longer
    SmallBuffer,
    LargeBuffer,
    SmallOpenBuffer,
    /// no memory
    DevNull,
    Pipe,
    Socket,
}

/// A number of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    /// This one.
    Number(u64),
    /// The newest that its sender began, and so many more.
    Newest(u64),
}

/// A flood: one action, repeated as fast as possible, beside the acknowledgements that are due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flood {
    /// REJECT of transfer 1, which is over: one on the way at a time.
    Rejects,
    /// CTS of transfer 1: eight on the way.
    Cts,
    /// Wake bytes in the socket.
    Wakes,
    /// Signs of life.
    Life,
    /// Acknowledgements of what was taken, again and again.
    Acks,
    /// Chunks of one byte of the open transfer, which never ends.
    Chunks,
    /// The same, of bytes that mean nothing: from the second time round the ring on only the flags are written.
    Flags,
    /// The same, in chunks of a block.
    Blocks,
    /// Takes all that comes at once, and reads none of it.
    Takes,
    /// A sign of life every 50 ms, and nothing else.
    Patience,
    /// Clears the word that says that this end's peer sleeps, and never wakes it.
    Lulls,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Connects. Sockets that it had before stay open.
    Connect,
    /// Accepts a connection.
    Accept,
    /// Accepts connections and closes them, as long as any come.
    AcceptAndClose,
    /// Sends a packet.
    Send(Kind, &'static [Patch], Carry),
    /// Sends bytes that are no packet.
    Raw(&'static [u8], Carry),
    /// Sends a packet of so many bytes.
    Huge(usize),
    /// Wake bytes, as a count, with a pause of milliseconds after each.
    Wakes(u32, u64),
    /// Receives a packet of this kind.
    Expect(Kind),
    /// The whole set-up in good faith.
    Meet,
    /// The same with wishes in HELLO, or in WELCOME.
    MeetWith(&'static [Patch]),
    /// Exchanges of the warm-up in good faith, as a count.
    Warm(u32),
    /// All that is left of it.
    WarmUp,
    /// A message of this tag and length in good faith.
    Message(u64, usize),
    /// A stream, too.
    Stream(u64, usize),
    /// The first bytes of a message: tag, its length, bytes that come.
    Part(u64, u64, usize),
    /// The first bytes of a stream: tag, bytes that come.
    Flow(u64, usize),
    /// The next bytes of the open transfer; true: the last.
    More(usize, bool),
    /// A message, of which a sleeping peer is not told.
    Mute(u64, usize),
    /// Leaves out so many sequences of chunks.
    Skip(u64),
    /// Tries to take the pages of both segments away, which must be refused.
    Tamper,
    /// Takes the pages of both sparse segments away.
    Punch,
    /// Waits for a control message of this kind, and takes it.
    Hear(u64),
    /// Takes a transfer in good faith.
    Take,
    /// Takes chunks, so many, in good faith.
    TakeChunks(u32),
    /// Waits for a chunk that begins a transfer, and learns its number; takes nothing.
    Notification,
    /// Words 0 to 6 of the next slot line, with the flag that is awaited; word 4 becomes the number. Takes so many blocks.
    Slot([u64; 7], Of, u64),
    /// A slot line whose header changes without end between these two, with the flag that is awaited.
    Unsteady([u64; 7], [u64; 7]),
    /// Words 0 to 6 of the next control line; word 1 becomes the number, counted in transfers of this end's peer.
    Control([u64; 7], Of),
    /// CLOSE with `last` so many chunks after the newest (or before it), and the reason.
    Close(i64, u64),
    /// An acknowledgement of so many blocks and control messages more than were taken.
    Ack(u64, u64),
    /// An acknowledgement whose complements are wrong.
    TornAck,
    /// A flood, until this end is done with the peer.
    Flood(Flood),
    /// Tells this end to begin with its call.
    Cue,
    /// Waits until this end tells to go on.
    Await,
    /// Waits until a sign of life is seen, and tells this end.
    HearLife,
    /// Waits.
    Sleep(u64),
    /// Closes the socket and lives on.
    CloseSocket,
    /// Leaves the socket to a child, which holds it for a second.
    Bequeath,
    /// Over RDMA: has the queue pair fail.
    FailQp,
    /// Over RDMA: writes beyond the memory that it was given.
    Stray,
    /// Over RDMA: a notification of nothing, of this kind, so many further than the next.
    Lie(u32, i64),
    /// Ends by SIGKILL.
    Die,
}

/// Bits of a chunk header's word 0 (wire.md 3.2).
pub(crate) const RTS: u64 = 1;
pub(crate) const FIN: u64 = 1 << 1;
pub(crate) const INLINE: u64 = 1 << 2;
pub(crate) const STREAM: u64 = 1 << 3;
pub(crate) const WANT_CTS: u64 = 1 << 4;
pub(crate) const LEFT: u64 = 1 << 6;
pub(crate) const CANCEL: u64 = 1 << 7;
pub(crate) const REMOTE: u64 = 1 << 16;

/// Kinds of control messages (wire.md 5).
pub(crate) const CTS: u64 = 1;
pub(crate) const REJECT: u64 = 2;
pub(crate) const CLOSE: u64 = 3;
pub(crate) const GROW: u64 = 4;
pub(crate) const GROWN: u64 = 5;
pub(crate) const GROW_REFUSED: u64 = 6;
pub(crate) const SHRINK: u64 = 7;
pub(crate) const RETIRED: u64 = 8;
pub(crate) const EXPOSE: u64 = 9;
pub(crate) const EXPOSE_ANSWER: u64 = 10;
pub(crate) const WITHDRAWN: u64 = 11;
pub(crate) const OFFER: u64 = 12;

/// Reasons (wire.md 5).
pub(crate) const DONE: u64 = 0;
pub(crate) const GIVEN_UP: u64 = (1 << 32) - 2;
pub(crate) const BROKEN: u64 = (1 << 32) - 1;

/// Byte `at` of every message and stream with this tag.
pub(crate) fn pattern(tag: u64, at: usize) -> u8 {
    size(tag).wrapping_mul(31).wrapping_add(at.wrapping_mul(7)).wrapping_add(at >> 8).to_le_bytes()[0]
}
