//! Prefetch of lines for writing and for reading.
//!
//! The write of a line that the peer has read last, and the read of one that it has written last, need a request to the
//! peer's cache, which takes as long as a message. A prefetch makes the request earlier.

/// Bytes of a line on every x86-64; other architectures have no prefetch here.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// True if there are prefetches for this architecture.
pub(crate) const CAN_PREFETCH: bool = cfg!(target_arch = "x86_64");

/// Defines a prefetch of the lines of some bytes, by this instruction.
macro_rules! prefetch {
    ($(#[$doc:meta])* $name:ident, $instruction:literal) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(start: *const u8, bytes: usize) {
            #[cfg(target_arch = "x86_64")]
            for at in (0..bytes).step_by(LINE_BYTES) {
                let line = start.wrapping_add(at);
                // SAFETY: a prefetch is a hint: it never faults, whatever the address, and changes no memory, register or flag;
                // every x86-64 decodes both (PREFETCHW, where it is not implemented, as no operation).
                unsafe {
                    core::arch::asm!($instruction, in(reg) line, options(nostack, preserves_flags, readonly));
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = (start, bytes);
        }
    };
}

prefetch!(
    /// Prefetches the lines of `bytes` bytes at `start` for writing. A hint: any address is allowed, and only timing changes.
    prefetch_for_write,
    "prefetchw [{}]"
);
prefetch!(
    /// Prefetches the lines of `bytes` bytes at `start` for reading. A hint: any address is allowed, and only timing changes.
    prefetch_for_read,
    "prefetcht0 [{}]"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_changes_nothing_and_faults_nowhere() {
        let bytes = [7u8; 300];
        for prefetch in [prefetch_for_write, prefetch_for_read] {
            for length in [0, 1, 64, 65, 300] {
                prefetch(bytes.as_ptr(), length);
            }
            prefetch(core::ptr::null(), 128);
            prefetch(usize::MAX as *const u8, 128);
        }
        assert_eq!(bytes, [7; 300]);
    }
}
