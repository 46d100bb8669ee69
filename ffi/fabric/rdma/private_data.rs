//! Private data: bytes that rdma_cm carries for both ends while they connect. wire.md 10.1.

use superpipe_core::driver::setup::{PacketError, check_head, write_head};
use superpipe_verbs::Mtu;

/// Bytes of the private data (wire.md 10.1); rdma_cm pads them.
pub(super) const PRIVATE_DATA_BYTES: usize = 16;

/// Private data of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PrivateData {
    /// MTU of this end's port; none on iWARP.
    pub(super) mtu: Option<Mtu>,
}

impl PrivateData {
    /// Encodes magic (8), version (2), MTU by the header's number (1), zeros.
    pub(super) fn encode(self) -> [u8; PRIVATE_DATA_BYTES] {
        let mut bytes = [0; PRIVATE_DATA_BYTES];
        if let Some(head) = bytes.first_chunk_mut() {
            write_head(head);
        }
        bytes[10] = self.mtu.map_or(0, |mtu| u8::try_from(mtu.0).unwrap_or(0));
        bytes
    }

    /// Decodes and checks the private data of a peer.
    ///
    /// # Errors
    /// It is not of superpipe, of another version, or has an MTU that no device has.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, PacketError> {
        let Some((&bytes, _)) = bytes.split_first_chunk::<PRIVATE_DATA_BYTES>() else {
            return Err(PacketError::Garbage);
        };
        check_head(&bytes)?;
        let mtu = match bytes[10] {
            0 => None,
            number @ 1..=5 => Some(Mtu(number.into())),
            _ => return Err(PacketError::Malformed("an MTU that no device has")),
        };
        if bytes[11..].iter().any(|byte| *byte != 0) {
            return Err(PacketError::Malformed("reserved bytes are not zero"));
        }
        Ok(Self { mtu })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_decodes_as_encoded_with_padding() {
        for mtu in [None, Some(Mtu(1)), Some(Mtu(5))] {
            let mut padded = [0; 56];
            padded[..PRIVATE_DATA_BYTES].copy_from_slice(&PrivateData { mtu }.encode());
            assert_eq!(PrivateData::decode(&padded), Ok(PrivateData { mtu }));
        }
    }

    #[test]
    fn each_defect_has_its_error() {
        let good = PrivateData { mtu: Some(Mtu(3)) }.encode();
        let with = |at: usize, byte| {
            let mut bytes = good;
            bytes[at] = byte;
            PrivateData::decode(&bytes).unwrap_err()
        };
        assert_eq!(with(0, 0), PacketError::Garbage);
        assert_eq!(PrivateData::decode(&good[..15]), Err(PacketError::Garbage));
        assert_eq!(PrivateData::decode(&[]), Err(PacketError::Garbage));
        assert_eq!(with(8, 9), PacketError::Version { theirs: 9 });
        assert_eq!(with(10, 6), PacketError::Malformed("an MTU that no device has"));
        assert_eq!(with(15, 1), PacketError::Malformed("reserved bytes are not zero"));
    }

    #[test]
    fn only_valid_private_data_is_accepted() {
        let good = PrivateData { mtu: Some(Mtu(3)) }.encode();
        for at in 0..PRIVATE_DATA_BYTES {
            for byte in 0..=u8::MAX {
                let mut bytes = [0x55; 56];
                bytes[..PRIVATE_DATA_BYTES].copy_from_slice(&good);
                bytes[at] = byte;
                let is_good = byte == good[at] || at == 10 && byte <= 5;
                match PrivateData::decode(&bytes) {
                    Ok(private_data) => {
                        assert!(
                            is_good && private_data.encode() == bytes[..PRIVATE_DATA_BYTES],
                            "{at} {byte}"
                        )
                    }
                    Err(error) => assert!(!is_good, "{at} {byte}: {error}"),
                }
            }
        }
        assert!(
            (0..PRIVATE_DATA_BYTES)
                .all(|bytes| PrivateData::decode(&good[..bytes]) == Err(PacketError::Garbage))
        );
    }
}
