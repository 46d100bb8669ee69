//! Threads that connect for a poller, and give up when nobody wants the connection any more.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, thread};

use super::connecting::connect;
use super::new_connection::ReadyConnection;
use crate::address::Address;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::fabric::Shards;
use crate::options::Options;
use crate::os::wakeup::Wakeup;

/// Threads of one poller that connect, what wakes it when one ends, and what its connections share.
#[derive(Clone, Debug)]
pub(crate) struct ConnectThreads {
    count: Arc<AtomicU32>,
    most: u32,
    wakeup: Wakeup,
    shards: Option<Shards>,
}

/// A thread that connects. Dropping it has the thread give up.
#[derive(Debug)]
pub(super) struct ConnectThread {
    results: Receiver<Result<ReadyConnection, Error>>,
    flag: Arc<FlagLease>,
}

/// An interrupt flag for [`Options::interrupt`], which must live for ever: flags are used again once both the thread and its owner are done with one.
#[derive(Debug)]
struct FlagLease(&'static AtomicBool);

/// Flags that nobody uses.
static FLAGS: Mutex<Vec<&'static AtomicBool>> = Mutex::new(Vec::new());

impl FlagLease {
    fn new() -> Self {
        let free = FLAGS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self(free.unwrap_or_else(|| Box::leak(Box::new(AtomicBool::new(false)))))
    }
}

impl Drop for FlagLease {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
        FLAGS.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

/// Counts a thread until it ends, and then wakes the poller.
struct Running(ConnectThreads);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
        self.0.wakeup.wake();
    }
}

impl ConnectThreads {
    pub(crate) fn new(most: u32, wakeup: Wakeup) -> Self {
        Self { count: Arc::new(AtomicU32::new(0)), most, wakeup, shards: None }
    }

    /// Has connections share what those of a poller share.
    pub(crate) fn sharing(self, shards: Shards) -> Self {
        Self { shards: Some(shards), ..self }
    }

    /// Returns true if one more may begin.
    pub(super) fn has_room(&self) -> bool {
        self.count.load(Ordering::Relaxed) < self.most
    }

    /// Connects in a thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn begin(
        &self,
        address: &Address,
        options: Options,
        deadline_ns: u64,
    ) -> io::Result<ConnectThread> {
        let flag = Arc::new(FlagLease::new());
        let (result, results) = sync_channel(1);
        self.count.fetch_add(1, Ordering::Relaxed);
        let running = Running(self.clone());
        let (address, its_flag) = (address.clone(), Arc::clone(&flag));
        let connecting = move || {
            // Dropped last, after the result was sent and its flag given back.
            let running = running;
            let options_of_thread = Options { interrupt: Some(its_flag.0), ..options };
            let connected = connect(
                &address,
                options_of_thread,
                running.0.shards.as_ref(),
                Deadline::at_time(deadline_ns),
            );
            // Nobody takes it if the connect was given up.
            let _ = result.send(connected);
            drop(its_flag);
        };
        thread::Builder::new().name("superpipe-connect".into()).spawn(connecting)?;
        Ok(ConnectThread { results, flag })
    }
}

impl ConnectThread {
    /// Has the thread give up.
    pub(super) fn interrupt(&self) {
        self.flag.0.store(true, Ordering::Relaxed);
    }

    /// Returns the result, once there is one. `Some(None)`: the thread ended without.
    pub(super) fn poll(&self) -> Option<Option<Result<ReadyConnection, Error>>> {
        match self.results.try_recv() {
            Ok(result) => Some(Some(result)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(None),
        }
    }
}

impl Drop for ConnectThread {
    fn drop(&mut self) {
        self.interrupt();
    }
}
