//! RDMA by libibverbs and librdmacm (rdma-core), one file an object of theirs, safe to use.
//!
//! Both libraries are loaded when first asked for. A [`Context`] is an open device; a [`Pd`] holds what may work
//! together; an [`Mr`] owns the memory that it registers; a [`Cq`] takes completions and a [`CompChannel`] wakes whoever
//! sleeps for them; a [`Qp`] posts. An [`EventChannel`] and its [`CmId`]s find the peer and connect.
//!
//! **Order by ownership.** Each object keeps alive what it was made from, so nothing is destroyed before its users, and
//! nothing by hand: QP, CQ, MR, PD, then the context, then the CM id that brought it, then the event channel.
//!
//! **The NIC touches no memory that is gone.** What is registered is owned by its `Mr` and reached by raw pointer only, so
//! that no reference is ever aliased by a NIC. Deregistration comes before unmapping, and from then on the keys are void,
//! whatever is still posted. An [`Sge`] borrows its `Mr`, so that inline data, which the CPU reads while posting, is there.
//!
//! **After fork** a child must not use or drop these objects: rdma-core would destroy them for the parent.
//!
//! **Failures** name the verb, the system's words and the remedy. Verbs answer 0 or not 0: an errno, a negative one, or -1
//! with errno set.

mod answer;
mod comp_channel;
mod context;
mod cq;
mod device;
mod error;
mod gid;
mod library;
mod mr;
mod pd;
mod port;
mod qp;
mod qp_attr;
mod remedy;
mod send_batch;
mod status;
mod sys;
mod wait;
mod wc;

mod cm_address;
mod cm_event;
mod cm_event_kind;
mod cm_id;
mod cm_id_inner;
mod event_channel;

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
pub use library::LoadError;
pub use mr::{Access, Lkey, Mr, Rkey, Sge};
pub use pd::Pd;
pub use port::{LinkLayer, Mtu, Port, PortState};
pub use qp::{Qp, QpConfig};
pub use qp_attr::{QpAttr, QpState};
pub use send_batch::{BatchFull, PostError, RemoteAddr, SendBatch, SendFlags};
pub use status::WcStatus;
pub use wc::{Wc, WcOpcode};

#[cfg(test)]
pub(crate) use sys::fake;
