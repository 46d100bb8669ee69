//! An id of rdma_cm: a connection, or an address where connections are accepted.
//!
//! ```text
//! active                                             passive
//! resolve_addr -> ADDR_RESOLVED                      bind, listen
//! resolve_route -> ROUTE_RESOLVED
//! QP made, to INIT, receives posted; connect  ---->  CONNECT_REQUEST with a new id
//!                                                    QP made, to INIT, RTR, RTS, receives posted
//! CONNECT_RESPONSE                            <----  accept
//! QP to INIT again, RTR, RTS; establish       ---->  ESTABLISHED
//! ```
//!
//! Before it connects, rdma_cm's attributes for INIT allow the peer nothing; afterwards they allow it to write, so the active
//! side goes to INIT twice. iWARP moves the QP itself: ESTABLISHED comes to both ends, and there is no CONNECT_RESPONSE.
//! References: rdma_cm(7), rdma_connect(3), rdma_init_qp_attr(3).

use super::cm_address::{self, RawAddress};
use super::cm_id_inner::IdInner;
use super::context::Context;
use super::error::Error;
use super::event_channel::EventChannel;
use super::qp_attr::{QpAttr, QpState};
use super::return_code::{done, failed, made};
use super::sys::{
    RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, RDMA_OPTION_ID_AFONLY, RDMA_OPTION_ID_TOS, Rdmacm,
    ibv_qp_attr, rdma_addr, rdma_cm_id, rdma_conn_param, rdma_port_space,
};
use core::ffi::c_int;
use core::fmt::Display;
use core::net::SocketAddr;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of private data that fit into every message of rdma_cm (rdma_connect(3)).
pub const PRIVATE_DATA_MAX: usize = 56;

/// An id. The device that it found stays open while anything made from it lives.
#[derive(Debug)]
pub struct CmId(Arc<IdInner>);

/// Parameters of a connection, given by either end.
#[derive(Debug, Clone, Copy)]
pub struct ConnectParams<'data> {
    /// Number of our QP.
    pub qp_number: u32,
    /// At most [`PRIVATE_DATA_MAX`] bytes for the peer.
    pub private_data: &'data [u8],
    /// Retries of a packet, at most 7.
    pub retries: u8,
    /// Retries of a SEND that met no receive; 7 is no limit.
    pub rnr_retries: u8,
}

impl CmId {
    /// Makes an id whose events come to `channel`.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn create(channel: &EventChannel) -> Result<Self, Error> {
        let number = next_number();
        let mut raw: *mut rdma_cm_id = ptr::null_mut();
        let cookie = ptr::without_provenance_mut(number);
        let _turn = channel.take_turn();
        // SAFETY: the channel lives, the pointer is to a local, and the cookie is only given back.
        let answer = unsafe {
            channel.cm().rdma_create_id(channel.raw(), &raw mut raw, cookie, rdma_port_space::RDMA_PS_TCP)
        };
        done(answer, "rdma_create_id", || "make an rdma_cm id")?;
        let raw = made(raw, "rdma_create_id", || "make an rdma_cm id")?;
        Ok(Self::new(channel, raw, number))
    }

    /// Takes over the id of a connect request, while having the turn.
    ///
    /// # Safety
    /// 1. `raw` came with a connect request of this channel, and nobody else has it.
    pub(super) unsafe fn adopt(channel: &EventChannel, raw: NonNull<rdma_cm_id>) -> Self {
        let number = next_number();
        // SAFETY: it is ours, and its context is for our use.
        unsafe { (*raw.as_ptr()).context = ptr::without_provenance_mut(number) };
        Self::new(channel, raw, number)
    }

    fn new(channel: &EventChannel, raw: NonNull<rdma_cm_id>, number: usize) -> Self {
        Self(Arc::new(IdInner { raw, number, channel: Mutex::new(channel.clone()) }))
    }

    /// Returns the number that identifies it in events.
    #[must_use]
    pub fn number(&self) -> usize {
        self.0.number
    }

    /// Binds to the address to listen at or to connect from. Port 0 takes a free port.
    ///
    /// # Errors
    /// The address is not of this host, or is in use.
    pub fn bind(&mut self, address: SocketAddr) -> Result<(), Error> {
        let mut raw = RawAddress::new(address);
        self.call(
            "rdma_bind_addr",
            || format!("bind to {address}"),
            |cm, id| {
                // SAFETY: the id lives, and the address outlives the call.
                unsafe { cm.rdma_bind_addr(id, raw.as_ptr()) }
            },
        )
    }

    /// Listens, with at most `backlog` requests that wait to be accepted.
    ///
    /// # Errors
    /// The id is not bound, or another listens there.
    pub fn listen(&mut self, backlog: u16) -> Result<(), Error> {
        self.call(
            "rdma_listen",
            || "listen",
            |cm, id| {
                // SAFETY: the id lives.
                unsafe { cm.rdma_listen(id, backlog.into()) }
            },
        )
    }

    /// Begins to look for a device that reaches `to`; ends with ADDR_RESOLVED.
    ///
    /// # Errors
    /// No device reaches it.
    pub fn resolve_addr(
        &mut self,
        from: Option<SocketAddr>,
        to: SocketAddr,
        timeout_ms: u32,
    ) -> Result<(), Error> {
        let mut from = from.map(RawAddress::new);
        let mut raw = RawAddress::new(to);
        let from = from.as_mut().map_or(ptr::null_mut(), RawAddress::as_ptr);
        self.call(
            "rdma_resolve_addr",
            || format!("find an RDMA device that reaches {to}"),
            |cm, id| {
                // SAFETY: the id lives, and the addresses outlive the call.
                unsafe { cm.rdma_resolve_addr(id, from, raw.as_ptr(), milliseconds(timeout_ms)) }
            },
        )
    }

    /// Begins to resolve the route; ends with ROUTE_RESOLVED.
    ///
    /// # Errors
    /// The address is not resolved.
    pub fn resolve_route(&mut self, timeout_ms: u32) -> Result<(), Error> {
        self.call_with_device(
            "rdma_resolve_route",
            || "find the route to the peer",
            |cm, id| {
                // SAFETY: the id lives.
                unsafe { cm.rdma_resolve_route(id, milliseconds(timeout_ms)) }
            },
        )
    }

    /// Begins to connect; ends with CONNECT_RESPONSE, or on iWARP with ESTABLISHED.
    /// Drivers of iWARP may make the TCP connection in this call, and wait as long as TCP does for a host that drops it.
    ///
    /// # Errors
    /// The private data is too long, the route is not resolved, or, on iWARP, nobody listens.
    pub fn connect(&mut self, params: ConnectParams<'_>) -> Result<(), Error> {
        let mut raw = params.raw()?;
        self.call_with_device(
            "rdma_connect",
            || "connect",
            |cm, id| {
                // SAFETY: the id lives, and the parameters and the data that they name outlive the call.
                unsafe { cm.rdma_connect(id, &raw mut raw) }
            },
        )
    }

    /// Confirms a connect response, once the QP is ready.
    ///
    /// # Errors
    /// There was no connect response.
    pub fn establish(&mut self) -> Result<(), Error> {
        self.call(
            "rdma_establish",
            || "confirm the connection",
            |cm, id| {
                // SAFETY: the id lives.
                unsafe { cm.rdma_establish(id) }
            },
        )
    }

    /// Accepts a connect request; ends with ESTABLISHED.
    ///
    /// # Errors
    /// The private data is too long, this is no connect request, or the peer has gone.
    pub fn accept(&mut self, params: ConnectParams<'_>) -> Result<(), Error> {
        let mut raw = params.raw()?;
        self.call_with_device(
            "rdma_accept",
            || "accept a connection",
            |cm, id| {
                // SAFETY: the id lives, and the parameters and the data that they name outlive the call.
                unsafe { cm.rdma_accept(id, &raw mut raw) }
            },
        )
    }

    /// Refuses a connect request, with private data for the peer.
    ///
    /// # Errors
    /// The private data is too long, or the peer has gone.
    pub fn reject(&mut self, private_data: &[u8]) -> Result<(), Error> {
        let bytes = checked(private_data)?;
        self.call(
            "rdma_reject",
            || "refuse a connection",
            |cm, id| {
                // SAFETY: the id lives, and the data is of this length and outlives the call.
                unsafe { cm.rdma_reject(id, private_data.as_ptr().cast(), bytes) }
            },
        )
    }

    /// Disconnects, or answers a disconnect, which InfiniBand and RoCE wait for. Both ends get DISCONNECTED.
    ///
    /// # Errors
    /// There is no connection.
    pub fn disconnect(&mut self) -> Result<(), Error> {
        self.call(
            "rdma_disconnect",
            || "disconnect",
            |cm, id| {
                // SAFETY: the id lives.
                unsafe { cm.rdma_disconnect(id) }
            },
        )
    }

    /// Moves its events to another channel.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn migrate(&mut self, to: &EventChannel) -> Result<(), Error> {
        let from = self.channel();
        // Events come to the new channel before the call returns, and librdmacm reads the id for each of them.
        let _turns = from.take_turns(to);
        // SAFETY: the id lives, as the channel does, which the id holds from here on.
        let answer = unsafe { from.cm().rdma_migrate_id(self.0.raw.as_ptr(), to.raw()) };
        done(answer, "rdma_migrate_id", || "move an id to another event channel")?;
        *self.0.channel.lock().unwrap_or_else(PoisonError::into_inner) = to.clone();
        Ok(())
    }

    /// Sets the ACK timeout: 4.096 µs times two to the power of `exponent`. Call it before the route is resolved.
    ///
    /// # Errors
    /// The kernel does not have the option.
    pub fn set_ack_timeout(&mut self, exponent: u8) -> Result<(), Error> {
        self.set_option(RDMA_OPTION_ID_ACK_TIMEOUT, exponent, "set the ACK timeout")
    }

    /// Sets the type of service of its packets. Call it before the address is resolved.
    ///
    /// # Errors
    /// The kernel does not have the option.
    pub fn set_type_of_service(&mut self, value: u8) -> Result<(), Error> {
        self.set_option(RDMA_OPTION_ID_TOS, value, "set the type of service")
    }

    /// Restricts it to its own address family. Call it before it is bound.
    ///
    /// # Errors
    /// The kernel does not have the option.
    pub fn set_family_only(&mut self) -> Result<(), Error> {
        let is_only: c_int = 1;
        self.set_option(RDMA_OPTION_ID_AFONLY, is_only, "listen for one address family")
    }

    /// Returns the attributes that move a QP of this connection to `state`.
    ///
    /// # Errors
    /// The connection is not so far.
    pub fn qp_attr(&self, state: QpState) -> Result<QpAttr, Error> {
        let mut raw = ibv_qp_attr { qp_state: state.raw(), ..ibv_qp_attr::default() };
        let mut mask: c_int = 0;
        self.call(
            "rdma_init_qp_attr",
            || "learn what the queue pair needs",
            |cm, id| {
                // SAFETY: the id lives, and both pointers are to locals.
                unsafe { cm.rdma_init_qp_attr(id, &raw mut raw, &raw mut mask) }
            },
        )?;
        Ok(QpAttr::of(raw, mask))
    }

    /// Returns the device that reaches the peer, once the address is resolved; none before that.
    #[must_use]
    pub fn context(&self) -> Option<Context> {
        let raw = self.read(|id| {
            // SAFETY: the id lives, and is not written while we have the turn.
            unsafe { (*id).verbs }
        });
        let verbs = self.channel().verbs();
        NonNull::new(raw).map(|raw| Context::of_cm_id(verbs, raw, Arc::clone(&self.0)))
    }

    /// Returns the port of that device.
    #[must_use]
    pub fn port_number(&self) -> u8 {
        self.read(|id| {
            // SAFETY: the id lives, and is not written while we have the turn.
            unsafe { (*id).port_num }
        })
    }

    /// Returns the address of our end, with the port that it got; none before it is bound.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        cm_address::local(self.addresses().__bindgen_anon_1)
    }

    /// Returns the address of the peer's end; none if there is no peer.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        cm_address::peer(self.addresses().__bindgen_anon_2)
    }

    fn addresses(&self) -> rdma_addr {
        self.read(|id| {
            // SAFETY: the id lives, and is not written while we have the turn.
            unsafe { (*id).route.addr }
        })
    }

    fn set_option<T>(&mut self, option: u32, mut value: T, doing: &'static str) -> Result<(), Error> {
        let (level, option) = (RDMA_OPTION_ID.cast_signed(), option.cast_signed());
        self.call(
            "rdma_set_option",
            || doing,
            |cm, id| {
                // SAFETY: the id lives, and the value is a local of this size, which the library only reads.
                unsafe { cm.rdma_set_option(id, level, option, (&raw mut value).cast(), size_of::<T>()) }
            },
        )
    }

    fn call<D: Display>(
        &self,
        verb: &'static str,
        doing: impl FnOnce() -> D,
        call: impl FnOnce(&Rdmacm, *mut rdma_cm_id) -> c_int,
    ) -> Result<(), Error> {
        let cm = self.channel().cm();
        self.read(|id| done(call(cm, id), verb, doing))
    }

    /// Calls what librdmacm answers by reading the id's device, which an id has after ADDR_RESOLVED or with a connect request:
    /// it dereferences the null pointer of an id without one.
    fn call_with_device<D: Display>(
        &self,
        verb: &'static str,
        doing: impl FnOnce() -> D,
        call: impl FnOnce(&Rdmacm, *mut rdma_cm_id) -> c_int,
    ) -> Result<(), Error> {
        let cm = self.channel().cm();
        self.read(|id| {
            // SAFETY: the id lives, and is not written while we have the turn.
            if unsafe { (*id).verbs.is_null() } {
                return Err(failed(libc::EINVAL, verb, doing()));
            }
            done(call(cm, id), verb, doing)
        })
    }

    fn read<T>(&self, read: impl FnOnce(*mut rdma_cm_id) -> T) -> T {
        let channel = self.channel();
        let _turn = channel.take_turn();
        read(self.0.raw.as_ptr())
    }

    fn channel(&self) -> EventChannel {
        self.0.channel.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ConnectParams<'_> {
    /// No reads and no atomics: neither end lends resources for them.
    fn raw(&self) -> Result<rdma_conn_param, Error> {
        Ok(rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: checked(self.private_data)?,
            retry_count: self.retries.min(7),
            rnr_retry_count: self.rnr_retries.min(7),
            qp_num: self.qp_number,
            ..rdma_conn_param::default()
        })
    }
}

fn checked(private_data: &[u8]) -> Result<u8, Error> {
    let bytes = private_data.len();
    u8::try_from(bytes)
        .ok()
        .filter(|_| bytes <= PRIVATE_DATA_MAX)
        .ok_or(Error::PrivateData { bytes, max: PRIVATE_DATA_MAX })
}

fn milliseconds(timeout_ms: u32) -> c_int {
    c_int::try_from(timeout_ms).unwrap_or(c_int::MAX)
}

/// Returns a number that no other id has; never 0, which stands for no id.
fn next_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
