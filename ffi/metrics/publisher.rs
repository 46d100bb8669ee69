//! Publishing the page of this process.

use core::fmt;
use core::time::Duration;
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::thread;
use std::time::Instant;

use super::current;
use super::page::Page;
use super::shape::{CONNECTIONS_LIMIT, Shape};
use crate::error::{Error, ErrorKind};
use crate::os::monotonic_ns;

/// Pollers that a page lists: one per thread that drives connections, on machines of that many cores that move data.
const POLLERS: u64 = 16;

/// Longest wait for another thread that publishes, which takes it less than a millisecond.
const LOCK_WAIT: Duration = Duration::from_secs(1);
const LOCKED: &str = "cannot publish metrics: a thread of the process that made this one by fork was publishing at that moment; publish before threads are started, or in a process that was \
                      made by exec";

/// Options of [`publish`]. Set the fields that matter and take the others from the default, since later versions may add some.
#[derive(Clone, Copy, Debug)]
pub struct PublishOptions {
    /// Connections that the page can list at a time, 1 to 65,536. Each costs 520 bytes of shared memory. Further connections are counted
    /// ([`ProcessLine::connections_unlisted`](super::ProcessLine::connections_unlisted)), and listed once a line is free. Default: 1,024.
    pub connections_max: u32,
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self { connections_max: 1024 }
    }
}

/// The page of this process, which others can read as long as this value lives.
pub struct Publisher {
    _published: Arc<Published>,
}

/// What all handles share.
struct Published {
    page: Arc<Page>,
    /// Open while the page is published: others find the page by it.
    _fd: OwnedFd,
}

/// The page of this process, for later calls of [`publish`].
static PUBLISHED: Mutex<Weak<Published>> = Mutex::new(Weak::new());

/// Publishes the counters of this process's connections and pollers, those that exist already included, until the returned value is dropped. Other processes of
/// the same user, and root, can then read them: see [`Reader`](super::Reader), and the tool superpipe-top. Nothing is allocated later, and nothing stays behind when
/// the process ends, however it ends.
///
/// A connection or poller that sleeps in a call at that moment appears once it wakes.
///
/// If this process publishes already, it goes on to do so until the handles of all calls are dropped, and the options have no effect.
///
/// ```
/// # fn main() -> Result<(), superpipe::Error> {
/// use superpipe::metrics::{PublishOptions, Reader, publish};
///
/// let _publisher = publish(PublishOptions::default())?; // first of all in main
/// // connect, accept, send and receive: the page follows
/// let snapshot = Reader::open(std::process::id())?.read()?; // as any other process does
/// assert_eq!(snapshot.connections.len(), 0);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Usage`: `connections_max` is out of its range. `Limit`, `Os`: the system has no memory or no descriptor for the page. `Os`: another thread was publishing when this process was made by fork.
pub fn publish(options: PublishOptions) -> Result<Publisher, Error> {
    let shape = Shape::checked(POLLERS, u64::from(options.connections_max)).ok_or_else(|| {
        let asked = options.connections_max;
        let text =
            format!("a page of metrics lists 1 to {CONNECTIONS_LIMIT} connections, and not {asked}: set connections_max");
        Error::new(ErrorKind::Usage, text)
    })?;
    let Some(mut current) = lock_within(&PUBLISHED, LOCK_WAIT) else {
        return Err(Error::new(ErrorKind::Os, LOCKED));
    };
    // That of a parent process is not ours.
    if let Some(published) = current.upgrade().filter(|published| published.page.is_here()) {
        return Ok(Publisher { _published: published });
    }
    let (page, fd) = Page::new(shape, program_name())?;
    page.refresh_limits();
    page.copy_process(monotonic_ns());
    let published = Arc::new(Published { page: Arc::new(page), _fd: fd });
    if !current::set(&published.page) {
        return Err(Error::new(ErrorKind::Os, LOCKED));
    }
    *current = Arc::downgrade(&published);
    Ok(Publisher { _published: published })
}

/// Locks within this time. `None`: another thread has the lock, or had it when this process was made by fork, and never gives it back here.
fn lock_within<T>(mutex: &Mutex<T>, time: Duration) -> Option<MutexGuard<'_, T>> {
    let begin = Instant::now();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if begin.elapsed() >= time => return None,
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        self.page.end();
        if self.page.is_here() {
            current::unset(&self.page);
        }
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

/// Returns the name that the kernel has for this program, 15 bytes at most, filled with zeros.
fn program_name() -> [u8; 16] {
    let mut name = [0; 16];
    let read = fs::read("/proc/self/comm").unwrap_or_default();
    for (place, byte) in name.iter_mut().take(15).zip(read.strip_suffix(b"\n").unwrap_or(&read)) {
        *place = *byte;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_never_given_back_is_not_waited_for() {
        let mutex = Mutex::new(5);
        let held = mutex.lock().unwrap();
        // a thread of its own, as a child of fork has none that holds it
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock_within(&mutex, Duration::from_millis(20)).is_none());
            assert!(waiting.join().unwrap());
        });
        drop(held);
        assert_eq!(lock_within(&mutex, Duration::ZERO).as_deref(), Some(&5));
    }
}
