//! Runtime of a program without libc: entry point, exit, and the memory functions that the compiler
//! calls by name.

use core::arch::{asm, global_asm};

global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp", // the outermost frame
    "and rsp, -16",
    "call {main}",
    "ud2",
    main = sym crate::start,
);

/// Ends the process with this code.
pub(crate) fn exit(code: u8) -> ! {
    // SAFETY: exit_group(2) takes one number and does not return.
    unsafe { asm!("syscall", in("rax") 231, in("rdi") u64::from(code), options(noreturn, nostack)) }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(101)
}

/// memcpy(3).
///
/// # Safety
/// 1. `from` is readable and `to` writable for `bytes` bytes. 2. They do not overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: the caller keeps 1 and 2; the direction flag is clear by the ABI.
    unsafe {
        asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    to
}

/// memmove(3).
///
/// # Safety
/// 1. `from` is readable and `to` writable for `bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= bytes {
        // SAFETY: the caller keeps 1; copied upwards, no byte is written before it is read.
        return unsafe { memcpy(to, from, bytes) };
    }
    // SAFETY: the caller keeps 1; copied downwards from the last byte, and the direction flag is cleared again.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") bytes => _,
            inout("rdi") to.wrapping_add(bytes).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(bytes).wrapping_sub(1) => _, options(nostack));
    }
    to
}

/// memset(3).
///
/// # Safety
/// 1. `to` is writable for `bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8 {
    // SAFETY: the caller keeps 1; the direction flag is clear by the ABI.
    unsafe {
        asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("eax") byte,
            options(nostack, preserves_flags));
    }
    to
}

/// memcmp(3).
///
/// # Safety
/// 1. `a` and `b` are readable for `bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    for index in 0..bytes {
        // SAFETY: the caller keeps 1, and the index is below `bytes`.
        let (x, y) = unsafe { (a.add(index).read_volatile(), b.add(index).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// bcmp(3).
///
/// # Safety
/// 1. `a` and `b` are readable for `bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller keeps 1.
    unsafe { memcmp(a, b, bytes) }
}
