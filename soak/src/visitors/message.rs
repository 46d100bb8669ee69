//! Messages of the visitors. The seed, the connection, the direction and the number decide a message, so that both ends know it.

use superpipe::LoanSpans;

use crate::random::Random;

/// Bytes of the longest message: some are longer than what is sent at once.
pub(crate) const BYTES_MAX: usize = 200 << 10;
/// Distinct offsets of contents.
const OFFSETS: usize = 1 << 16;
const NUMBER_BITS: u32 = 32;
/// Connections of a visitor, at most.
pub(crate) const CONNECTIONS_MAX: u32 = 6;

/// Bytes from which all contents are cut, each at its own offset.
pub(crate) struct Pool {
    seed: u64,
    bytes: Vec<u8>,
}

impl Pool {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(&[seed]);
        Self {
            seed,
            bytes: (0..(BYTES_MAX + OFFSETS) / 8).flat_map(|_| random.word().to_le_bytes()).collect(),
        }
    }
}

/// A connection of a visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(pub(crate) u32);

impl Id {
    pub(crate) const fn new(visitor: u32, connection: u32) -> Self {
        Self(visitor * CONNECTIONS_MAX + connection)
    }

    /// Returns the connection that sent a message of this tag.
    pub(crate) fn of_tag(tag: u64) -> Self {
        Self(u32::try_from(tag >> NUMBER_BITS).unwrap_or(u32::MAX))
    }
}

/// The end that sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Visitor,
    Host,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    id: Id,
    number: u32,
    pub(crate) bytes: usize,
    offset: usize,
}

impl Message {
    /// Returns message `number` of a connection's direction.
    pub(crate) fn new(pool: &Pool, id: Id, side: Side, number: u32) -> Self {
        let mut random = Random::new(&[pool.seed, id.0.into(), side as u64, number.into()]);
        let bytes = if random.chance(5) { 0 } else { random.doubling(1, BYTES_MAX) };
        Self { id, number, bytes, offset: random.below(OFFSETS) }
    }

    pub(crate) fn tag(&self) -> u64 {
        u64::from(self.id.0) << NUMBER_BITS | u64::from(self.number)
    }

    pub(crate) fn content<'a>(&self, pool: &'a Pool) -> &'a [u8] {
        &pool.bytes[self.offset..][..self.bytes]
    }

    /// Compares what arrived.
    pub(crate) fn check(&self, pool: &Pool, tag: u64, bytes: &[u8]) -> Result<(), String> {
        if tag == self.tag() && bytes == self.content(pool) {
            return Ok(());
        }
        let at = bytes.iter().zip(self.content(pool)).position(|(is, wanted)| is != wanted);
        Err(format!("{self:?} differs from byte {at:?} on: {} bytes with tag {tag:#x}", bytes.len()))
    }

    /// Compares a loan where it lies.
    pub(crate) fn check_spans(&self, pool: &Pool, tag: u64, spans: LoanSpans<'_>) -> Result<(), String> {
        let (content, mut done) = (self.content(pool), 0);
        for span in spans {
            let mut at = 0;
            while at < span.len() {
                let rest = content.get(done + at..).unwrap_or_default();
                let is_same = match (span.read::<8>(at), rest) {
                    (Some(word), [a, b, c, d, e, f, g, h, ..]) => {
                        at += word.len();
                        word == [*a, *b, *c, *d, *e, *f, *g, *h]
                    }
                    (_, [byte, ..]) => {
                        at += 1;
                        span.read(at - 1) == Some([*byte])
                    }
                    (_, []) => false,
                };
                if !is_same {
                    return Err(format!("{self:?} in place differs before byte {}", done + at));
                }
            }
            done += span.len();
        }
        if tag == self.tag() && done == content.len() {
            return Ok(());
        }
        Err(format!("{self:?} in place has {done} bytes, and tag {tag:#x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_differ_and_tags_name_the_connection() {
        let pool = Pool::new(3);
        let id = Id::new(7, 2);
        let one = Message::new(&pool, id, Side::Visitor, 1);
        assert_eq!(Id::of_tag(one.tag()), id);
        assert_ne!(one, Message::new(&pool, id, Side::Host, 1));
        assert_eq!(one.check(&pool, one.tag(), one.content(&pool)), Ok(()));
        let other = Message::new(&pool, id, Side::Visitor, 2);
        assert!(other.check(&pool, one.tag(), one.content(&pool)).is_err());
        for number in 0..2000 {
            assert!(Message::new(&pool, id, Side::Host, number).bytes <= BYTES_MAX);
        }
    }
}
