//! The harness's transport over iceoryx2, for transport.h.
//!
//! iceoryx2 passes references to samples in shared memory. superpipe's users have their data in memory of their own, and
//! receive into memory of their own; so by default a message is copied into a sample and out of it. With
//! `PEER_ZERO_COPY=1` in the environment nothing is copied, as when sender and receiver work in the samples. With `PEER_IN_PLACE=1` they do work there:
//! the sender writes every word, and the receiver reads and compares every word.

mod link;
#[path = "../../../src/work.rs"]
mod work;

use core::cell::RefCell;
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::slice;
use std::{env, process};

use iceoryx2::prelude::{LogLevel, set_log_level};
use link::{Failure, Link};

const VERSION: &str = "iceoryx2 0.10.0";

unsafe extern "C" {
    safe fn pair_fork() -> bool;
    safe fn pair_meet();
    safe fn pair_join();
}

struct State {
    is_client: bool,
    zero_copy: bool,
    in_place: bool,
    /// the last message that was written, and the last one that was read, in place
    numbers: [u64; 2],
    /// the same in both processes, another one in each run
    name: String,
    link: Option<Link>,
    /// destination of a slot's message
    targets: [(*mut u8, usize); WINDOW],
    is_receive: [bool; WINDOW],
}

/// As in transport.h.
const WINDOW: usize = 64;

thread_local! {
    // The harness calls from one thread.
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

fn with<R>(work: impl FnOnce(&mut State) -> Result<R, Failure>) -> R {
    STATE.with_borrow_mut(|state| {
        let outcome = state.as_mut().ok_or_else(|| "the transport is not open".into()).and_then(work);
        outcome.unwrap_or_else(|failure| {
            eprintln!("error: {failure}");
            process::exit(1)
        })
    })
}

impl State {
    /// Returns true if a message's bytes move from buffer to buffer.
    const fn copies(&self) -> bool {
        !self.zero_copy && !self.in_place
    }

    fn link(&mut self) -> Result<&mut Link, Failure> {
        self.link.as_mut().ok_or_else(|| "no size was prepared".into())
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Failure> {
        if self.in_place {
            self.numbers[0] += 1;
            let first = work::first_word(self.numbers[0]);
            self.link()?.send_written(message.len(), |sample| work::write(first, sample))
        } else if self.zero_copy {
            self.link()?.send_in_place(message.len())
        } else {
            self.link()?.send_copy(message)
        }
    }

    /// # Safety
    /// `to` is writable for `bytes`, and nobody else uses it meanwhile.
    unsafe fn receive(&mut self, to: *mut u8, bytes: usize) -> Result<(), Failure> {
        let (copies, in_place, mut received_bytes) = (self.copies(), self.in_place, 0);
        self.numbers[1] += 1;
        let (first, mut is_right) = (work::first_word(self.numbers[1]), true);
        self.link()?.receive(|message| {
            received_bytes = message.len();
            if in_place {
                is_right = work::read(first, message);
            } else if copies && message.len() == bytes {
                // SAFETY: as this function's; a sample is memory of iceoryx2's own, so the two don't overlap.
                unsafe { to.copy_from_nonoverlapping(message.as_ptr(), bytes) };
            }
        })?;
        if received_bytes != bytes {
            return Err(format!("{received_bytes} bytes, not {bytes}").into());
        }
        if is_right {
            Ok(())
        } else {
            Err(format!("wrong contents: message {} of {bytes} bytes", self.numbers[1]).into())
        }
    }
}

/// transport.h
#[unsafe(no_mangle)]
pub extern "C" fn transport_open(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> bool {
    let name = process::id().to_string();
    let is_client = pair_fork();
    set_log_level(LogLevel::Error);
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| value == "1");
    let (zero_copy, in_place) = (is_set("PEER_ZERO_COPY"), is_set("PEER_IN_PLACE"));
    let state = State {
        is_client,
        zero_copy,
        in_place,
        numbers: [0; 2],
        name,
        link: None,
        targets: [(core::ptr::null_mut(), 0); WINDOW],
        is_receive: [false; WINDOW],
    };
    STATE.set(Some(state));
    is_client
}

/// transport.h
#[unsafe(no_mangle)]
pub extern "C" fn transport_prepare(bytes_max: usize) {
    with(|state| {
        state.link = None;
        pair_meet();
        state.link = Some(Link::new(&state.name, state.is_client, bytes_max, || pair_meet())?);
        Ok(())
    });
}

/// transport.h
#[unsafe(no_mangle)]
pub extern "C" fn transport_copies() -> bool {
    with(|state| Ok(state.copies()))
}

/// transport.h
///
/// # Safety
/// `text` is writable for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transport_version(text: *mut c_char, bytes: usize) {
    let kept = VERSION.len().min(bytes.saturating_sub(1));
    // SAFETY: kept + 1 <= bytes, which the caller promises to be writable, unless bytes is 0.
    unsafe {
        text.cast::<u8>().copy_from_nonoverlapping(VERSION.as_ptr(), kept);
        text.add(kept).write(0);
    }
}

/// transport.h
///
/// # Safety
/// `from` is readable for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transport_send(from: *const c_void, bytes: usize) {
    // SAFETY: the caller's promise.
    let message = unsafe { slice::from_raw_parts(from.cast::<u8>(), bytes) };
    with(|state| {
        state.link()?.end_stream()?;
        state.send(message)
    });
}

/// transport.h
///
/// # Safety
/// `to` is writable for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transport_recv(to: *mut c_void, bytes: usize) {
    with(|state| {
        state.link()?.end_stream()?;
        // SAFETY: the caller's promise.
        unsafe { state.receive(to.cast(), bytes) }
    });
}

/// transport.h: a message is published at once, or as soon as there is room.
///
/// # Safety
/// As `transport_send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transport_start_send(slot: c_uint, from: *const c_void, bytes: usize) {
    // SAFETY: the caller's promise.
    let message = unsafe { slice::from_raw_parts(from.cast::<u8>(), bytes) };
    with(|state| {
        state.is_receive[slot as usize] = false;
        state.link()?.await_credit()?;
        state.send(message)
    });
}

/// transport.h: messages arrive in order, so the slots that are finished in order need only be remembered.
///
/// # Safety
/// `to` is writable for `bytes` until the slot is finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transport_start_recv(slot: c_uint, to: *mut c_void, bytes: usize) {
    with(|state| {
        state.targets[slot as usize] = (to.cast(), bytes);
        state.is_receive[slot as usize] = true;
        Ok(())
    });
}

/// transport.h
#[unsafe(no_mangle)]
pub extern "C" fn transport_finish(slot: c_uint) {
    with(|state| {
        let (to, bytes) = state.targets[slot as usize];
        if !state.is_receive[slot as usize] {
            return Ok(());
        }
        // SAFETY: `transport_start_recv` was promised that the target stays writable until now.
        unsafe { state.receive(to, bytes) }?;
        state.link()?.give_credit()
    });
}

/// transport.h
#[unsafe(no_mangle)]
pub extern "C" fn transport_close() {
    STATE.set(None);
    pair_join();
}
