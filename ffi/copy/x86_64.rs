//! Streaming copies for x86-64: non-temporal stores of aligned vectors, and plain copies of the unaligned ends.

use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128, _mm256_loadu_si256,
    _mm256_stream_si256, _mm512_loadu_si512, _mm512_stream_si512,
};
use core::mem::size_of;
use core::ptr;

/// Defines a kernel by its vector, the unaligned load and the non-temporal store.
macro_rules! streaming {
    ($(#[$attr:meta])* $name:ident, $vector:ty, $load:ident, $stream:ident) => {
        $(#[$attr])*
        ///
        /// # Safety
        /// 1. The CPU has the named instructions.
        /// 2. `src` is valid for reads and `dst` for writes of `len` bytes, and they do not overlap.
        pub(super) unsafe fn $name(dst: *mut u8, src: *const u8, len: usize) {
            const WIDTH: usize = size_of::<$vector>();
            const STEP: usize = 4 * WIDTH;
            let head = dst.align_offset(WIDTH).min(len);
            // SAFETY: `head` is at most `len`, inside both of the caller's ranges.
            unsafe { ptr::copy_nonoverlapping(src, dst, head) };
            let body = (len - head) / STEP * STEP;
            for offset in (head..head + body).step_by(STEP) {
                // SAFETY: an entire step from `offset` is inside the source's range.
                let from = unsafe { src.add(offset) }.cast::<$vector>();
                // SAFETY: an entire step from `offset` is inside the destination's range. `head` aligned it to the vector.
                let to = unsafe { dst.add(offset) }.cast::<$vector>();
                // SAFETY: `from` and `to` are valid for one step, which is four vectors; `to` is aligned to the vector.
                unsafe {
                    let vectors = [
                        $load(from),
                        $load(from.add(1)),
                        $load(from.add(2)),
                        $load(from.add(3)),
                    ];
                    $stream(to, vectors[0]);
                    $stream(to.add(1), vectors[1]);
                    $stream(to.add(2), vectors[2]);
                    $stream(to.add(3), vectors[3]);
                }
            }
            let done = head + body;
            // SAFETY: `done` is at most `len`, inside the caller's source.
            let from = unsafe { src.add(done) };
            // SAFETY: `done` is at most `len`, inside the caller's destination.
            let to = unsafe { dst.add(done) };
            // SAFETY: `len - done` bytes are left of the caller's two ranges, which do not overlap.
            unsafe { ptr::copy_nonoverlapping(from, to, len - done) };
            fence_streaming_stores();
        }
    };
}

/// Copies by the string instruction.
///
/// # Safety
/// `src` is valid for reads and `dst` for writes of `len` bytes, and they do not overlap.
#[inline]
pub(super) unsafe fn copy_string(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the instruction reads and writes exactly the caller's ranges, upwards, since the ABI keeps the direction flag clear; it changes no
    // register but the three named, no flag and no stack. Later stores become visible after its own.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rdi") dst => _,
            inout("rsi") src => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Waits until all earlier stores are visible to other cores.
#[inline]
pub(super) fn drain_stores() {
    // SAFETY: every x86-64 has SSE2, hence this instruction, which touches no memory of ours.
    unsafe { core::arch::x86_64::_mm_mfence() };
}

/// Orders the streaming stores, which are weakly ordered, before later stores, such as that of a flag.
#[inline]
fn fence_streaming_stores() {
    // SAFETY: every x86-64 has SSE, hence this instruction, which touches no memory of ours.
    unsafe { _mm_sfence() };
}

streaming!(
    /// Copies vectors of 64 bytes, entire cache lines.
    #[target_feature(enable = "avx512f")]
    streaming_avx512,
    __m512i,
    _mm512_loadu_si512,
    _mm512_stream_si512
);
streaming!(
    /// Copies vectors of 32 bytes.
    #[target_feature(enable = "avx2")]
    streaming_avx2,
    __m256i,
    _mm256_loadu_si256,
    _mm256_stream_si256
);
streaming!(
    /// Copies vectors of 16 bytes, which every x86-64 has.
    streaming_sse2,
    __m128i,
    _mm_loadu_si128,
    _mm_stream_si128
);
