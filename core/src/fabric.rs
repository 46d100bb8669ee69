//! The seam between the protocol and the world: everything that core needs of memory, wire and time.
//!
//! A `Fabric` is a device with its completion queue and clock; a [`Fabric::Link`] is one connection on it (a QP, or
//! two mapped segments). Dispatch is static, and the 8-byte path branches on associated constants only.
//!
//! There are two kinds of memory. A [`Fabric::Region`] is this end's control page or landing buffer, which the peer writes, or memory of the
//! peer that a job has mapped for reading, or memory of this end's application that the peer may write. A
//! [`Fabric::Remote`] is the peer's control page or landing buffer, which this end writes, or memory of the peer's application that a job has mapped for
//! writing: with direct store that memory itself,
//! otherwise its image here (the bounce buffer), which [`Fabric::post_write`] sends. Offsets are bytes from the start of either.

use crate::copying::{CopyKernel, KernelSet};
use crate::error::WcError;
use crate::job::{Busy, Finished, Job, Registration, Ticket};
use crate::nanos::Nanos;
use crate::plan::Terms;
use crate::planning::Planning;
use crate::recorder::Recorder;
use crate::wire::Crc32c;
use crate::wire::grant::{DestinationClaim, RemoteClaim};
use crate::wire::line::{LINE_BYTES, Line};
use crate::wire::notification::Notification;

/// Capabilities of a link. An endpoint asks for them once, when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The bytes of one write become visible in ascending order, so that a flag at its end proves the rest
    /// (`ibv_query_qp_data_in_order(3)`; release and acquire on shared memory).
    pub order_inside_write: bool,
    /// Most notifications under way to one end, which is the number of receives that each end keeps posted for them. 0: the fabric
    /// has no notifications. Core never exceeds it.
    pub notifications_max: u16,
}

/// The send queue is full. Post again after a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqFull;

/// Names a signaled work request until its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrId(pub u64);

/// A signaled work request has ended; the device no longer owns the memory that it named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The work request.
    pub wr: WrId,
    /// Result of the work request.
    pub result: Result<(), WcError>,
}

/// A fabric: memory that two ends share or write remotely, and a clock.
///
/// The trait is safe. Core holds no pointer, so a fabric that breaks the contract delivers wrong bytes, and never causes
/// undefined behaviour. A crate that hands out raw memory besides (`readv` into blocks) promises in an unsafe trait of its own
/// that the memory stays valid.
///
/// # Contract
/// 1. Every `Region` and `Remote` that core was given stays valid, and names the same memory, until core begins the job that releases it,
///    or the link is dropped. The fabric checks offsets against its bounds. A landing buffer that a job provisions reads as zero.
/// 2. With [`DIRECT`](Self::DIRECT), or in memory that [`post_write`](Self::post_write) has carried over in ascending
///    order ([`Caps::order_inside_write`]), a reader that sees a flag by [`flag`](Self::flag) sees everything
///    that was written before [`publish`](Self::publish) or inside [`write_line`](Self::write_line).
/// 3. The device may read the bytes of a posted write from the image until the write completes. Core does not change them until
///    then. The bytes of a line, which is a write without a `wr` or to the control page, the device has read once the peer can see any of
///    them. Core does not change them until the peer has consumed the line.
/// 4. A [`Notification`] that [`poll_notification`](Self::poll_notification) returned proves that its write, and all writes that the
///    peer posted before it, are complete in memory.
/// 5. Writes are not ordered otherwise, with one exception: all bytes of a write are in place before those of a write to the same
///    block that was posted after the peer acknowledged that block.
///
/// # Example
/// Two ends in one thread over plain memory. `examples/custom_fabric.rs` is a complete fabric for two threads.
///
/// ```
/// use superpipe_core::{
///     Attachment, CONTROL_PAGE_BYTES, Caps, Completion, Config, CopyKernel, Endpoint, Fabric, FlagPlace, Landing,
///     Layout, Line, Nanos, Notification, Origin, SqFull, TryRecv, WrId,
/// };
///
/// const LAYOUT: Layout = Layout { block_bytes: 4096, block_count: 4, flags: FlagPlace::Apart { group_blocks: 1 } };
///
/// /// The memory of both ends: control page and landing buffer of each.
/// struct Plain([Vec<u8>; 4]);
///
/// impl Plain {
///     fn word(&self, from: usize, at: u32) -> u64 {
///         u64::from_le_bytes(*self.0[from][at as usize..].first_chunk().unwrap())
///     }
/// }
///
/// impl Fabric for Plain {
///     const DIRECT: bool = true; // the peer's memory is written in place
///     type Link = ();
///     type Region = usize;
///     type Remote = usize;
///
///     fn caps(&self, _: &()) -> Caps {
///         Caps { order_inside_write: true, notifications_max: 0 }
///     }
///     fn now(&mut self) -> Nanos {
///         Nanos(0)
///     }
///     fn flag(&self, _: &(), from: usize, at: u32) -> u64 {
///         self.word(from, at)
///     }
///     fn take_line(&self, _: &(), from: usize, at: u32) -> Line {
///         Line(core::array::from_fn(|index| self.word(from, at + 8 * index as u32)))
///     }
///     fn copy_out(&mut self, _: &mut (), from: usize, at: u32, to: &mut [u8], _: CopyKernel) {
///         to.copy_from_slice(&self.0[from][at as usize..][..to.len()]);
///     }
///     fn write_line(&mut self, link: &mut (), to: usize, at: u32, line: &Line) {
///         for (index, word) in line.0.iter().enumerate() {
///             self.publish(link, to, at + 8 * index as u32, *word);
///         }
///     }
///     fn publish(&mut self, link: &mut (), to: usize, at: u32, flag: u64) {
///         self.copy_in(link, to, at, &flag.to_le_bytes(), CopyKernel::Plain);
///     }
///     fn copy_in(&mut self, _: &mut (), to: usize, at: u32, from: &[u8], _: CopyKernel) {
///         self.0[to][at as usize..][..from.len()].copy_from_slice(from);
///     }
///     // Checksums are needed with checked flags only, and posted writes without direct store only.
///     fn crc_out(&self, _: &(), _: usize, _: u32, _: u32, _: u32) -> u32 { 0 }
///     fn crc_in(&self, _: &(), _: usize, _: u32, _: u32, _: u32) -> u32 { 0 }
///     fn crc(&self, _: &[u8], _: u32) -> u32 { 0 }
///     fn post_write(
///         &mut self, _: &mut (), _: usize, _: u32, _: u32, _: Option<WrId>, _: Option<Notification>,
///     ) -> Result<(), SqFull> {
///         Err(SqFull)
///     }
///     fn ring_doorbell(&mut self, _: &mut ()) {}
///     fn poll_cq(&mut self, _: &mut ()) -> Option<Completion> {
///         None
///     }
/// }
///
/// let [page, landing] = [CONTROL_PAGE_BYTES, LAYOUT.bytes()].map(|bytes| vec![0; bytes as usize]);
/// let mut fabric = Plain([page.clone(), landing.clone(), page, landing]);
/// let mut ends = [0, 2].map(|own| {
///     let peer = 2 - own;
///     let attachment = Attachment {
///         link: (),
///         control_page: own,
///         peer_control_page: peer,
///         landing: Landing { memory: own + 1, layout: LAYOUT },
///         peer_landing: Landing { memory: peer + 1, layout: LAYOUT },
///         growth: None,
///     };
///     Endpoint::new(&fabric, attachment, Config::default(), Origin::default()).unwrap()
/// });
///
/// ends[0].try_send(&mut fabric, 7, &[b"hello"]).unwrap();
/// let mut place = [0; 16];
/// assert_eq!(ends[1].try_recv(&mut fabric, &mut [&mut place], 1), TryRecv::Taken { tag: 7, bytes: 5 });
/// assert_eq!(place[..5], *b"hello");
/// ```
pub trait Fabric {
    /// The peer's memory is mapped here, so that there is no image, and nothing is posted.
    const DIRECT: bool;
    /// With [`DIRECT`](Self::DIRECT): some copies are timed, so that their kernels and the window can be chosen while data flow
    /// (wire.md 4.11, 4.12). Without it, which is the default, none of that is compiled in: copies are plain, and a window that is to be chosen is the one that
    /// a choice starts with.
    const TIMES_COPIES: bool = false;
    /// A connection on this fabric.
    type Link;
    /// Memory of this end, which the peer writes; or memory of the peer's application that a job has mapped, which core copies out of; or memory of
    /// this end's application that the peer may write.
    type Region: Copy;
    /// Memory of the peer, which this end writes by direct store or through its image.
    type Remote: Copy;

    /// Returns the capabilities of the link.
    fn caps(&self, link: &Self::Link) -> Caps;
    /// Returns the time. A reading costs tens of nanoseconds, so core takes one around timed copies only (one group in 64 once a choice is settled, wire.md
    /// 4.12), and while it records.
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
    /// Returns the kernels among which core chooses for copies into blocks and out of them. The default is the plain one alone. Core asks once, with
    /// [`TIMES_COPIES`](Self::TIMES_COPIES). For messages of [`Config::streaming_bytes`](crate::Config::streaming_bytes) and more it may name the
    /// streaming one anyway; a fabric without a kernel that is named copies plainly.
    fn copy_kernels(&self, link: &Self::Link) -> KernelSet {
        let _ = link;
        KernelSet::PLAIN
    }
    /// Copies payload out of a block, out of memory of the peer that is mapped, or out of memory of the application that the peer has written.
    fn copy_out(
        &mut self,
        link: &mut Self::Link,
        from: Self::Region,
        at: u32,
        to: &mut [u8],
        kernel: CopyKernel,
    );
    /// Hints that core is likely to read the `bytes` bytes at `at` next, if the word at `flag_at` is `flag`. A fabric may prefetch them; the default does
    /// nothing.
    #[inline]
    fn expect_read(
        &mut self,
        link: &mut Self::Link,
        from: Self::Region,
        flag_at: u32,
        flag: u64,
        at: u32,
        bytes: u32,
    ) {
        let _ = (link, from, flag_at, flag, at, bytes);
    }
    /// Returns the CRC32C, continued from `seed`, of `bytes` bytes in a block.
    fn crc_out(&self, link: &Self::Link, from: Self::Region, at: u32, bytes: u32, seed: u32) -> u32;

    /// Writes a line, its flag last, with release ordering. `at` is a multiple of 64.
    fn write_line(&mut self, link: &mut Self::Link, to: Self::Remote, at: u32, line: &Line);
    /// Writes a flag word, with release ordering. `at` is a multiple of 8.
    fn publish(&mut self, link: &mut Self::Link, to: Self::Remote, at: u32, flag: u64);
    /// Hints that core is likely to write the `bytes` bytes at `at` next. A fabric may prefetch them for writing; the default does nothing.
    /// `follows_answer`: a message from the peer probably comes first, so there is time to prefetch more.
    #[inline]
    fn expect_write(
        &mut self,
        link: &mut Self::Link,
        to: Self::Remote,
        at: u32,
        bytes: u32,
        follows_answer: bool,
    ) {
        let _ = (link, to, at, bytes, follows_answer);
    }
    /// Copies payload into a block, or into memory of the peer's application that is mapped. It is visible before a line or a flag that is written
    /// afterwards.
    fn copy_in(&mut self, link: &mut Self::Link, to: Self::Remote, at: u32, from: &[u8], kernel: CopyKernel);
    /// Waits until what was stored before is visible to the peer: core calls it inside a measurement, and relies on nothing. The default does nothing.
    #[inline]
    fn settle_stores(&self, link: &Self::Link) {
        let _ = link;
    }
    /// Returns the CRC32C, continued from `seed`, of `bytes` bytes in a block that is being built.
    fn crc_in(&self, link: &Self::Link, to: Self::Remote, at: u32, bytes: u32, seed: u32) -> u32;
    /// Returns the CRC32C of private memory, continued from `seed`: the finished CRC32C of the bytes before, 0 at the beginning.
    fn crc(&self, bytes: &[u8], seed: u32) -> u32;

    /// Posts one RDMA write of `bytes` bytes of the image at `at` to the same place in the peer's memory. The write is signaled
    /// if it has a `wr`. With a `notification`, the peer is notified of it, after all writes that were posted before.
    /// Core never calls it with [`DIRECT`](Self::DIRECT), nor with a notification where [`Caps::notifications_max`] is 0.
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
        notification: Option<Notification>,
    ) -> Result<(), SqFull>;
    /// Posts one RDMA write of `bytes` bytes, at most [`REMOTE_WRITE_BYTES_MAX`](crate::REMOTE_WRITE_BYTES_MAX), at `at` of registered
    /// memory of the application to the same place of the peer's claim, which the fabric trusts for nothing. It is not signaled: the
    /// completion of a write that was posted later proves it. Core never calls it with [`DIRECT`](Self::DIRECT), nor for memory that no job
    /// has registered and no operation has named. The default refuses.
    ///
    /// # Errors
    /// [`SqFull`]; nothing was posted.
    fn post_remote_write(
        &mut self,
        link: &mut Self::Link,
        from: Registration,
        to: DestinationClaim,
        at: u64,
        bytes: u32,
    ) -> Result<(), SqFull> {
        let _ = (link, from, to, at, bytes);
        Err(SqFull)
    }
    /// Ends a batch: hands the posted writes to the device, and wakes a peer that sleeps.
    fn ring_doorbell(&mut self, link: &mut Self::Link);
    /// Takes one completion of this link, in the order in which its work requests were posted.
    fn poll_cq(&mut self, link: &mut Self::Link) -> Option<Completion>;
    /// Takes the peer's next notification, in the order of posting, and posts the receive that it has consumed again.
    #[inline]
    fn poll_notification(&mut self, link: &mut Self::Link) -> Option<Notification> {
        let _ = link;
        None
    }
    /// Returns true if [`poll_notification`](Self::poll_notification) would return one. Core asks before a sleep.
    #[inline]
    fn has_notification(&self, link: &Self::Link) -> bool {
        let _ = link;
        false
    }

    /// Sets whether later writes may leave a sleeping peer asleep, because it polls by itself before long.
    #[inline]
    fn set_quiet(&mut self, link: &mut Self::Link, is_quiet: bool) {
        let _ = (link, is_quiet);
    }

    /// Begins a job, which does not block. [`finished`](Self::finished) reports its end. A fabric whose landing buffers do not grow, and that
    /// registers no memory of the application, need not implement it.
    ///
    /// # Errors
    /// [`Busy`]: it can begin none now.
    fn begin(
        &mut self,
        link: &mut Self::Link,
        ticket: Ticket,
        job: Job<Self::Region, Self::Remote>,
    ) -> Result<(), Busy> {
        let _ = (link, ticket, job);
        Err(Busy)
    }
    /// Takes the end of a job, in any order. It may do a bounded part of a job that is under way, and never blocks.
    fn finished(&mut self, link: &mut Self::Link) -> Option<Finished<Self::Region, Self::Remote>> {
        let _ = link;
        None
    }

    /// Binds an image that a job has provisioned to the landing buffer that the peer has granted: from now on it is posted from. Returns false
    /// if the claim names memory that the peer cannot have; the image is then released. For posted writes only, and once per image.
    fn bind_image(&mut self, link: &mut Self::Link, image: Self::Remote, claim: RemoteClaim) -> bool {
        let _ = (link, image, claim);
        false
    }

    /// Returns the nanoseconds that [`finished`](Self::finished) has spent on parts of jobs, over the life of the link. For reports; it
    /// must cost no more than a load. Core asks in rounds of progress while a job is under way.
    #[inline]
    fn job_steps_ns(&self, link: &Self::Link) -> u64 {
        let _ = link;
        0
    }

    /// Returns true while others wait for memory that this connection has grown by, so that it is released at once, used or not. Core asks
    /// at each tick, on connections that have grown.
    fn must_release(&self, link: &Self::Link) -> bool {
        let _ = link;
        false
    }

    /// Notes whether anything came since it was last called, a few times per second, on connections that have grown.
    fn note_idle(&self, link: &Self::Link, is_idle: bool) {
        let _ = (link, is_idle);
    }

    /// Returns true while there is no room for another landing buffer, so that memory that is not used is to be released at once. Core asks
    /// a few times per second, on connections that have grown.
    fn is_memory_short(&self, link: &Self::Link) -> bool {
        let _ = link;
        false
    }

    /// Returns the recorder of this link, while somebody records. Core calls it at each event, so it must cost no more than a
    /// branch.
    #[inline]
    fn recorder(&mut self, _: &Self::Link) -> Option<&mut Recorder> {
        None
    }

    /// Begins to plan the messages that this end of the link sends, with these terms, if that is wanted and has not begun. Core calls it before the first
    /// message that can be planned, if [`Auto`](crate::Protocol::Auto) was negotiated: a planner that idle connections have no use for can be made here.
    fn begin_planning(&mut self, _: &Self::Link, _: Terms) {}

    /// Returns the planner of the messages that this end of the link sends, if they are planned. Without one, the negotiated protocol is used. Core calls it
    /// for each message that an operation sends, and at each chunk, so it must cost no more than a branch.
    #[inline]
    fn planning(&mut self, _: &Self::Link) -> Option<&mut Planning> {
        None
    }
}

impl<F: Fabric> Crc32c for F {
    #[inline]
    fn crc32c(&self, bytes: &[u8], seed: u32) -> u32 {
        self.crc(bytes, seed)
    }
}

/// Returns true if some copies of this fabric are timed.
pub(crate) const fn times_copies<F: Fabric>() -> bool {
    F::DIRECT && F::TIMES_COPIES
}
