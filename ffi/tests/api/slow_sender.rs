//! A sender that is stopped between two groups of blocks of a message: the bytes of its second group cannot be read until the test
//! says so. Reading them raises SIGSEGV, whose handler waits and then makes them readable.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use core::time::Duration;
use core::{ptr, slice};
use std::sync::Once;
use std::thread;
use std::time::Instant;

use superpipe::{ErrorKind, Received};

use crate::support::{DEADLINE, bytes, pair};

/// Three groups of 16 KiB and three quarters of one: one chunk.
const BYTES: usize = 60 << 10;
/// From one message to the next, so that each begins with a page, of 16 KiB at most.
const STRIDE: usize = 64 << 10;
/// The first group.
const READABLE: usize = 16 << 10;
const MESSAGES: usize = 3;

/// The messages that cannot be read whole, one after the other.
static MEMORY: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// Messages at whose second group the sender has come, and up to which it may go on.
static REACHED: AtomicUsize = AtomicUsize::new(0);
static ALLOWED: AtomicUsize = AtomicUsize::new(0);

/// Lets the sender go on, also where the test fails.
struct Gate;

impl Gate {
    /// Waits until the sender is stopped in message `number`.
    fn await_stop(&self, number: usize) {
        let begun = Instant::now();
        while REACHED.load(Ordering::Acquire) < number {
            assert!(begun.elapsed() < DEADLINE, "the sender does not come to message {number}");
            thread::yield_now();
        }
    }

    /// Lets it go on in message `number`.
    fn open(&self, number: usize) {
        ALLOWED.store(number, Ordering::Release);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open(usize::MAX);
    }
}

extern "C" fn on_fault(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid siginfo_t, and that of SIGSEGV has an address.
    let at = unsafe { (*info).si_addr() } as usize;
    let memory = MEMORY.load(Ordering::Acquire);
    let Some(number) = at.checked_sub(memory as usize).map(|at| at / STRIDE).filter(|i| *i < MESSAGES) else {
        // SAFETY: signal is async-signal-safe; the access is repeated, and ends the process.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        return;
    };
    REACHED.store(number + 1, Ordering::Release);
    while ALLOWED.load(Ordering::Acquire) <= number {
        // SAFETY: sched_yield has no conditions.
        unsafe { libc::sched_yield() };
    }
    // SAFETY: the message is inside the mapping at `memory`, which is never unmapped.
    unsafe { libc::mprotect(memory.add(number * STRIDE).cast(), BYTES, libc::PROT_READ) };
}

/// The messages, each with its first group readable and the rest not. Once a process.
fn messages() -> [&'static [u8]; MESSAGES] {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let (all, flags) = (MESSAGES * STRIDE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping where the kernel likes.
        let memory =
            unsafe { libc::mmap(ptr::null_mut(), all, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        assert!(memory != libc::MAP_FAILED);
        let memory = memory.cast::<u8>();
        for number in 0..MESSAGES {
            let content = bytes(number as u64, BYTES);
            // SAFETY: both are valid for BYTES bytes, and apart.
            unsafe { ptr::copy_nonoverlapping(content.as_ptr(), memory.add(number * STRIDE), BYTES) };
            // SAFETY: inside the mapping, to which no reference exists yet; the rest begins with a page.
            let rest = unsafe { memory.add(number * STRIDE + READABLE) };
            // SAFETY: the range is inside the mapping, to which no reference exists yet.
            assert_eq!(unsafe { libc::mprotect(rest.cast(), BYTES - READABLE, libc::PROT_NONE) }, 0);
        }
        MEMORY.store(memory, Ordering::Release);
        // SAFETY: zero is a valid sigaction.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler calls only what is async-signal-safe.
        assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut()) }, 0);
    });
    let memory = MEMORY.load(Ordering::Acquire);
    // SAFETY: the mapping is valid for as long as the process lives, and nobody writes it any more. Bytes that cannot be
    // read yet can be when the handler returns.
    core::array::from_fn(|number| unsafe { slice::from_raw_parts(memory.add(number * STRIDE), BYTES) })
}

/// Three messages in a row are left unfinished: the second REJECT waits for the first, and the third message comes meanwhile.
#[test]
fn the_rest_of_a_message_that_timed_out_is_no_message() {
    const LAST: u64 = MESSAGES as u64;
    let (mut a, mut b) = pair();
    let gate = Gate;
    let sender = thread::spawn(move || {
        for (tag, message) in messages().into_iter().enumerate() {
            a.send(tag as u64, &[message], DEADLINE).unwrap();
        }
        a.send(LAST, &[&bytes(LAST, BYTES)], DEADLINE).unwrap();
        a.flush(DEADLINE).unwrap();
    });
    let mut buffer = vec![0; BYTES];
    for number in 1..=MESSAGES {
        gate.await_stop(number);
        let received = b.recv_into(&mut [&mut buffer], Duration::from_millis(5));
        assert_eq!(received.map_err(|error| error.kind()), Err(ErrorKind::Timeout), "message {number}");
        gate.open(number);
    }
    loop {
        let Received { tag, bytes: length } = b.recv_into(&mut [&mut buffer], DEADLINE).unwrap();
        assert_eq!(length, BYTES, "of message {tag}");
        assert!(buffer == bytes(tag, BYTES), "message {tag}");
        // Of the third nothing need have been shown when the time was over: then it comes whole.
        assert!(tag + 1 >= LAST, "message {tag} was begun");
        if tag == LAST {
            break;
        }
    }
    sender.join().unwrap();
}
