//! Many connections in one thread, without I/O, clock or waiting: which one is looked at next, which ones sleep, and when each is looked at at the latest.
//!
//! ```text
//! call       a call that waits: rounds, looks at everything else, rests
//! rounds     what is active is looked at in turn, what is due when its time has come
//!   slots    what a poller has, by keys with generations       active  those that are looked at in each round
//!   due      times                                             member  one connection: active, armed, or ended
//!   arm_limits  when one is armed while others are active
//! single     a member without others                           pollable  what a member's connection can do
//! pace       when to look at the clock and at the set          naps    rests beside what wakes nobody
//! ```
//!
//! Memory is lent: [`Rounds`] take slices of any kind. The time is an argument. A connection is passed to each call that needs it, and so is the *set* that reports which of them were
//! woken: epoll, or a virtual one. Dispatch is static, since a round with few connections must cost little more than a look at a flag of each.

mod active;
mod arm_limits;
mod call;
mod due;
mod member;
mod naps;
mod occupant;
mod pace;
mod pollable;
mod rounds;
mod single;
mod slots;
#[cfg(test)]
mod tests;

pub use call::{Call, CallHost, CallRest, CallStep};
pub use member::Member;
pub use naps::{NAP_MAX_NS, Naps};
pub use occupant::{Occupant, SetOf};
pub use pace::PollerClock;
pub use pollable::{Owner, Pollable, Report, Reports};
pub use rounds::{Rounds, Woken};
pub use single::{Arm, Single};
pub use slots::{Key, Slot};
