//! Runs of zeros, which can be holes in a file.

/// Bytes that are tested together, about a block of the default size: a run of data ends at such a piece of zeros.
const PIECE_BYTES: usize = 16 << 10;
/// Shortest run that becomes a hole: file systems have no shorter holes.
const HOLE_BYTES: usize = 4 << 10;

/// A run at the beginning of some spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// Zeros, as bytes, enough for a hole.
    Zeros(usize),
    /// Data, as a count of spans.
    Spans(usize),
    /// Data, as an index and the first bytes of that span; the spans before it are empty.
    Part(usize, usize),
}

/// Returns the run at the beginning of `spans`.
///
/// # Safety
/// Each span is valid for reads of its length, and no `&mut` of this process to any of these bytes lives.
pub(super) unsafe fn first_run(spans: &[libc::iovec]) -> Run {
    let (mut zeros, mut data) = (0, 0);
    let mut in_zeros = true;
    for (index, span) in spans.iter().enumerate() {
        for from in (0..span.iov_len).step_by(PIECE_BYTES) {
            let bytes = PIECE_BYTES.min(span.iov_len - from);
            // SAFETY: the piece is inside one of the caller's spans.
            let is_zero = unsafe { is_zero(span.iov_base.cast::<u8>().add(from), bytes) };
            match (in_zeros, is_zero) {
                (true, true) => zeros += bytes,
                (true, false) if zeros >= HOLE_BYTES => return Run::Zeros(zeros),
                (true, false) => in_zeros = false,
                (false, true) if bytes >= HOLE_BYTES && data > 0 => return Run::Spans(index),
                (false, true) if bytes >= HOLE_BYTES => return Run::Part(index, from),
                (false, _) => {}
            }
        }
        data += span.iov_len;
    }
    if in_zeros && zeros >= HOLE_BYTES { Run::Zeros(zeros) } else { Run::Spans(spans.len()) }
}

/// Returns true if all of these bytes are zero, in memory that a peer may be writing.
///
/// # Safety
/// 1. `first` is valid for reads of `bytes` bytes.
/// 2. No `&mut` of this process to any of them lives.
unsafe fn is_zero(first: *const u8, bytes: usize) -> bool {
    const WORD: usize = size_of::<u64>();
    let head = first.align_offset(WORD).min(bytes);
    let tail = head + (bytes - head) / WORD * WORD;
    // SAFETY: each is one of the caller's bytes.
    let byte_is_zero = |at| unsafe { first.add(at).read_volatile() } == 0;
    // SAFETY: `head` is where the first aligned word is, and each word ends before `tail`, inside the caller's bytes.
    let word_is_zero = |at| unsafe { first.add(at).cast::<u64>().read_volatile() } == 0;
    (0..head).all(byte_is_zero)
        && (head..tail).step_by(WORD).all(word_is_zero)
        && (tail..bytes).all(byte_is_zero)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(parts: &[&[u8]]) -> Run {
        let spans: Vec<_> = parts
            .iter()
            .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() })
            .collect();
        // SAFETY: each span is a slice that lives, and is not written.
        unsafe { first_run(&spans) }
    }

    #[test]
    fn long_runs_of_zeros_are_distinguished_from_data() {
        let zeros = vec![0; 40 << 10];
        let data = vec![7; 40 << 10];
        assert_eq!(run(&[&zeros]), Run::Zeros(40 << 10));
        assert_eq!(run(&[&zeros, &[], &zeros[..100], &data]), Run::Zeros((40 << 10) + 100));
        assert_eq!(run(&[&zeros[..4095], &data]), Run::Spans(2));
        assert_eq!(run(&[&zeros[..100]]), Run::Spans(1));
        assert_eq!(run(&[&data, &data, &zeros, &data]), Run::Spans(2));
        assert_eq!(run(&[&data, &zeros[..4095], &data]), Run::Spans(3));
        let mixed = [&data[..16 << 10], &zeros[..16 << 10], &data[..5]].concat();
        assert_eq!(run(&[&mixed, &zeros]), Run::Part(0, 16 << 10));
        assert_eq!(run(&[&[], &mixed, &zeros]), Run::Part(1, 16 << 10));
        assert_eq!(run(&[&data, &mixed]), Run::Spans(1));
    }

    #[test]
    fn one_bit_anywhere_is_data() {
        for from in 0..9 {
            for bit in 0..64 {
                let mut bytes = [0_u8; 64];
                bytes[bit] = 1;
                // SAFETY: the bytes live, and are not written.
                let found = unsafe { is_zero(bytes[from..].as_ptr(), 64 - from) };
                assert_eq!(found, bit < from, "{from} {bit}");
            }
        }
    }
}
