//! Doorbells: what an end writes counts for a peer that sleeps only once the end has rung.

/// Writes of one end that its peer may sleep for: lines and flags by direct store, or writes that were posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bells {
    /// All of it.
    pub writes: u64,
    /// Since it rang last: of this a peer that sleeps learns nothing.
    pub unrung: u64,
}

impl Bells {
    pub(crate) const fn write(&mut self) {
        self.writes += 1;
        self.unrung += 1;
    }

    pub(crate) const fn ring(&mut self) {
        self.unrung = 0;
    }
}
