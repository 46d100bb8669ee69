//! A CQ and a completion channel of one connection.

use super::{Completed, POLLED};
use crate::os::poll::PollFd;
use std::os::fd::AsFd;
use superpipe_verbs::{CompChannel, Context, Cq, Error, Wc};

#[derive(Debug)]
pub(in crate::fabric::rdma) struct OwnQueue {
    cq: Cq,
    events: CompChannel,
    /// The channel reports what comes next.
    is_armed: bool,
    polled: [Wc; POLLED],
}

impl OwnQueue {
    pub(super) fn new(context: &Context, depth: u32) -> Result<Self, Error> {
        let events = CompChannel::create(context)?;
        let cq = Cq::create(context, depth, Some(&events))?;
        Ok(Self { cq, events, is_armed: false, polled: [Wc::default(); POLLED] })
    }

    pub(super) const fn cq(&self) -> &Cq {
        &self.cq
    }

    #[inline]
    pub(super) fn poll(&mut self, into: &mut [Completed; POLLED]) -> Result<usize, Error> {
        let count = self.cq.poll(&mut self.polled)?;
        for (to, wc) in into.iter_mut().zip(&self.polled[..count]) {
            *to = Completed::of(wc);
        }
        Ok(count)
    }

    pub(super) fn arm(&mut self) -> Result<(), Error> {
        if !self.is_armed {
            self.cq.request_notify()?;
            self.is_armed = true;
        }
        Ok(())
    }

    /// Takes the events of the channel, which disarms it.
    pub(super) fn take_events(&mut self) -> Result<(), Error> {
        loop {
            let event = self.events.try_event();
            if matches!(event, Ok(None)) {
                return Ok(());
            }
            self.is_armed = false;
            event?;
        }
    }

    pub(super) fn interest(&self) -> PollFd<'_> {
        PollFd::new(self.events.as_fd(), libc::POLLIN)
    }
}
