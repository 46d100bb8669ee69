//! Layout of the page.
//!
//! ```text
//! header 256 B | sequences, 8 B per line | lines, 512 B each: the process, pollers, connections
//! ```
//!
//! A line whose sequence is odd is being written, and one whose sequence is 0 was never used. All words have the byte order of the host.

use super::words::LINE_WORDS;

/// First word: "SPMETRIC".
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"SPMETRIC");
/// Version of the layout, of every line in it and of the numbers that stand for enums. Readers know exactly one.
pub(super) const VERSION: u64 = 1;
/// Most connections that a page can list: as many as a poller has. And most pollers.
pub(super) const CONNECTIONS_LIMIT: u32 = 1 << 16;
pub(super) const POLLERS_LIMIT: u32 = 64;

pub(super) const HEADER_WORDS: usize = 32;
pub(super) const WORD_BYTES: usize = 8;
/// Name by which readers find the memfd.
pub(super) const NAME: &core::ffi::CStr = c"superpipe-metrics";
/// Words of the header.
pub(super) const AT_MAGIC: usize = 0;
pub(super) const AT_VERSION: usize = 1;
pub(super) const AT_PID: usize = 2;
pub(super) const AT_CONNECTIONS: usize = 3;
pub(super) const AT_POLLERS: usize = 4;
pub(super) const AT_LIBRARY: usize = 5;
/// 1 while the process publishes, and 0 afterwards.
pub(super) const AT_LIVE: usize = 6;
/// The pid namespace in which the pid is its number: the inode of /proc/self/ns/pid, and 0 if that is not known.
pub(super) const AT_NAMESPACE: usize = 7;
/// Name of the program, 16 bytes.
pub(super) const AT_NAME: usize = 8;

/// Index of the line of the process.
pub(super) const PROCESS: usize = 0;

/// Numbers of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) pollers: u32,
    pub(super) connections: u32,
}

impl Shape {
    /// Returns the shape of these numbers if they are allowed.
    pub(super) fn checked(pollers: u64, connections: u64) -> Option<Self> {
        let pollers = u32::try_from(pollers).ok().filter(|count| *count <= POLLERS_LIMIT)?;
        let allowed = 1..=CONNECTIONS_LIMIT;
        let connections = u32::try_from(connections).ok().filter(|count| allowed.contains(count))?;
        Some(Self { pollers, connections })
    }

    /// Returns the number of lines.
    pub(super) const fn lines(self) -> usize {
        1 + self.pollers as usize + self.connections as usize
    }

    /// Returns the index of the first connection's line; those of pollers are before.
    pub(super) const fn first_connection(self) -> usize {
        1 + self.pollers as usize
    }

    /// Returns the offset of a sequence in words.
    pub(super) const fn sequence_at(line: usize) -> usize {
        HEADER_WORDS + line
    }

    /// Returns the offset of a line in words.
    pub(super) const fn line_at(self, line: usize) -> usize {
        // Each line begins at a cache line.
        let sequences_end = Self::sequence_at(self.lines()).next_multiple_of(8);
        sequences_end + line * LINE_WORDS
    }

    /// Returns the words of the page.
    pub(super) const fn words(self) -> usize {
        self.line_at(self.lines())
    }

    /// Returns the bytes of the page.
    pub(super) const fn bytes(self) -> usize {
        self.words() * WORD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lie_one_behind_the_other_and_begin_at_cache_lines() {
        for (pollers, connections) in [(0, 1), (1, 1), (16, 1024), (64, 65_536)] {
            let shape = Shape::checked(pollers, connections).unwrap();
            assert!(Shape::sequence_at(shape.lines()) <= shape.line_at(0));
            for line in [0, 1, shape.lines() - 1] {
                assert_eq!(shape.line_at(line) % 8, 0);
                assert_eq!(shape.line_at(line + 1) - shape.line_at(line), LINE_WORDS);
            }
            assert_eq!(shape.bytes(), 8 * shape.line_at(shape.lines()));
        }
    }

    #[test]
    fn numbers_out_of_range_have_no_shape() {
        for (pollers, connections) in [(65, 1), (0, 0), (0, 65_537), (u64::MAX, 1), (0, 1 << 32 | 1)] {
            assert_eq!(Shape::checked(pollers, connections), None);
        }
    }
}
