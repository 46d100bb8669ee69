//! The seam between the protocol and the world: everything that core needs of memory, wire and time.
//!
//! A `Fabric` is the port (device, completion queue, clock); a [`Fabric::Link`] is one connection on it (a QP, or
//! two mapped segments). Static dispatch; what the 8-byte path branches on is an associated const.
//!
//! Two kinds of memory. A [`Fabric::Region`] is ours, and the peer writes into it: the seat and the landing
//! buffer. A [`Fabric::Remote`] is the peer's seat or landing buffer, as we build it: with direct store it is that
//! memory itself, otherwise its image here (the bounce buffer), which [`Fabric::post_write`] sends. Offsets are bytes
//! from the start of either.

use crate::error::WcError;
use crate::line::{LINE_BYTES, Line};
use crate::nanos::Nanos;
use crate::recorder::Recorder;

/// What a link can do; asked once, when an endpoint is made on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The bytes of one write become visible in ascending order, so that a flag at its end proves the rest
    /// (`ibv_query_qp_data_in_order(3)`; release and acquire on shared memory).
    pub order_inside_write: bool,
    /// So many receives each end keeps posted for the other's notifications, the same number at both; 0: the fabric
    /// can't notify. Core has no more of them on the way than the peer has posted.
    pub notices: u16,
}

/// What goes with a write to tell the peer of it: 30 bits (the fabric keeps the top two for itself).
///
/// A write with immediate data carries it in the immediate (InfiniBand, RoCE), a write without is followed by a SEND
/// (iWARP); either is consumed by a receive that was posted ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Notice(pub u32);

/// The send queue holds as many work requests as it can; post again after a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqFull;

/// Names a signaled work request until its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrId(pub u64);

/// A signaled work request has ended; the device no longer owns the memory that it named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which one.
    pub wr: WrId,
    /// How.
    pub result: Result<(), WcError>,
}

/// What is known of a copy's destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyHint {
    /// It is read again soon, and fits a cache.
    Cached,
    /// It is larger than the caches: streaming stores may pay.
    Streaming,
}

/// The world as core sees it.
///
/// The trait is safe: core holds no pointer, so a fabric that breaks its contract gives wrong bytes and never
/// undefined behaviour. Where raw memory is handed out besides (`readv` into blocks), the promise that it stays
/// valid is an unsafe trait of the crate that does so.
///
/// # Contract
/// 1. Every span of a `Region` or `Remote` that core was given stays valid, and of unchanged meaning, until the
///    link is dropped. Offsets are checked against it.
/// 2. With [`DIRECT`](Self::DIRECT), or in memory that [`post_write`](Self::post_write) has carried over in ascending
///    order ([`Caps::order_inside_write`]), a reader that sees a flag by [`flag`](Self::flag) sees everything
///    that was written before [`publish`](Self::publish) or inside [`write_line`](Self::write_line).
/// 3. After a `post_write` was accepted, the device reads the named bytes of the image at any time until its
///    completion; core leaves them alone until then. Those of a write without a `wr`, which are those of a line, it has read
///    once the peer can see any of them: core leaves them alone until the peer has shown that it has consumed them.
/// 4. A [`Notice`] that [`poll_notice`](Self::poll_notice) has given proves that its write, and all that the peer posted
///    before, are in place: whoever reads them then sees them whole.
/// 5. Order between writes is otherwise not promised, and core does not rely on it; but for this: all bytes of a write are in
///    place before those of a write to the same block that was posted after the peer's acknowledgement of that block.
pub trait Fabric {
    /// The peer's landing buffer is mapped here: there is no image, and nothing is posted.
    const DIRECT: bool;
    /// One connection on this port.
    type Link;
    /// Memory of ours that the peer writes.
    type Region: Copy;
    /// Memory of the peer's that we write, by direct store or through its image.
    type Remote: Copy;

    /// What this link can do.
    fn caps(&self, link: &Self::Link) -> Caps;
    /// The time. Costs tens of nanoseconds, so never per message.
    fn now(&mut self) -> Nanos;

    /// Reads a flag word, with acquire ordering. `at` is a multiple of 8.
    fn flag(&self, link: &Self::Link, from: Self::Region, at: u32) -> u64;
    /// Copies a line out, once. `at` is a multiple of 64.
    fn take_line(&self, link: &Self::Link, from: Self::Region, at: u32) -> Line;
    /// Copies a line out, once, if its flag is this one; with acquire ordering. `at` is a multiple of 64.
    #[inline]
    fn take_line_if(&self, link: &Self::Link, from: Self::Region, at: u32, flag: u64) -> Option<Line> {
        (self.flag(link, from, at + LINE_BYTES - 8) == flag).then(|| self.take_line(link, from, at))
    }
    /// Copies payload out of a block.
    fn copy_out(&mut self, link: &mut Self::Link, from: Self::Region, at: u32, to: &mut [u8], hint: CopyHint);
    /// CRC32C, continued from `seed`, of `bytes` bytes in a block.
    fn crc_out(&self, link: &Self::Link, from: Self::Region, at: u32, bytes: u32, seed: u32) -> u32;

    /// Writes a line, its flag last, with release ordering. `at` is a multiple of 64.
    fn write_line(&mut self, link: &mut Self::Link, to: Self::Remote, at: u32, line: &Line);
    /// Writes a flag word, with release ordering. `at` is a multiple of 8.
    fn publish(&mut self, link: &mut Self::Link, to: Self::Remote, at: u32, flag: u64);
    /// So many bytes are likely to be written soon: a fabric may fetch them for writing, and by default does nothing.
    #[inline]
    fn expect_write(&mut self, link: &mut Self::Link, to: Self::Remote, at: u32, bytes: u32) {
        let _ = (link, to, at, bytes);
    }
    /// Copies payload into a block.
    fn copy_in(&mut self, link: &mut Self::Link, to: Self::Remote, at: u32, from: &[u8]);
    /// CRC32C, continued from `seed`, of `bytes` bytes in a block that is being built.
    fn crc_in(&self, link: &Self::Link, to: Self::Remote, at: u32, bytes: u32, seed: u32) -> u32;
    /// CRC32C of private memory, continued from `seed`: the finished CRC32C of what came before, 0 at the beginning.
    fn crc(&self, bytes: &[u8], seed: u32) -> u32;

    /// Posts one RDMA write of `bytes` bytes of the image at `at` to the same place in the peer's memory;
    /// signaled if it has a `wr`, and with a `notice` the peer is notified of it, after all that were posted before.
    /// Never called with [`DIRECT`](Self::DIRECT), nor with a notice where [`Caps::notices`] is 0.
    ///
    /// # Errors
    /// [`SqFull`]; nothing was posted.
    fn post_write(
        &mut self,
        link: &mut Self::Link,
        to: Self::Remote,
        at: u32,
        bytes: u32,
        wr: Option<WrId>,
        notice: Option<Notice>,
    ) -> Result<(), SqFull>;
    /// Ends a batch: what was posted goes out; a peer that sleeps is woken.
    fn ring_doorbell(&mut self, link: &mut Self::Link);
    /// Takes one completion of this link, in the order in which its work requests were posted.
    fn poll_cq(&mut self, link: &mut Self::Link) -> Option<Completion>;
    /// Takes the peer's next notification, in the order in which it posted them. The receive that it has consumed is
    /// posted again before this returns.
    #[inline]
    fn poll_notice(&mut self, link: &mut Self::Link) -> Option<Notice> {
        let _ = link;
        None
    }
    /// Whether [`poll_notice`](Self::poll_notice) has something to give: asked before a sleep.
    #[inline]
    fn has_notice(&self, link: &Self::Link) -> bool {
        let _ = link;
        false
    }

    /// Whether what is written from now on need not wake a peer that sleeps: it looks by itself before long.
    #[inline]
    fn set_quiet(&mut self, link: &mut Self::Link, is_quiet: bool) {
        let _ = (link, is_quiet);
    }

    /// Where the events of this link are recorded, while somebody records. Costs no more than a branch: it is asked at
    /// each event.
    #[inline]
    fn recorder(&mut self, _: &Self::Link) -> Option<&mut Recorder> {
        None
    }
}
