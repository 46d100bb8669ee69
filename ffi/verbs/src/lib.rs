//! Safe RDMA verbs and connection manager: libibverbs and librdmacm of rdma-core, one type per object of theirs.
//!
//! Both libraries are loaded when first asked for. A [`Context`] is an open device; objects of one [`Pd`] may work together; an [`Mr`]
//! owns the memory that it registers, and a [`SourceMr`] or [`DestinationMr`] borrows it; a [`Cq`] takes completions, and a [`CompChannel`]
//! wakes a thread that sleeps for them; a [`Qp`] posts. An [`EventChannel`] and its [`CmId`]s find the peer and connect; [`CmId`] shows the
//! steps. `examples/write.rs` is a complete program.
//!
//! - **Posting and polling allocate nothing.** A [`SendBatch`] is built in work requests that its queue pair has from the start, and
//!   goes out with one doorbell. [`Cq::poll`] writes into the caller's slice.
//! - **Ownership is the order of destruction.** Each object keeps alive what it was made from: QP, CQ, MR, PD, then the context, then
//!   the CM id that found it, then the event channel. Nothing is destroyed by hand.
//! - **The NIC touches no memory that is gone.** An `Mr` owns its memory, gives out a raw pointer and never a reference, and
//!   deregisters before it releases. Borrowed memory is registered while a closure runs; if it cannot be deregistered then, the process
//!   aborts. From then on the keys are void, even for work requests that are still posted. An [`Sge`] borrows its region, because the
//!   CPU reads inline data while posting.
//! - **Errors** name the verb, the system's words and the remedy. Verbs return 0, an errno, a negative errno, or -1 with errno set.
//! - **After fork** a child must not use or drop these objects: rdma-core would destroy them for the parent.
//!
//! ```
//! use superpipe_verbs::DeviceList;
//!
//! match DeviceList::get() {
//!     Ok(devices) => devices.iter().for_each(|device| println!("{}: {}", device.name(), device.transport())),
//!     Err(error) => println!("{error}"), // names the missing package, or how to make a device
//! }
//! ```

mod bytes;
mod comp_channel;
mod context;
mod cq;
mod device;
mod error;
mod gid;
mod lent_mr;
mod library;
mod memory;
mod mr;
mod pd;
mod port;
mod qp;
mod qp_attr;
mod registration;
mod remedy;
mod return_code;
mod scoped_mr;
mod send_batch;
mod status;
mod sys;
mod verb_error;
mod wait;
mod wc;

mod cm_address;
mod cm_event;
mod cm_event_kind;
mod cm_id;
mod cm_id_inner;
mod event_channel;
#[cfg(test)]
mod misuse_tests;
#[cfg(test)]
mod registration_tests;

#[cfg(test)]
mod tests;

pub use cm_event::CmEvent;
pub use cm_event_kind::{CmEventKind, CmFailure};
pub use cm_id::{CmId, ConnectParams, PRIVATE_DATA_MAX};
pub use comp_channel::{CompChannel, CompEvent};
pub use context::{Context, DeviceLimits};
pub use cq::Cq;
pub use device::{Device, DeviceList, Transport};
pub use error::Error;
pub use event_channel::EventChannel;
pub use gid::{Gid, GidEntry, GidKind};
pub use lent_mr::LentMr;
pub use library::LoadError;
pub use memory::{Memory, Pages};
pub use mr::Mr;
pub use pd::Pd;
pub use port::{LinkLayer, Mtu, Port, PortState};
pub use qp::{Qp, QpConfig};
pub use qp_attr::{QpAttr, QpState};
pub use registration::{Access, Lkey, Rkey, Sge};
pub use scoped_mr::{DestinationMr, SourceMr};
pub use send_batch::{BatchFull, PostError, RemoteAddr, SendBatch, SendFlags};
pub use status::WcStatus;
pub use verb_error::VerbError;
pub use wc::{Wc, WcError, WcOpcode};

#[doc(hidden)]
#[cfg(any(test, feature = "fake"))]
pub use sys::fake;

#[cfg(not(target_os = "linux"))]
compile_error!("superpipe-verbs needs Linux: rdma-core exists nowhere else");

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
