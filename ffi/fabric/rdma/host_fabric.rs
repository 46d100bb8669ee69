//! The RDMA fabric on this operating system: memory for system calls, liveness, sleep.

use super::connection::State;
use super::fabric::{Rdma, RdmaLink};
use super::image::Image;
use super::sleep;
use crate::fabric::{HostFabric, LossCause, Registered, RegisteredMemory, SleepEnd, Span, Way};
use crate::os::OsError;
use crate::os::poll::{PollFd, Polled};
use core::ops::Range;
use core::ptr::NonNull;
use std::sync::Arc;
use superpipe_core::plan::Machine;
use superpipe_core::polling::Owner;
use superpipe_core::{Config, Endpoint, Protocol, RecvMemory, SendMemory};

// SAFETY: spans point into the two registered halves, which are mapped and populated until the link is dropped, or into what was grown, whose
// addresses are mapped as long; `at` checks that the named bytes are inside them, and no region gives out references.
unsafe impl HostFabric for Rdma {
    const NAME: &'static str = "verbs";
    // Objects that rdma-core destroys in a child, it destroys for the parent.
    const DROPS_IN_CHILD: bool = false;
    const LENDS: bool = true;

    fn source_of(&self, _: &RdmaLink, from: Span, at: u32, bytes: u32) -> *const u8 {
        from.at(at, bytes as usize)
    }

    fn place_in(&self, _: &RdmaLink, to: Image, at: u32, bytes: u32) -> *mut u8 {
        to.span.at(at, bytes as usize)
    }

    #[cfg(feature = "recorder")]
    fn record(&mut self, on: bool) {
        self.observers.record(on);
    }

    fn plan(&mut self, endpoint: &Endpoint<Self>, is_later: bool) {
        self.observers.plan(endpoint, Machine::NIC_100G.profile, is_later);
    }

    fn is_alive(&self, link: &RdmaLink) -> bool {
        link.connection.is_alive()
    }

    fn why_gone(&self, link: &RdmaLink) -> Option<LossCause> {
        link.connection.why_gone()
    }

    fn interests<'a>(&self, link: &'a RdmaLink) -> [PollFd<'a>; 1] {
        [link.connection.interest()]
    }

    fn end_by(&self, link: &mut RdmaLink, by_ns: u64) {
        link.connection.end_by(by_ns);
    }

    unsafe fn lend_source(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        start: NonNull<u8>,
        len: usize,
    ) -> Option<SendMemory> {
        let Config { protocol, c0_bytes, .. } = *endpoint.config();
        if !protocol.registers_each() || len <= c0_bytes as usize {
            return None;
        }
        // SAFETY: the caller promises it.
        let lent = unsafe { endpoint.link_mut().memory.lending.lend(Way::Out, start, len) };
        lent.map(SendMemory::Lent)
    }

    unsafe fn lend_destination(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        start: NonNull<u8>,
        len: usize,
    ) -> Option<RecvMemory> {
        let Config { protocol, c0_bytes, .. } = *endpoint.config();
        if !protocol.registers_each() || len <= c0_bytes as usize {
            return None;
        }
        // SAFETY: the caller promises it.
        let lent = unsafe { endpoint.link_mut().memory.lending.lend(Way::In, start, len) };
        lent.map(RecvMemory::Lent)
    }

    fn source_memory(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
        part: Range<usize>,
    ) -> Option<SendMemory> {
        let Config { protocol, c0_bytes, .. } = *endpoint.config();
        if !protocol.uses_registered() || part.len() <= c0_bytes as usize {
            return None;
        }
        endpoint.link_mut().memory.lending.lend_source(memory, part.start, protocol == Protocol::Auto)
    }

    unsafe fn destination_memory(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
    ) -> Option<RecvMemory> {
        let Config { protocol, c0_bytes, .. } = *endpoint.config();
        if !protocol.uses_registered() || memory.len() <= c0_bytes as usize {
            return None;
        }
        let lending = &mut endpoint.link_mut().memory.lending;
        // SAFETY: 1. The caller promises it. 2. Whoever sets `trusts_peer` promises it.
        unsafe { lending.lend_destination(memory, self.trusts_peer) }
    }

    fn register(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
        _: bool,
    ) -> Option<Registered> {
        let has_registered = endpoint.link_mut().memory.lending.register_ahead(memory);
        Some(if has_registered { Registered::Ready } else { Registered::Refused })
    }

    fn tend(&mut self, endpoint: &mut Endpoint<Self>) {
        endpoint.link_mut().memory.lending.trim();
    }

    fn take_back(&mut self, endpoint: &mut Endpoint<Self>, way: Way, is_released: bool) {
        let RdmaLink { connection, memory, .. } = endpoint.link_mut();
        if !is_released && memory.lending.is_in_use(way) {
            connection.end_link();
        }
        let has_ended = connection.state != State::Open;
        memory.lending.take_back(way, has_ended);
    }

    fn begin_sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> Result<u64, SleepEnd> {
        sleep::begin(self, endpoint, timeout_ns, false)
    }

    fn begin_polled_sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> Result<u64, SleepEnd> {
        sleep::begin(self, endpoint, timeout_ns, true)
    }

    fn set_polled_by(&self, link: &mut RdmaLink, by: Option<Owner>) {
        link.connection.set_polled_by(by);
    }

    fn sleep_interests<'a>(&self, link: &'a RdmaLink) -> [PollFd<'a>; 2] {
        link.connection.sleep_interests()
    }

    fn end_sleep(
        &self,
        endpoint: &mut Endpoint<Self>,
        polled: Result<Polled, OsError>,
        fds: [PollFd<'_>; 2],
    ) -> SleepEnd {
        sleep::end(endpoint, polled, fds)
    }
}
