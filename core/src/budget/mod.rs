//! The budget of a process: who may provision how much, without a lock, a clock or an allocation.
//!
//! A [`Pool`] has one limit. Each connection is a [`Member`] of it, with memory of three kinds:
//!
//! ```text
//! minimum   taken when the member opens, kept until it closes     control page, receive pool, landing buffer of the default kind
//! grown     lent while communicating, and given back              landing buffers that grew, the images of the peer's
//! cached    lent, and given back first                            registrations that are kept for the next use
//!
//! limit     |  reserve: minimums only  |  lent: grown and cached, and minimums for which the reserve is too small  |
//! ```
//!
//! - **Minimum.** A quarter of the limit ([`reserve`]) is never lent. So a member that gives nothing back keeps nobody from opening.
//! - **Fair share.** Members with demand have one fair share each: what is not reserve, divided by their count ([`growth_max`]). A
//!   member may grow beyond it, until another is refused below its own. Then those above are asked to give back, and nobody grows beyond
//!   for [`DEMAND_NS`]: a landing buffer goes as a whole, so two that both want a little more would take turns otherwise.
//! - **Reclaim.** A demand that is not met asks for memory back in the order of [`ReclaimClass`], and only for what it lacks. A
//!   member that was asked and did not give back within [`PATIENCE_NS`] no longer counts on either side: the next demand asks others, and
//!   the fair share is that of what is left. It grows no more until nobody waits.
//! - **Refusal.** It is an answer, never an error: the transfer goes on in the blocks that exist.
//!
//! Every number is an atomic, and every call is a bounded number of steps: without contention one update of two counters, otherwise a
//! walk over the places. The marks by which one member asks another are hints. One that is lost is made again by the next refusal, and
//! one that is out of date costs a landing buffer that is provisioned again. The sums are exact, whatever the order.
//!
//! Reference: docs/architecture/memory.md, "Budget".

mod fair;
mod place;
mod pool;

pub use fair::{growth_max, reserve};
pub use place::{DEMAND_NS, PATIENCE_NS, ReclaimClass};
pub use pool::{Member, NoRoom, Pool, Refusal, RefusalCause, Terms, Use};
