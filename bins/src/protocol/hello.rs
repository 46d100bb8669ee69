//! HELLO: the first message of each end. wire.md 8.1.

use super::{HELLO_BYTES, Role, Violation, word};
use core::num::NonZeroU32;
use superpipe::io::DigestKind;

const MAGIC: [u8; 4] = *b"sptl";
const VERSION: u8 = 1;
const UNKNOWN: u64 = u64::MAX;
const PLACE_BYTES: usize = 16;
const NO_CORE: u32 = u32::MAX;
/// Offset of the flags.
const FLAGS: usize = 20;
/// The end that listens asks for a NAME.
const WANTS_NAME: u8 = 1 << 2;

/// HELLO, the first message of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// tool that sends it
    pub role: Role,
    /// checksum that this end asks for
    pub checksum: Option<DigestKind>,
    /// bytes that this end announces
    pub size_hint: Option<u64>,
    /// core of this end
    pub place: Place,
    /// this end, which listens, asks for a NAME before the data
    pub wants_name: bool,
}

/// Core of an end, for the other end on the same host. A peer's is an allegation: it decides nothing but which of its own allowed cores an end takes,
/// and what it prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// core that this end is pinned to
    pub core: Option<u32>,
    /// true if this end may move to a core beside the other end's
    pub may_move: bool,
    /// true if this end asks for the distance of both cores
    pub asks: bool,
    /// distance of both cores, as the end that connects has measured it
    pub distance: Option<CoreDistance>,
}

/// Time of 8 bytes from one core to another, in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreDistance {
    /// between the cores of both ends
    pub ends_ps: NonZeroU32,
    /// between two cores of one cache cluster
    pub cluster_ps: Option<NonZeroU32>,
}

impl Hello {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.role as u8;
        bytes[6] = match self.checksum {
            None => 0,
            Some(DigestKind::None) => 1,
            Some(DigestKind::Crc32c) => 2,
            Some(DigestKind::Crc64) => 3,
        };
        bytes[8..16].copy_from_slice(&self.size_hint.unwrap_or(UNKNOWN).to_le_bytes());
        bytes[16..].copy_from_slice(&self.place.encode());
        bytes[FLAGS] |= if self.wants_name { WANTS_NAME } else { 0 };
        bytes
    }

    /// Decodes the HELLO of a peer whose role must be `role`.
    ///
    /// # Errors
    /// The first rule that the message violates.
    pub fn decode(bytes: &[u8], role: Role) -> Result<Self, Violation> {
        let bytes: &[u8; HELLO_BYTES] = bytes.try_into().map_err(|_| role.other_program())?;
        if bytes[..4] != MAGIC {
            return Err(role.other_program());
        }
        if bytes[4] != VERSION {
            return Err(Violation("uses another version of superpipe-tools; install the same at both ends"));
        }
        if bytes[5] == role.other() as u8 {
            return Err(role.same_role());
        }
        if bytes[5] != role as u8 {
            return Err(role.other_program());
        }
        let wants_name = bytes[FLAGS] & WANTS_NAME != 0;
        let mut rest = *bytes;
        rest[FLAGS] &= !WANTS_NAME;
        let place = Place::decode(&rest[16..])
            .filter(|place| bytes[7] == 0 && place.is_of(role) && (role == Role::Receiver || !wants_name));
        let place = place.ok_or(Violation("sent a HELLO whose reserved bytes are not zero"))?;
        let checksum = match bytes[6] {
            0 => None,
            1 => Some(DigestKind::None),
            2 => Some(DigestKind::Crc32c),
            3 => Some(DigestKind::Crc64),
            _ => return Err(Violation("asks for an unknown checksum")),
        };
        let size_hint = word(&bytes[8..16]);
        Ok(Self { role, checksum, size_hint: (size_hint != UNKNOWN).then_some(size_hint), place, wants_name })
    }
}

impl Place {
    fn encode(&self) -> [u8; PLACE_BYTES] {
        let mut bytes = [0; PLACE_BYTES];
        bytes[..4].copy_from_slice(&self.core.unwrap_or(NO_CORE).to_le_bytes());
        bytes[4] = u8::from(self.may_move) | u8::from(self.asks) << 1;
        if let Some(CoreDistance { ends_ps, cluster_ps }) = self.distance {
            bytes[8..12].copy_from_slice(&ends_ps.get().to_le_bytes());
            bytes[12..].copy_from_slice(&cluster_ps.map_or(0, NonZeroU32::get).to_le_bytes());
        }
        bytes
    }

    /// Decodes the last part of a HELLO. None if a reserved bit is set.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; PLACE_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| u32::try_from(word(&bytes[at..at + 4])).ok();
        let (core, ends_ps, cluster_ps) = (number(0)?, number(8)?, number(12)?);
        let is_reserved_zero = bytes[4] <= 3 && bytes[5..8].iter().all(|&byte| byte == 0);
        let distance = NonZeroU32::new(ends_ps)
            .map(|ends_ps| CoreDistance { ends_ps, cluster_ps: NonZeroU32::new(cluster_ps) });
        (is_reserved_zero && (distance.is_some() || cluster_ps == 0)).then_some(Self {
            core: (core != NO_CORE).then_some(core),
            may_move: bytes[4] & 1 != 0,
            asks: bytes[4] & 2 != 0,
            distance,
        })
    }

    /// Returns false if only the other role may say this: the end that connects measures, and the other one asks for it and may move.
    const fn is_of(&self, role: Role) -> bool {
        match role {
            Role::Sender | Role::Client => !self.may_move && !self.asks,
            Role::Receiver | Role::Server => self.distance.is_none(),
        }
    }
}

/// Returns the checksum that both ends use: the stronger of the two that they ask for.
#[must_use]
pub fn negotiate_checksum(one: Option<DigestKind>, other: Option<DigestKind>) -> DigestKind {
    one.max(other).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_round_trip_and_wrong_ones_name_their_violation() {
        for checksum in [None, Some(DigestKind::None), Some(DigestKind::Crc32c), Some(DigestKind::Crc64)] {
            for size_hint in [None, Some(0), Some(1 << 40)] {
                let hello = Hello {
                    role: Role::Sender,
                    checksum,
                    size_hint,
                    place: Place::default(),
                    wants_name: false,
                };
                assert_eq!(Hello::decode(&hello.encode(), Role::Sender), Ok(hello));
            }
        }
        let hello = Hello {
            role: Role::Sender,
            checksum: None,
            size_hint: None,
            place: Place::default(),
            wants_name: false,
        };
        let wrong = |at: usize, value: u8| {
            let mut bytes = hello.encode();
            bytes[at] = value;
            Hello::decode(&bytes, Role::Sender).unwrap_err().0
        };
        assert_eq!(wrong(0, 0), "is not rsend or rrecv");
        assert!(wrong(4, 2).contains("another version"));
        assert!(wrong(5, 2).contains("the same role"));
        assert_eq!((wrong(5, 3), wrong(5, 9)), ("is not rsend or rrecv", "is not rsend or rrecv"));
        let rperf = |role| Hello::decode(&hello.encode(), role).unwrap_err().0;
        assert_eq!((rperf(Role::Client), rperf(Role::Server)), ("is not rperf", "is not rperf"));
        assert!(wrong(6, 4).contains("checksum"));
        for (at, value) in [(7, 1), (20, 1), (20, 2), (20, 4), (21, 1), (23, 1), (31, 1)] {
            assert!(wrong(at, value).contains("reserved"), "{at}");
        }
        assert!(Hello::decode(&[], Role::Sender).is_err() && Hello::decode(&[0; 33], Role::Sender).is_err());
    }

    #[test]
    fn a_hello_has_the_core_and_what_its_role_may_say() {
        let hello = |role, place| Hello { role, checksum: None, size_hint: None, place, wants_name: false };
        let trip = |role, place| Hello::decode(&hello(role, place).encode(), role).map(|hello| hello.place);
        let ps = |ps| NonZeroU32::new(ps).unwrap();
        let measured = |cluster_ps| Some(CoreDistance { ends_ps: ps(104_500), cluster_ps });
        for core in [None, Some(0), Some(7), Some(u32::MAX - 1)] {
            for distance in [None, measured(None), measured(Some(ps(31_000)))] {
                let connects = Place { core, distance, ..Place::default() };
                for role in [Role::Sender, Role::Client] {
                    assert_eq!(trip(role, connects), Ok(connects));
                }
                assert_eq!(trip(Role::Receiver, connects).is_ok(), distance.is_none());
            }
            for (may_move, asks) in [(false, true), (true, false), (true, true)] {
                let listens = Place { core, may_move, asks, distance: None };
                for role in [Role::Receiver, Role::Server] {
                    assert_eq!(trip(role, listens), Ok(listens));
                }
                assert!(trip(Role::Client, listens).is_err());
            }
        }
    }

    #[test]
    fn only_a_receiver_asks_for_a_name() {
        for role in [Role::Sender, Role::Receiver, Role::Client, Role::Server] {
            for place in [Place::default(), Place { core: Some(3), ..Place::default() }] {
                let hello = Hello { role, checksum: None, size_hint: None, place, wants_name: true };
                let decoded = Hello::decode(&hello.encode(), role);
                match role {
                    Role::Receiver => assert_eq!(decoded, Ok(hello)),
                    _ => assert!(decoded.unwrap_err().0.contains("reserved"), "{role:?}"),
                }
            }
        }
    }

    #[test]
    fn the_stronger_checksum_wins() {
        use DigestKind::{Crc32c, Crc64, None as Nothing};
        assert_eq!(negotiate_checksum(None, None), Crc64);
        assert_eq!(negotiate_checksum(Some(Nothing), None), Nothing);
        assert_eq!(negotiate_checksum(None, Some(Crc32c)), Crc32c);
        assert_eq!(negotiate_checksum(Some(Nothing), Some(Crc32c)), Crc32c);
        assert_eq!(negotiate_checksum(Some(Crc64), Some(Crc32c)), Crc64);
    }
}
