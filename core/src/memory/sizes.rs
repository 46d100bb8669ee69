//! Sizes of landing buffers that grow: powers of two from one slab up to the largest.

use crate::wire::layout::Layout;

/// Fewest blocks of a landing buffer that was grown: three folds, and one that is kept for CANCEL.
const BLOCKS_MIN: u32 = 4;
/// Fewest bytes of a block.
const BLOCK_BYTES_MIN: u32 = 128;

/// Bytes of the blocks of a ring.
pub(super) const fn ring_bytes(layout: Layout) -> u32 {
    layout.block_bytes * layout.block_count
}

/// Returns the layout for a ring of `bytes` bytes or a little more, at most `largest`.
pub(super) fn layout_for(bytes: u32, largest: Layout) -> Layout {
    let block_bytes = bytes.div_ceil(BLOCKS_MIN).checked_next_multiple_of(BLOCK_BYTES_MIN);
    let block_bytes =
        block_bytes.unwrap_or(u32::MAX).clamp(BLOCK_BYTES_MIN, largest.block_bytes.max(BLOCK_BYTES_MIN));
    let block_count = bytes.div_ceil(block_bytes).max(BLOCKS_MIN);
    let is_largest = u64::from(block_bytes) * u64::from(block_count) >= u64::from(ring_bytes(largest));
    if is_largest { largest } else { Layout { block_bytes, block_count, flags: largest.flags } }
}

/// Returns the bytes to ask for: at least one slab, and twice what there is, up to the largest.
pub(super) fn bytes_to_ask(current: Layout, slab_bytes: u32, largest: Layout) -> u32 {
    ring_bytes(current).saturating_mul(2).max(slab_bytes).min(ring_bytes(largest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::layout::FlagPlace;

    const LARGEST: Layout = Layout { block_bytes: 16 << 10, block_count: 32, flags: FlagPlace::Apart };

    #[test]
    fn sizes_double_from_a_slab_up_to_the_largest() {
        let mut current = Layout { block_bytes: 256, block_count: 11, flags: FlagPlace::Inside };
        let mut sizes = [0; 5];
        for size in &mut sizes {
            *size = bytes_to_ask(current, 64 << 10, LARGEST);
            current = layout_for(*size, LARGEST);
            assert_eq!(ring_bytes(current), *size);
            current.validate().unwrap();
        }
        assert_eq!(sizes, [64 << 10, 128 << 10, 256 << 10, 512 << 10, 512 << 10]);
        assert_eq!(current, LARGEST);
    }

    #[test]
    fn every_size_gives_a_layout_that_is_valid_and_fits() {
        for bytes in [0, 1, 100, 513, 1000, 4096, 65_000, 65_537, 200_000, u32::MAX] {
            let layout = layout_for(bytes, LARGEST).validate().unwrap();
            assert!(ring_bytes(layout) >= bytes.min(ring_bytes(LARGEST)), "{bytes} {layout:?}");
            assert!(layout.bytes() <= LARGEST.bytes(), "{bytes} {layout:?}");
            assert!(layout.block_count >= 4, "{bytes} {layout:?}");
        }
    }
}
