//! Copy kernels, which move the payload of a block. They stay apart from `superpipe::copy`: the limits measure the machine
//! without superpipe.

use core::ptr;

/// A way to copy bytes into the ring and out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kernel {
    /// the C library's memcpy, which decides by length and by how source and destination lie to each other
    Plain,
    /// the string instruction, always (x86-64; elsewhere the same as plain)
    Movsb,
    /// with non-temporal stores, which bypass the caches (x86-64; elsewhere the same as plain)
    Nt,
    /// memcpy of pieces, each of whose lines are fetched for writing some pieces ahead (x86-64; elsewhere the same as plain)
    Prefetch,
    /// memcpy, then the destination's lines are moved from the core's own caches to one that all cores share (CLDEMOTE, on x86-64 processors
    /// that have it; elsewhere the same as plain)
    DemoteTo,
    /// the same with the source's lines
    DemoteFrom,
}

impl Kernel {
    /// The name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Movsb => "movsb",
            Self::Nt => "nt",
            Self::Prefetch => "prefetch",
            Self::DemoteTo => "demote-to",
            Self::DemoteFrom => "demote-from",
        }
    }

    /// Copies `bytes` from `from` to `to`.
    ///
    /// # Safety
    /// 1. `from` is readable and `to` writable for `bytes`, and the two don't overlap.
    /// 2. Nobody else writes either meanwhile.
    pub unsafe fn copy(self, to: *mut u8, from: *const u8, bytes: usize) {
        match self {
            // SAFETY: the caller's 1 and 2 are what copy_nonoverlapping asks for; bytes need no alignment.
            Self::Plain => unsafe { ptr::copy_nonoverlapping(from, to, bytes) },
            // SAFETY: the caller's 1 and 2, passed on unchanged.
            Self::Movsb => unsafe { copy_movsb(to, from, bytes) },
            // SAFETY: the caller's 1 and 2, passed on unchanged.
            Self::Nt => unsafe { copy_nt(to, from, bytes) },
            Self::DemoteTo | Self::DemoteFrom => {
                // SAFETY: the caller's 1 and 2, passed on unchanged.
                unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
                demote(if self == Self::DemoteTo { to.cast_const() } else { from }, bytes);
            }
            // SAFETY: the caller's 1 and 2, passed on unchanged.
            Self::Prefetch => unsafe { copy_prefetching(to, from, bytes) },
        }
    }

    /// Makes the stores of earlier copies visible before any later store. Needed before the store that tells of a copy.
    pub fn fence(self) {
        #[cfg(target_arch = "x86_64")]
        if self == Self::Nt {
            // SAFETY: every x86-64 has SSE; the instruction only orders stores.
            unsafe { core::arch::x86_64::_mm_sfence() };
        }
    }
}

/// # Safety
/// As [`Kernel::copy`].
#[cfg(target_arch = "x86_64")]
unsafe fn copy_movsb(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: the instruction reads and writes exactly the caller's ranges, upwards, since the ABI keeps the
    // direction flag clear; it changes no register but the three named, no flag and no stack.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
}

/// # Safety
/// As [`Kernel::copy`].
#[cfg(target_arch = "x86_64")]
unsafe fn copy_nt(to: *mut u8, from: *const u8, bytes: usize) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    const LINE: usize = 64;
    let head_bytes = to.align_offset(LINE).min(bytes);
    let line_count = (bytes - head_bytes) / LINE;
    let tail_at = head_bytes + line_count * LINE;
    // SAFETY: head_bytes <= bytes, so this is a prefix of the caller's ranges.
    unsafe { ptr::copy_nonoverlapping(from, to, head_bytes) };
    for line in 0..line_count {
        let at = head_bytes + line * LINE;
        for part in (at..at + LINE).step_by(16) {
            // SAFETY: part + 16 <= tail_at <= bytes; loadu needs no alignment.
            let value = unsafe { _mm_loadu_si128(from.add(part).cast::<__m128i>()) };
            // SAFETY: in range as above; to + head_bytes is 64-aligned and part - head_bytes a multiple of 16,
            // so the store is 16-aligned as it must be.
            unsafe { _mm_stream_si128(to.add(part).cast::<__m128i>(), value) };
        }
    }
    // SAFETY: tail_at <= bytes, so this is a suffix of the caller's ranges.
    unsafe { ptr::copy_nonoverlapping(from.add(tail_at), to.add(tail_at), bytes - tail_at) };
}

/// # Safety
/// As [`Kernel::copy`].
unsafe fn copy_prefetching(to: *mut u8, from: *const u8, bytes: usize) {
    /// A multiple of a line. Twice as many bytes ahead are what a core can request at once.
    const PIECE_BYTES: usize = 512;
    prefetch_for_write(to, bytes.min(2 * PIECE_BYTES));
    for at in (0..bytes).step_by(PIECE_BYTES) {
        let ahead = (at + 2 * PIECE_BYTES).min(bytes);
        prefetch_for_write(to.wrapping_add(ahead), (bytes - ahead).min(PIECE_BYTES));
        // SAFETY: at < bytes, so the piece lies inside the caller's ranges.
        unsafe { ptr::copy_nonoverlapping(from.add(at), to.add(at), (bytes - at).min(PIECE_BYTES)) };
    }
}

/// Fetches the lines of `bytes` bytes from `start` on for writing: a hint.
#[cfg(target_arch = "x86_64")]
fn prefetch_for_write(start: *const u8, bytes: usize) {
    for at in (0..bytes).step_by(64) {
        // SAFETY: the instruction is a hint, which never faults and changes no memory, register or flag.
        unsafe {
            core::arch::asm!("prefetchw [{}]", in(reg) start.wrapping_add(at), options(nostack, preserves_flags, readonly));
        }
    }
}

/// Moves the lines of `bytes` bytes from `start` on to a cache that is farther away: a hint.
#[cfg(target_arch = "x86_64")]
fn demote(start: *const u8, bytes: usize) {
    for at in (0..bytes).step_by(64) {
        // SAFETY: the instruction is a hint, and no operation where it is not implemented; it never faults and changes no memory, register or flag.
        unsafe {
            core::arch::asm!("cldemote [{}]", in(reg) start.wrapping_add(at), options(nostack, preserves_flags, readonly));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
const fn demote(_start: *const u8, _bytes: usize) {}

#[cfg(not(target_arch = "x86_64"))]
const fn prefetch_for_write(_start: *const u8, _bytes: usize) {}

/// # Safety
/// As [`Kernel::copy`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_movsb(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: the caller's promise is exactly what copy_nonoverlapping asks for.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
}

/// # Safety
/// As [`Kernel::copy`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_nt(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: the caller's promise is exactly what copy_nonoverlapping asks for.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::Kernel;

    #[test]
    fn every_kernel_copies_exactly_the_bytes_asked_for() {
        let from: Vec<u8> = (0..4096_u32).map(|i| i.wrapping_mul(167).to_le_bytes()[0] | 1).collect();
        for &kernel in Kernel::value_variants() {
            for (at, bytes) in
                [(0, 0), (0, 64), (1, 63), (3, 200), (17, 512), (63, 129), (5, 7), (2, 1025), (64, 3000)]
            {
                let mut to = vec![0_u8; 4096];
                // SAFETY: at + bytes <= 3064 < 4096 and 9 + bytes < 4096; two vectors of ours never overlap.
                unsafe { kernel.copy(to.as_mut_ptr().add(at), from.as_ptr().add(9), bytes) };
                kernel.fence();
                assert_eq!(to[at..at + bytes], from[9..9 + bytes], "{kernel:?} {at} {bytes}");
                assert!(to[..at].iter().chain(&to[at + bytes..]).all(|&b| b == 0), "{kernel:?} {at} {bytes}");
            }
        }
    }
}
