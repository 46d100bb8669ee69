//! Sizes of landing buffers that grow: they at least double, from one slab up to the largest.

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
#[inline(never)]
pub(super) fn layout_for(bytes: u32, largest: Layout) -> Layout {
    let block_bytes = bytes.div_ceil(BLOCKS_MIN).checked_next_multiple_of(BLOCK_BYTES_MIN);
    let block_bytes =
        block_bytes.unwrap_or(u32::MAX).clamp(BLOCK_BYTES_MIN, largest.block_bytes.max(BLOCK_BYTES_MIN));
    let block_count = bytes.div_ceil(block_bytes).max(BLOCKS_MIN);
    let is_largest = u64::from(block_bytes) * u64::from(block_count) >= u64::from(ring_bytes(largest));
    if is_largest { largest } else { Layout { block_bytes, block_count, flags: largest.flags } }
}

/// A ring is more than twice the one before only if the message has so many times its bytes. Provisioning takes about five times as long as
/// moving the same bytes over a network of 100 Gb/s (1.35 µs for each page that becomes resident). So the ring is ready within the first third of
/// the message.
const MESSAGE_RINGS: u64 = 16;

/// Returns the bytes to ask for, up to the largest. The first is a slab, which is ready soonest. Then sizes double, or more than that for a
/// message that is long, so that it does not go through a ring of each size.
pub(super) fn bytes_to_ask(
    current: Layout,
    message_bytes: Option<u64>,
    slab_bytes: u32,
    largest: Layout,
) -> u32 {
    let most = ring_bytes(largest);
    let mut bytes = ring_bytes(current).saturating_mul(2);
    if bytes <= slab_bytes {
        return slab_bytes.min(most);
    }
    let worth = message_bytes.unwrap_or(0) / MESSAGE_RINGS;
    while bytes < most && u64::from(bytes) * 2 <= worth {
        bytes = bytes.saturating_mul(2);
    }
    bytes.min(most)
}

/// Fewest bytes of a ring that the provision protocol asks for. It is more than any threshold.
const PROVISIONED_BYTES_MIN: u32 = 2048;
/// Rounds of [`bytes_for`]. Each adds the bytes that are missing, and the second already adds a few slot lines at most.
const FIT_ROUNDS: u32 = 8;

/// Returns the bytes of a ring that holds `payload` bytes at once, up to the largest. It has at least twice what there is, so that messages
/// which grow a little each time do not provision a ring each.
pub(super) fn bytes_for(payload: u64, current: Layout, largest: Layout) -> u32 {
    let payload_bytes = u32::try_from(payload).unwrap_or(u32::MAX);
    let most = ring_bytes(largest);
    let least = ring_bytes(current).saturating_mul(2).max(PROVISIONED_BYTES_MIN);
    let mut bytes = payload_bytes.max(least).min(most);
    for _ in 0..FIT_ROUNDS {
        let layout = layout_for(bytes, largest);
        let missing = payload_bytes.saturating_sub(layout.capacity(layout.block_count));
        bytes = bytes.saturating_add(missing).min(most);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::layout::FlagPlace;

    const LARGEST: Layout =
        Layout { block_bytes: 16 << 10, block_count: 32, flags: FlagPlace::Apart { group_blocks: 1 } };

    #[test]
    fn sizes_double_from_a_slab_up_to_the_largest() {
        let mut current = Layout { block_bytes: 256, block_count: 11, flags: FlagPlace::Inside };
        let mut sizes = [0; 5];
        for size in &mut sizes {
            *size = bytes_to_ask(current, None, 64 << 10, LARGEST);
            current = layout_for(*size, LARGEST);
            assert_eq!(ring_bytes(current), *size);
            current.validate().unwrap();
        }
        assert_eq!(sizes, [64 << 10, 128 << 10, 256 << 10, 512 << 10, 512 << 10]);
        assert_eq!(current, LARGEST);
    }

    #[test]
    fn a_long_message_skips_sizes_and_the_first_is_a_slab() {
        let ask = |current, message_bytes| bytes_to_ask(current, message_bytes, 64 << 10, LARGEST);
        let base = Layout { block_bytes: 256, block_count: 11, flags: FlagPlace::Inside };
        let slab = layout_for(64 << 10, LARGEST);
        for bytes in [Some(0), Some(1 << 20), Some(16 << 20), Some(u64::MAX), None] {
            assert_eq!(ask(base, bytes), 64 << 10, "{bytes:?}");
        }
        for (mib, kib) in [(0, 128), (1, 128), (4, 256), (7, 256), (8, 512), (16, 512), (1 << 40, 512)] {
            assert_eq!(ask(slab, Some(mib << 20)), kib << 10, "{mib} MiB");
        }
        assert_eq!(ask(slab, None), 128 << 10, "a stream may end soon");
        assert_eq!(ask(LARGEST, Some(u64::MAX)), ring_bytes(LARGEST));
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

    #[test]
    fn a_ring_holds_the_message_it_was_asked_for() {
        let small = Layout { block_bytes: 128, block_count: 8, flags: FlagPlace::Inside };
        for flags in [FlagPlace::Inside, FlagPlace::Apart { group_blocks: 1 }] {
            let largest = Layout { flags, ..LARGEST };
            for payload in [905, 1000, 2000, 4096, 65_536, 200_000, 400_000] {
                let bytes = bytes_for(payload, small, largest);
                let layout = layout_for(bytes, largest);
                let held = u64::from(layout.capacity(layout.block_count));
                assert!(held >= payload, "{payload} {layout:?}");
                assert!(held < payload + payload / 4 + 2048, "not much more: {payload} {layout:?}");
            }
            assert_eq!(bytes_for(1, small, largest), 2048, "more than any threshold");
            assert_eq!(bytes_for(u64::MAX, small, largest), ring_bytes(largest));
            let grown = layout_for(4096, largest);
            assert_eq!(bytes_for(4200, grown, largest), 8192, "at least twice what there is");
        }
    }
}
