//! Ways that the peer or the fabric has declined, left out for a time.

/// Messages of the class for which a way is left out after the first time; twice as many after each further one.
const MESSAGES: u16 = 8;
/// Times that it is doubled: 16,384 messages at most.
const DOUBLINGS_MAX: u8 = 11;

/// Absence of a way from a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Absence {
    /// Messages that are left of it.
    left: u16,
    /// Times that the way was declined, less the messages that went this way since.
    declined: u8,
}

impl Absence {
    pub(super) const NONE: Self = Self { left: 0, declined: 0 };

    /// Returns the messages for which the way is still left out.
    pub(super) const fn left(&self) -> u16 {
        self.left
    }

    /// The way was declined.
    pub(super) fn decline(&mut self) {
        self.left = MESSAGES << self.declined.min(DOUBLINGS_MAX);
        self.declined = self.declined.saturating_add(1).min(DOUBLINGS_MAX + 1);
    }

    /// A message of the class is over.
    pub(super) const fn pass(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// A message went this way.
    pub(super) const fn succeed(&mut self) {
        self.declined = self.declined.saturating_sub(1);
        self.left = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_a_limit_and_falls_by_success() {
        let mut absence = Absence::NONE;
        for times in 0..20 {
            absence.decline();
            assert_eq!(absence.left(), 8 << times.min(11));
        }
        absence.pass();
        assert_eq!(absence.left(), (8 << 11) - 1);
        absence.succeed();
        absence.decline();
        assert_eq!(absence.left(), 8 << 11);
        (0..20).for_each(|_| absence.succeed());
        absence.decline();
        assert_eq!(absence.left(), 8);
    }
}
