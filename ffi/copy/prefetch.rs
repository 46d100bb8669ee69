//! Prefetch of lines for writing and for reading.
//!
//! The write of a line that the peer has read last needs a request to the peer's cache, which takes as long as a
//! message. A prefetch makes the request earlier.

/// Bytes of a line on every x86-64; other architectures have no prefetch here.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// Prefetches the lines of `bytes` bytes at `start` for writing. A hint: any address is allowed, and only timing changes.
#[inline]
pub fn prefetch_for_write(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(LINE_BYTES) {
        let line = start.wrapping_add(at);
        // SAFETY: PREFETCHW is a hint: it never faults, whatever the address, and changes no memory, register or flag;
        // every x86-64 decodes it (where it is not implemented, as no operation).
        unsafe {
            core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

/// Prefetches the lines of `bytes` bytes at `start` for reading. A hint, as [`prefetch_for_write`].
#[inline]
pub fn prefetch_for_read(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(LINE_BYTES) {
        let line = start.wrapping_add(at);
        // SAFETY: PREFETCHT0 is a hint: it never faults, whatever the address, and changes no memory, register or flag; every
        // x86-64 has it.
        unsafe {
            core::arch::asm!("prefetcht0 [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_changes_nothing_and_faults_nowhere() {
        let bytes = [7u8; 300];
        for length in [0, 1, 64, 65, 300] {
            prefetch_for_write(bytes.as_ptr(), length);
        }
        prefetch_for_write(core::ptr::null(), 128);
        prefetch_for_write(usize::MAX as *const u8, 128);
        assert_eq!(bytes, [7; 300]);
    }
}
