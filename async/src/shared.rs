//! A connection whose two directions may be used by two tasks.

use core::future::poll_fn;
use core::hint;
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Instant;

use superpipe::{Arming, Error, Interest, WaitableConnection};
use tokio::task::coop;

use crate::ready::{BUSY_MAX, Source};
use crate::recv::Receiving;

/// Attempts between two looks at the time while a future spins.
const ATTEMPTS_PER_LOOK: u32 = 16;

/// One of the two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Send,
    Recv,
}

/// Result of an attempt that did not fail.
pub(crate) enum Attempt<T> {
    Done(T),
    /// A part was done, and more may be possible at once.
    Moved,
    /// Nothing can be done before this.
    Wait(WaitFor),
}

/// What an attempt waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// Something that can be taken.
    Readable,
    /// Room to send.
    Writable,
    /// The rest of a message, of which a part is here.
    Rest,
    /// Acknowledgements, which may come without a wake-up.
    Acknowledged,
}

/// What both directions share.
#[derive(Debug)]
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    wakers: Arc<Wakers>,
    /// Wakes both tasks.
    both: Waker,
}

#[derive(Debug)]
pub(crate) struct Inner {
    source: Source<WaitableConnection>,
    /// What each side waits for.
    waits: [Option<WaitFor>; 2],
    /// Time after which acknowledgements are looked for.
    look_after: LookAfter,
    /// The peer's activity when a side last looked.
    activity: u64,
    /// Message that is received into a buffer of this connection.
    pub(crate) receiving: Option<Receiving>,
    /// Buffer for the next one.
    pub(crate) spare: Vec<u8>,
}

/// Time after which to look for acknowledgements that may come without a wake-up: twice as long each time.
#[derive(Clone, Copy, Debug)]
struct LookAfter(Duration);

impl LookAfter {
    const FIRST: Self = Self(Duration::from_micros(100));
    const MAX: Duration = Duration::from_millis(50);

    fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (2 * now).min(Self::MAX);
        now
    }
}

/// Tasks that wait.
#[derive(Debug, Default)]
struct Wakers([Mutex<Option<Waker>>; 2]);

impl Wakers {
    /// Sets the task of a side. Returns the one before, which is not to be dropped under a lock: it may own what drops a stream.
    #[must_use]
    fn set(&self, side: Side, waker: &Waker) -> Option<Waker> {
        let mut place = lock(&self.0[side as usize]);
        match &mut *place {
            Some(before) if before.will_wake(waker) => None,
            place => place.replace(waker.clone()),
        }
    }

    fn take(&self, side: Side) -> Option<Waker> {
        lock(&self.0[side as usize]).take()
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        for side in [Side::Send, Side::Recv] {
            self.take(side).into_iter().for_each(Waker::wake);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Send => Self::Recv,
            Self::Recv => Self::Send,
        }
    }
}

impl Inner {
    /// Returns the connection, for a try.
    pub(crate) fn connection(&mut self) -> &mut superpipe::Connection {
        self.source.get_mut().connection_for_tries()
    }

    /// Asks for a wake-up for what both sides wait for.
    fn arm(&mut self) -> Arming {
        let wants = |what| self.waits.contains(&Some(what));
        let interest = Interest { readable: wants(WaitFor::Readable), writable: wants(WaitFor::Writable) };
        let at_most = if wants(WaitFor::Acknowledged) { self.look_after.next() } else { Duration::MAX };
        self.source.get_mut().arm_within(interest, at_most)
    }

    /// Returns true if something arrived since this was asked last.
    fn has_heard(&mut self) -> bool {
        let activity = self.source.get_mut().activity();
        core::mem::replace(&mut self.activity, activity) != activity
    }
}

impl Shared {
    pub(crate) fn new(source: Source<WaitableConnection>) -> Self {
        let inner = Inner {
            source,
            waits: [None; 2],
            look_after: LookAfter::FIRST,
            activity: 0,
            receiving: None,
            spare: Vec::new(),
        };
        let wakers = Arc::new(Wakers::default());
        Self { inner: Mutex::new(inner), both: Waker::from(Arc::clone(&wakers)), wakers }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Takes the connection out of the runtime.
    pub(crate) fn into_blocking(self) -> superpipe::Connection {
        let inner = self.inner.into_inner().unwrap_or_else(PoisonError::into_inner);
        inner.source.into_inner().into_connection()
    }

    /// Makes attempts of one side until one is done. Spins for so long before it waits.
    pub(crate) async fn until<T, E: From<Error>>(
        &self,
        side: Side,
        spin: Duration,
        mut attempt: impl FnMut(&mut Inner) -> Result<Attempt<T>, E>,
    ) -> Result<T, E> {
        let wish = Wish { shared: self, side };
        let result = poll_fn(|cx| self.poll(side, spin, cx, &mut attempt)).await;
        // It waits for nothing any more.
        core::mem::forget(wish);
        result
    }

    /// The same, for one poll. Who drops what it polls calls [`forget`](Self::forget).
    pub(crate) fn poll<T, E: From<Error>>(
        &self,
        side: Side,
        spin: Duration,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&mut Inner) -> Result<Attempt<T>, E>,
    ) -> Poll<Result<T, E>> {
        let progress = ready!(coop::poll_proceed(cx));
        let (mut begin, mut attempts, mut busy) = (None, 0_u32, 0);
        while busy < BUSY_MAX {
            let mut inner = self.lock();
            let wait_for = match attempt(&mut inner) {
                Ok(Attempt::Moved) => {
                    busy += 1;
                    continue;
                }
                Ok(Attempt::Wait(wait_for)) => wait_for,
                Ok(Attempt::Done(value)) => {
                    progress.made_progress();
                    self.end(side, inner);
                    return Poll::Ready(Ok(value));
                }
                Err(error) => {
                    progress.made_progress();
                    self.end(side, inner);
                    return Poll::Ready(Err(error));
                }
            };
            if goes_on(spin, &mut begin, &mut attempts) {
                drop(inner);
                hint::spin_loop();
                continue;
            }
            inner.waits[side as usize] = Some(wait_for);
            let waker_before = self.wakers.set(side, cx.waker());
            let is_busy = inner.arm() == Arming::Busy;
            // What this side has read may be what the other waits for, and a side whose future was dropped waits for nothing.
            let has_heard = inner.has_heard();
            let other = if is_busy || has_heard { self.release(side.other(), &mut inner) } else { None };
            let waited = if is_busy {
                None
            } else {
                match inner.source.get_mut().check_silence() {
                    Ok(()) => Some(inner.source.poll_ready(&mut Context::from_waker(&self.both))),
                    Err(silent) => Some(Poll::Ready(Err(silent))),
                }
            };
            if let Some(Poll::Ready(Err(_))) = waited {
                inner.waits[side as usize] = None;
            }
            drop(inner);
            // They may do anything, also use this connection.
            drop(waker_before);
            other.into_iter().for_each(Waker::wake);
            match waited {
                None | Some(Poll::Ready(Ok(()))) => busy += 1,
                Some(Poll::Ready(Err(error))) => {
                    progress.made_progress();
                    return Poll::Ready(Err(error.into()));
                }
                Some(Poll::Pending) => return Poll::Pending,
            }
        }
        // Others have their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Notes that a side waits no more, since it is done. The connection stays armed for the other one.
    fn end(&self, side: Side, mut inner: MutexGuard<'_, Inner>) {
        inner.waits[side as usize] = None;
        match side {
            // The task may do something else for long, and the peer may wait for the acknowledgement.
            Side::Recv => inner.source.get_mut().settle(),
            Side::Send => inner.look_after = LookAfter::FIRST,
        }
        let other = if inner.has_heard() { self.release(side.other(), &mut inner) } else { None };
        drop(inner);
        other.into_iter().for_each(Waker::wake);
    }

    /// Has a side wait no more, whose task is to be woken: it waits again if there is nothing for it. Returns the task, to be woken without the lock.
    #[must_use]
    fn release(&self, side: Side, inner: &mut Inner) -> Option<Waker> {
        inner.waits[side as usize].take().and_then(|_| self.wakers.take(side))
    }

    /// Notes that what a side waited for was dropped.
    pub(crate) fn forget(&self, side: Side) {
        let mut inner = self.lock();
        inner.waits[side as usize] = None;
        let waker = self.wakers.take(side);
        drop(inner);
        drop(waker);
    }

    /// Uses the connection outside of an attempt, such as to cancel something, and has the other side look: what was heard meanwhile may be for it.
    pub(crate) fn with_connection<T>(&self, side: Side, f: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.lock();
        let value = f(&mut inner);
        let other = self.release(side.other(), &mut inner);
        drop(inner);
        other.into_iter().for_each(Waker::wake);
        value
    }
}

/// What a future waits for. It is forgotten when the future is dropped.
struct Wish<'a> {
    shared: &'a Shared,
    side: Side,
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.shared.forget(self.side);
    }
}

/// Returns true while a future spins that began to at `begin`.
fn goes_on(spin: Duration, begin: &mut Option<Instant>, attempts: &mut u32) -> bool {
    if spin.is_zero() {
        return false;
    }
    *attempts += 1;
    let begin = *begin.get_or_insert_with(Instant::now);
    !attempts.is_multiple_of(ATTEMPTS_PER_LOOK) || begin.elapsed() < spin
}
