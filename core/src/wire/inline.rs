//! Inline payloads: up to 40 bytes, or the first 40 of a message in two lines, as five words of a slot line, and back.

use crate::slices::Scatter;
use crate::wire::header::INLINE_BYTES_MAX;

/// Packs up to 40 bytes into five words. It goes word by word, since a copy of variable length would be a call.
#[inline]
pub(crate) fn pack(slices: &[&[u8]]) -> [u64; 5] {
    if let [one] = slices
        && let Ok(word) = <&[u8; 8]>::try_from(*one)
    {
        return [u64::from_le_bytes(*word), 0, 0, 0, 0];
    }
    pack_any(slices)
}

/// Kept out of line, so that the words of 8 bytes stay in registers.
#[inline(never)]
fn pack_any(slices: &[&[u8]]) -> [u64; 5] {
    match slices {
        [one] => pack_one(one),
        several => pack_several(several),
    }
}

/// Packs the first bytes of a message in two lines.
#[inline]
pub(crate) fn pack_first(first: &[u8; INLINE_BYTES_MAX]) -> [u64; 5] {
    let mut words = [0; 5];
    for (word, eight) in words.iter_mut().zip(first.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*eight);
    }
    words
}

/// Unpacks the first bytes of a message in two lines.
#[inline]
pub(crate) fn unpack_first(payload: &[u64; 5], to: &mut [u8; INLINE_BYTES_MAX]) {
    for (place, word) in to.as_chunks_mut::<8>().0.iter_mut().zip(payload) {
        *place = word.to_le_bytes();
    }
}

#[inline]
fn pack_one(mut rest: &[u8]) -> [u64; 5] {
    let mut words = [0; 5];
    for word in &mut words {
        let Some((eight, after)) = rest.split_first_chunk::<8>() else {
            for (place, byte) in rest.iter().enumerate() {
                *word |= u64::from(*byte) << (8 * place);
            }
            break;
        };
        *word = u64::from_le_bytes(*eight);
        rest = after;
    }
    words
}

fn pack_several(slices: &[&[u8]]) -> [u64; 5] {
    let mut bytes = [0; INLINE_BYTES_MAX];
    for (place, byte) in bytes.iter_mut().zip(slices.iter().flat_map(|slice| slice.iter())) {
        *place = *byte;
    }
    pack_one(&bytes)
}

/// Unpacks a complete inline payload into slices, if it fits.
#[inline]
pub(crate) fn unpack_message(payload: &[u64; 5], bytes: usize, to: &mut [&mut [u8]]) -> bool {
    if let [one] = to
        && let (Some(place), 8) = (one.first_chunk_mut::<8>(), bytes)
    {
        *place = payload[0].to_le_bytes();
        return true;
    }
    unpack_any_message(*payload, bytes, to)
}

#[inline(never)]
fn unpack_any_message(payload: [u64; 5], bytes: usize, to: &mut [&mut [u8]]) -> bool {
    let room = to.iter().map(|slice| slice.len()).sum::<usize>();
    let all = u32::try_from(bytes).unwrap_or(u32::MAX);
    bytes <= room && unpack(&payload, 0, all, &mut Scatter::new(to)) == all
}

/// Unpacks the bytes of an inline payload from `offset` on, as many as fit. Returns their number.
pub(crate) fn unpack(payload: &[u64; 5], offset: u32, bytes: u32, to: &mut Scatter<'_, '_>) -> u32 {
    let mut flat = [0; INLINE_BYTES_MAX];
    unpack_first(payload, &mut flat);
    let mut taken = offset;
    while taken < bytes {
        let place = to.take((bytes - taken) as usize);
        let end = taken as usize + place.len();
        match flat.get(taken as usize..end) {
            Some(run) if !run.is_empty() => place.copy_from_slice(run),
            _ => break,
        }
        taken += u32::try_from(place.len()).unwrap_or(0);
    }
    taken - offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiny_payloads_are_packed_byte_for_byte() {
        let bytes: [u8; INLINE_BYTES_MAX] = core::array::from_fn(|i| i.to_le_bytes()[0] + 1);
        for length in 0..=INLINE_BYTES_MAX {
            for cut in 0..=length {
                let packed = pack(&[&bytes[..cut], &bytes[cut..length]]);
                assert_eq!(packed, pack(&[&bytes[..length]]));
                let flat: [[u8; 8]; 5] = packed.map(u64::to_le_bytes);
                let flat = flat.as_flattened();
                assert_eq!(flat[..length], bytes[..length]);
                assert!(flat[length..].iter().all(|byte| *byte == 0));
            }
        }
    }
}
