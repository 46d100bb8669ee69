//! The greeting: what rdma_cm carries for both ends while they connect. wire.md 10.1.

use crate::packet::{PacketError, check_head, write_head};
use crate::verbs::Mtu;

/// Bytes of a greeting; what follows it is padding of rdma_cm's.
pub(super) const GREETING_BYTES: usize = 16;

/// One greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    /// The largest packet that this end's port takes; none on iWARP.
    pub(super) mtu: Option<Mtu>,
}

impl Greeting {
    /// magic (8), version (2), MTU by the header's number (1), zeros.
    pub(super) fn encode(self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        if let Some(head) = bytes.first_chunk_mut() {
            write_head(head);
        }
        bytes[10] = self.mtu.map_or(0, |mtu| u8::try_from(mtu.0).unwrap_or(0));
        bytes
    }

    /// # Errors
    /// It is not of superpipe, or of another version, or has an MTU that no device has.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, PacketError> {
        let Some((&bytes, _)) = bytes.split_first_chunk::<GREETING_BYTES>() else {
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
    fn a_greeting_survives_the_way_and_its_padding() {
        for mtu in [None, Some(Mtu(1)), Some(Mtu(5))] {
            let mut padded = [0; 56];
            padded[..GREETING_BYTES].copy_from_slice(&Greeting { mtu }.encode());
            assert_eq!(Greeting::decode(&padded), Ok(Greeting { mtu }));
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let good = Greeting { mtu: Some(Mtu(3)) }.encode();
        let with = |at: usize, byte| {
            let mut bytes = good;
            bytes[at] = byte;
            Greeting::decode(&bytes).unwrap_err()
        };
        assert_eq!(with(0, 0), PacketError::Garbage);
        assert_eq!(Greeting::decode(&good[..15]), Err(PacketError::Garbage));
        assert_eq!(Greeting::decode(&[]), Err(PacketError::Garbage));
        assert_eq!(with(8, 9), PacketError::Version { theirs: 9 });
        assert_eq!(with(10, 6), PacketError::Malformed("an MTU that no device has"));
        assert_eq!(with(15, 1), PacketError::Malformed("reserved bytes are not zero"));
    }

    #[test]
    fn of_all_that_a_stranger_may_say_only_greetings_are_taken() {
        let good = Greeting { mtu: Some(Mtu(3)) }.encode();
        for at in 0..GREETING_BYTES {
            for byte in 0..=u8::MAX {
                let mut bytes = [0x55; 56];
                bytes[..GREETING_BYTES].copy_from_slice(&good);
                bytes[at] = byte;
                let is_good = byte == good[at] || at == 10 && byte <= 5;
                match Greeting::decode(&bytes) {
                    Ok(greeting) => {
                        assert!(is_good && greeting.encode() == bytes[..GREETING_BYTES], "{at} {byte}")
                    }
                    Err(error) => assert!(!is_good, "{at} {byte}: {error}"),
                }
            }
        }
        assert!(
            (0..GREETING_BYTES).all(|bytes| Greeting::decode(&good[..bytes]) == Err(PacketError::Garbage))
        );
    }
}
