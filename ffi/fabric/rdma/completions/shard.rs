//! A CQ that connections of one poller share, with one completion channel, and the share of a connection in it.
//!
//! **Room is reserved**: a shard has as many slots as its CQ has room for all that a connection can have posted, flushed requests included. A slot is free again once the QP is destroyed and
//! all that was in the CQ is polled. So no connection can make the CQ overflow, nor can one that fails.
//!
//! **A poll takes the completions of all connections**, under a lock, until there is one of the caller or the CQ is empty. Those of others go to their inboxes.
//!
//! **The thread that takes an event requests the next one** if another connection sleeps. The poller, while it is awake, looks at its shards instead: connections that it polls would otherwise make an event for each message.

use super::shared_wakeup::SharedWakeup;
use super::slots::{Slots, Wake};
use super::work_id::WorkIds;
use super::{Completed, POLLED};
use crate::os::poll::PollFd;
use crate::os::wakeup::Wakeup;
use core::sync::atomic::AtomicBool;
use spin::mutex::{SpinMutex, SpinMutexGuard};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use superpipe_core::polling::Owner;
use superpipe_verbs::{CmId, CompChannel, Context, Cq, Error, Wc};

/// A shared CQ. Fields are dropped in this order.
#[derive(Debug)]
pub(super) struct Shard {
    state: SpinMutex<State>,
    cq: Cq,
    events: CompChannel,
    context: Context,
    /// Wakes the poller, whose number this is.
    poller: Wakeup,
    number: u32,
    /// The poller watches the channel.
    pub(super) is_watched: AtomicBool,
    /// Keeps the device open for librdmacm: ids of connections come and go.
    _device_holder: CmId,
}

#[derive(Debug)]
struct State {
    slots: Slots,
    /// The channel reports what comes next.
    is_armed: bool,
    /// The CQ cannot be polled any more.
    broken: Option<Error>,
    polled: [Wc; POLLED],
}

/// Polls that empty a CQ, at most: more comes while it is polled.
const POLLS_MAX: u32 = 1 << 12;

impl Shard {
    /// Makes a shard of so many slots, with room for `depth` completions of each.
    pub(super) fn new(
        device_holder: CmId,
        context: Context,
        slots: u16,
        depth: u32,
        poller: Wakeup,
        number: u32,
    ) -> Result<Self, Error> {
        let events = CompChannel::create(&context)?;
        let cq = Cq::create(&context, depth * u32::from(slots), Some(&events))?;
        let polled = [Wc::default(); POLLED];
        let state = State { slots: Slots::new(slots), is_armed: false, broken: None, polled };
        let is_watched = AtomicBool::new(false);
        Ok(Self {
            state: SpinMutex::new(state),
            cq,
            events,
            context,
            poller,
            number,
            is_watched,
            _device_holder: device_holder,
        })
    }

    /// Returns true if it is of the same open device.
    pub(super) fn is_of(&self, context: &Context) -> bool {
        self.context.is_same(context)
    }

    /// Returns the number of its slots.
    pub(super) fn slots(&self) -> usize {
        self.lock().slots.count()
    }

    /// Returns the channel of its events.
    pub(super) fn channel(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Takes a slot, if one is free.
    pub(super) fn share(self: &Arc<Self>) -> Option<CqShare> {
        let (slot, ids) = self.lock().slots.take()?;
        let shard = Arc::clone(self);
        Some(CqShare {
            shard,
            slot,
            ids,
            polled_by: None,
            shared_wakeup: None,
            is_established: false,
            sleep: Sleep::Awake,
        })
    }

    /// Takes the numbers of connections that the poller is to wake, as many as there is room for. `has_event`: the channel is readable.
    pub(super) fn look<const N: usize>(&self, has_event: bool, woken: &mut heapless::Vec<u64, N>) {
        let has_event = has_event && self.take_events();
        let mut state = self.lock();
        state.slots.does_poller_sleep = false;
        if has_event {
            state.is_armed = false;
            self.empty(&mut state);
        } else if state.slots.has_sleepers() {
            self.poll_batch(&mut state);
        }
        while !woken.is_full()
            && let Some(number) = state.slots.take_woken()
        {
            let _ = woken.push(number);
        }
        self.arm_for_sleepers(&mut state);
    }

    /// Has an event wake the poller. Returns true if it has connections to wake already.
    pub(super) fn arm_for_poller(&self) -> bool {
        let mut state = self.lock();
        if !state.slots.has_sleepers() {
            return false;
        }
        self.arm(&mut state);
        self.empty(&mut state);
        state.slots.does_poller_sleep = !state.slots.has_woken();
        state.slots.has_woken()
    }

    /// Asks for an event.
    fn arm(&self, state: &mut State) {
        if !state.is_armed {
            match self.cq.request_notify() {
                Ok(()) => state.is_armed = true,
                Err(error) => self.fail(state, error),
            }
        }
    }

    /// Asks for an event, if one was taken that somebody else needs.
    fn arm_for_sleepers(&self, state: &mut State) {
        if !state.is_armed && state.slots.needs_event() {
            self.arm(state);
            self.empty(state);
        }
    }

    /// Takes what the channel reports. Returns true if there was something.
    fn take_events(&self) -> bool {
        let mut is_some = false;
        loop {
            match self.events.try_event() {
                Ok(Some(_)) => is_some = true,
                // The end of the device is found by polling.
                Ok(None) | Err(_) => return is_some,
            }
        }
    }

    /// Polls until the CQ is empty.
    fn empty(&self, state: &mut State) {
        for _ in 0..POLLS_MAX {
            if self.poll_batch(state) < POLLED {
                return;
            }
        }
    }

    /// Polls a batch, and gives each completion to its connection. Returns their number.
    #[inline]
    fn poll_batch(&self, state: &mut State) -> usize {
        let State { slots, polled, .. } = state;
        let count = match self.cq.poll(polled) {
            Ok(count) => count,
            Err(error) => {
                self.fail(state, error);
                return 0;
            }
        };
        for wc in &polled[..count] {
            self.wake(slots.deliver(wc.id(), Completed::of(wc)));
        }
        count
    }

    fn wake(&self, whom: Wake) {
        match whom {
            Wake::Nobody => {}
            Wake::Poller => self.poller.wake(),
            Wake::Sleeper(wakeup) => wakeup.wake(),
        }
    }

    /// Notes that the CQ is broken, which each connection finds when it polls.
    #[cold]
    fn fail(&self, state: &mut State, error: Error) {
        if state.broken.replace(error).is_none() {
            state.slots.wake_all(|whom| self.wake(whom));
        }
    }

    fn lock(&self) -> SpinMutexGuard<'_, State> {
        loop {
            if let Some(state) = self.state.try_lock() {
                return state;
            }
            // Its holder may need this core.
            thread::yield_now();
        }
    }
}

/// The part of a connection in a shared CQ: a slot. To be dropped after the QP.
#[derive(Debug)]
pub(in crate::fabric::rdma) struct CqShare {
    shard: Arc<Shard>,
    slot: u16,
    ids: WorkIds,
    polled_by: Option<Owner>,
    /// Made for the first sleep that the poller of the shard does not end.
    shared_wakeup: Option<SharedWakeup>,
    /// It is established, and not one of many attempts.
    is_established: bool,
    sleep: Sleep,
}

/// State of a connection's sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleep {
    Awake,
    ByPoller,
    Alone,
    /// Nothing wakes it.
    Unwoken,
}

impl CqShare {
    pub(super) fn cq(&self) -> &Cq {
        &self.shard.cq
    }

    pub(super) const fn work_ids(&self) -> WorkIds {
        self.ids
    }

    /// Polls until there is something for this connection, or the CQ is empty. That ends: what others have posted is bounded, and is not posted again before they take it.
    #[inline]
    pub(super) fn poll(&mut self, into: &mut [Completed; POLLED]) -> Result<usize, Error> {
        let mut state = self.shard.lock();
        // Nothing means that nothing is there: it decides whether a peer that has ended said so before.
        let mut is_empty = false;
        while !is_empty && !state.slots.has_some(self.slot) {
            is_empty = self.shard.poll_batch(&mut state) < POLLED;
        }
        match state.slots.collect(self.slot, into) {
            0 => state.broken.clone().map_or(Ok(0), Err),
            count => Ok(count),
        }
    }

    /// Begins a sleep. One that the poller ends does not begin if there are completions already. The caller polls once more.
    pub(super) fn arm(&mut self, is_by_poller: bool) -> Result<(), Error> {
        if let Some(Owner { number, .. }) =
            self.polled_by.filter(|owner| is_by_poller && owner.set == self.shard.number)
        {
            let mut state = self.shard.lock();
            self.shard.poll_batch(&mut state);
            if !state.slots.has_some(self.slot) {
                state.slots.sleep_by_poller(self.slot, number);
                self.sleep = Sleep::ByPoller;
            }
            return Ok(());
        }
        let Some(wakeup) = self.wakeup() else {
            self.sleep = Sleep::Unwoken;
            return Ok(());
        };
        let mut state = self.shard.lock();
        state.slots.sleep_alone(self.slot, wakeup);
        self.sleep = Sleep::Alone;
        self.shard.arm(&mut state);
        self.shard.empty(&mut state);
        state.broken.clone().map_or(Ok(()), Err)
    }

    pub(super) fn disarm(&mut self) -> Result<(), Error> {
        let has_event = self.sleep == Sleep::Alone && {
            self.shared_wakeup.iter().for_each(SharedWakeup::quiet);
            self.shard.take_events()
        };
        if core::mem::replace(&mut self.sleep, Sleep::Awake) == Sleep::Unwoken {
            return Ok(());
        }
        let mut state = self.shard.lock();
        state.slots.wake(self.slot);
        if has_event {
            state.is_armed = false;
            self.shard.empty(&mut state);
            self.shard.arm_for_sleepers(&mut state);
        }
        Ok(())
    }

    pub(super) const fn note_established(&mut self) {
        self.is_established = true;
    }

    pub(super) fn set_polled_by(&mut self, by: Option<Owner>) {
        self.polled_by = by;
        match by {
            // What it needed before, if it waited by itself.
            Some(owner) if owner.set == self.shard.number => self.shared_wakeup = None,
            // Another poller watches it.
            Some(_) => _ = self.wakeup(),
            None => {}
        }
    }

    pub(super) fn interest(&self) -> PollFd<'_> {
        let is_by_poller =
            self.sleep != Sleep::Alone && self.polled_by.is_some_and(|owner| owner.set == self.shard.number);
        match &self.shared_wakeup {
            Some(shared_wakeup) if !is_by_poller => shared_wakeup.interest(),
            Some(_) | None => PollFd::none(),
        }
    }

    /// Returns true unless nothing wakes it, in the sleep that was begun last.
    pub(super) const fn is_woken(&self) -> bool {
        !matches!(self.sleep, Sleep::Unwoken)
    }

    /// Returns what wakes it from sleeps that the poller of the shard does not end. None: it has none while it is being made, or this process has no descriptors left.
    fn wakeup(&mut self) -> Option<Wakeup> {
        if self.shared_wakeup.is_none() && self.is_established {
            self.shared_wakeup = SharedWakeup::new(self.shard.channel()).ok();
        }
        self.shared_wakeup.as_ref().map(SharedWakeup::wakeup)
    }
}

impl Drop for CqShare {
    /// Frees the slot: what the QP had posted is in the CQ, since the QP is destroyed, and is polled before another connection can have the room.
    fn drop(&mut self) {
        let mut state = self.shard.lock();
        self.shard.empty(&mut state);
        state.slots.free(self.slot);
    }
}
