//! Copies and checksums, by the best kernels for the CPU, which are chosen once.
//!
//! There are four kinds of copy. **Plain** is the C library's memcpy, mostly the best if the destination is read soon afterwards. **String** is the
//! string instruction, and **fetching** is memcpy in pieces whose lines are fetched for writing first: on some machines, and for some distances of the
//! two cores, they are faster (docs/performance.md, "The bare ring at each distance"), so core tries them while data flow. **Streaming**
//! bypasses the caches, which saves a third at 64 MiB, if the destination is larger than the last-level cache; it ends with a store fence,
//! so that a flag that is stored afterwards becomes visible after the data. On cold memory it loses (docs/performance.md, "Cold memory").
//! Both work on raw pointers: one side is memory that a peer or a NIC may write, which is never behind a reference.

mod crc32c;
mod crc_kernels;
mod crc_tables;
mod fetching;
mod prefetch;
mod rates;
pub(crate) mod shared;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use crc_kernels::CrcKernel;
pub use crc32c::{crc32c, crc32c_of_shared};
pub(crate) use fetching::copy_fetching;
pub(crate) use prefetch::CAN_PREFETCH;
pub use prefetch::{prefetch_for_read, prefetch_for_write};
pub use rates::{copy_bytes_per_s, crc_bytes_per_s, crc_is_fast};

use core::ptr;
use spin::Once;
use superpipe_core::{CopyKernel, KernelSet};

type CopyFn = unsafe fn(*mut u8, *const u8, usize);

/// The best copies for this CPU. Keep the reference: [`get`](Self::get) costs a load and a branch.
#[derive(Debug)]
pub struct CopyKernels {
    name: &'static str,
    streaming: CopyFn,
    works_here: fn() -> bool,
}

/// Every kernel of this architecture, the best first. The last works on every CPU.
static KERNELS: &[CopyKernels] = &[
    #[cfg(target_arch = "x86_64")]
    CopyKernels {
        name: "avx512",
        streaming: x86_64::streaming_avx512,
        works_here: || std::is_x86_feature_detected!("avx512f"),
    },
    #[cfg(target_arch = "x86_64")]
    CopyKernels {
        name: "avx2",
        streaming: x86_64::streaming_avx2,
        works_here: || std::is_x86_feature_detected!("avx2"),
    },
    #[cfg(target_arch = "x86_64")]
    CopyKernels { name: "sse2", streaming: x86_64::streaming_sse2, works_here: || true },
    CopyKernels { name: "plain", streaming: copy_plain, works_here: || true },
];

impl CopyKernels {
    /// Returns the best kernels for this CPU.
    #[must_use]
    pub fn get() -> &'static Self {
        static BEST: Once<&CopyKernels> = Once::new();
        BEST.call_once(|| Self::available().next().unwrap_or(&KERNELS[KERNELS.len() - 1]))
    }

    /// Iterates over the kernels that work on this CPU, the best first: for tests and measurements.
    pub fn available() -> impl Iterator<Item = &'static Self> {
        KERNELS.iter().filter(|kernels| (kernels.works_here)())
    }

    /// Returns the name for reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Copies through the caches. Each byte that a peer changes meanwhile arrives old or new.
    ///
    /// # Safety
    /// 1. `src` is valid for reads and `dst` for writes of `len` bytes.
    /// 2. They do not overlap.
    /// 3. No reference of this process to any of these bytes lives, but one that `src` or `dst` was made from.
    #[inline]
    pub unsafe fn copy(&self, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller promises ranges of `len` bytes that are valid and do not overlap, and that no other reference to them lives.
        unsafe { copy_plain(dst, src, len) }
    }

    /// Copies with stores that bypass the caches, and ends with a fence: every later store becomes visible after these.
    ///
    /// # Safety
    /// 1. `src` is valid for reads and `dst` for writes of `len` bytes.
    /// 2. They do not overlap.
    /// 3. No reference of this process to any of these bytes lives, but one that `src` or `dst` was made from.
    #[inline]
    pub unsafe fn copy_streaming(&self, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller promises ranges of `len` bytes that are valid and do not overlap, and that no other reference to them lives. The
        // CPU has the kernel's instructions: a kernel is only returned if its `works_here` is true.
        unsafe { (self.streaming)(dst, src, len) }
    }
}

impl CopyKernels {
    /// Returns the kernels that this CPU has something of its own for.
    #[must_use]
    pub fn set(&self) -> KernelSet {
        let set = if cfg!(target_arch = "x86_64") {
            KernelSet::PLAIN.with(CopyKernel::String).with(CopyKernel::Fetching)
        } else {
            KernelSet::PLAIN
        };
        if self.name == "plain" { set } else { set.with(CopyKernel::Streaming) }
    }

    /// Copies by this kernel. What is stored afterwards becomes visible after the copy.
    ///
    /// # Safety
    /// 1. `src` is valid for reads and `dst` for writes of `len` bytes.
    /// 2. They do not overlap.
    /// 3. No reference of this process to any of these bytes lives, but one that `src` or `dst` was made from.
    #[inline]
    pub unsafe fn copy_by(&self, kernel: CopyKernel, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller promises for this call what each kernel asks for: valid ranges of `len` bytes that do not overlap, and no other
        // reference to them.
        unsafe {
            match kernel {
                CopyKernel::Plain => copy_plain(dst, src, len),
                CopyKernel::String => copy_string(dst, src, len),
                CopyKernel::Fetching => copy_fetching(dst, src, len),
                CopyKernel::Streaming => self.copy_streaming(dst, src, len),
            }
        }
    }
}

/// Waits until all earlier stores are visible to other cores, as far as the CPU has an instruction for it.
#[inline]
pub(crate) fn drain_stores() {
    #[cfg(target_arch = "x86_64")]
    x86_64::drain_stores();
}

/// Copies by the string instruction; without one, plainly.
#[inline]
unsafe fn copy_string(dst: *mut u8, src: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller promises valid ranges that do not overlap; the CPU has the instruction.
    unsafe {
        x86_64::copy_string(dst, src, len);
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller promises valid ranges that do not overlap.
    unsafe {
        copy_plain(dst, src, len);
    }
}

#[inline]
unsafe fn copy_plain(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises valid ranges that do not overlap; bytes have no alignment.
    unsafe { ptr::copy_nonoverlapping(src, dst, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUARD: usize = 130;
    const OFFSETS: [usize; 14] = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64];

    fn pattern(index: usize) -> u8 {
        (index.wrapping_mul(0x9E37_79B9) >> 7).to_le_bytes()[0] | 1
    }

    /// Copies `len` bytes from one offset to another by each kernel, and compares all of the destination, guards too.
    fn check(kernels: &CopyKernels, room: &mut [u8], src: &[u8], offsets: (usize, usize), len: usize) {
        for kernel in kernels.set().iter() {
            check_by((kernels, kernel), room, src, offsets, len);
        }
    }

    fn check_by(
        (kernels, kernel): (&CopyKernels, CopyKernel),
        room: &mut [u8],
        src: &[u8],
        offsets: (usize, usize),
        len: usize,
    ) {
        let (to, from) = (GUARD + offsets.0, offsets.1);
        room.fill(0);
        let (source, target) = (&src[from..from + len], &mut room[to..to + len]);
        // SAFETY: both are slices of `len` bytes, of two different buffers.
        unsafe { kernels.copy_by(kernel, target.as_mut_ptr(), source.as_ptr(), len) };
        assert_eq!(target, source, "{} {kernel:?} {offsets:?} {len}", kernels.name());
        let guards_hold = room[..to].iter().chain(&room[to + len..]).all(|&byte| byte == 0);
        assert!(guards_hold, "{} {kernel:?} {offsets:?} {len}", kernels.name());
    }

    #[test]
    fn every_offset_and_length_copies_exactly_these_bytes() {
        const LEN_MAX: usize = 600;
        let src: Vec<u8> = (0..LEN_MAX + 128).map(pattern).collect();
        let mut room = vec![0; 2 * GUARD + 64 + LEN_MAX];
        for kernels in CopyKernels::available() {
            for to in OFFSETS {
                for from in [0, 1, 13, 32] {
                    (0..LEN_MAX).for_each(|len| check(kernels, &mut room, &src, (to, from), len));
                }
            }
            for to in 0..64 {
                for len in [255, 256, 257, 511, 512, 513] {
                    OFFSETS.iter().for_each(|&from| check(kernels, &mut room, &src, (to, from), len));
                }
            }
        }
    }

    #[test]
    fn large_copies_are_complete() {
        let src: Vec<u8> = (0..(1 << 20) + 77).map(pattern).collect();
        let mut dst = vec![0; src.len()];
        for kernels in CopyKernels::available() {
            for kernel in CopyKernel::ALL {
                dst.fill(0);
                // SAFETY: both are as long as `src`, and are two buffers.
                unsafe { kernels.copy_by(kernel, dst.as_mut_ptr(), src.as_ptr(), src.len()) };
                assert!(dst == src, "{} {kernel:?}", kernels.name());
            }
        }
    }

    #[test]
    fn the_first_that_works_is_chosen() {
        assert!(ptr::eq(CopyKernels::get(), CopyKernels::available().next().unwrap()));
        assert_eq!(CopyKernels::available().last().unwrap().name(), "plain");
    }
}
