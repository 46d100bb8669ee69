//! Control messages about transfers and the connection, apart from the data. wire.md 5.

use crate::error::{ProtocolError, Reason};
use crate::wire::line::Line;

/// A control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// Receiver to sender: the transfer has a destination, go on (wire.md 5.1).
    Cts { transfer: u64 },
    /// Receiver to sender: the transfer is not wanted (wire.md 5.2).
    Reject { transfer: u64, reason: Reason },
    /// The connection ends after this chunk (wire.md 5.3).
    Close { last: u64, reason: Reason },
}

/// Kind of a control message, by the number in word 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Receiver to sender: go on.
    Cts = 1,
    /// Receiver to sender: the transfer is not wanted.
    Reject = 2,
    /// The connection ends.
    Close = 3,
}

/// Number of kinds.
pub(crate) const KINDS: usize = 3;

impl Kind {
    pub(crate) const fn index(self) -> usize {
        self as usize - 1
    }

    /// Most messages of this kind that may be unacknowledged. A CTS answers each long transfer; the others are rare.
    pub(crate) const fn outstanding_max(self) -> u32 {
        match self {
            Self::Cts => 8,
            Self::Reject | Self::Close => 1,
        }
    }
}

impl Control {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Cts { .. } => Kind::Cts,
            Self::Reject { .. } => Kind::Reject,
            Self::Close { .. } => Kind::Close,
        }
    }

    /// A line without its flag: kind, transfer, last chunk, reason, and zeros.
    pub(crate) const fn line(&self) -> Line {
        let (transfer, last, reason) = match *self {
            Self::Cts { transfer } => (transfer, 0, Reason(0)),
            Self::Reject { transfer, reason } => (transfer, 0, reason),
            Self::Close { last, reason } => (0, last, reason),
        };
        Line([self.kind() as u64, transfer, last, reason.0 as u64, 0, 0, 0, 0])
    }

    /// Reads a line that was copied out of the control page.
    ///
    /// # Errors
    /// The rule of wire.md 5 that it breaks.
    pub(crate) fn parse(line: &Line) -> Result<Self, ProtocolError> {
        let [kind, transfer, last, reason, r4, r5, r6, _] = line.0;
        let Ok(reason) = u32::try_from(reason).map(Reason) else {
            return Err(ProtocolError::ReservedNotZero);
        };
        let control = match kind {
            1 => Self::Cts { transfer },
            2 => Self::Reject { transfer, reason },
            3 => Self::Close { last, reason },
            _ => return Err(ProtocolError::UnknownControl),
        };
        // Words that this kind does not use must be zero: the same message written again gives the same words.
        if control.line().0[..4] != line.0[..4] || r4 | r5 | r6 != 0 {
            return Err(ProtocolError::ReservedNotZero);
        }
        Ok(control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Control; 3] = [
        Control::Cts { transfer: 9 },
        Control::Reject { transfer: 9, reason: Reason(7) },
        Control::Close { last: 8, reason: Reason(7) },
    ];

    #[test]
    fn every_control_message_survives_the_line() {
        for control in ALL {
            assert_eq!(Control::parse(&control.line()), Ok(control));
        }
    }

    #[test]
    fn unknown_kinds_and_reserved_words_are_refused() {
        for kind in [0, 4, u64::MAX] {
            let mut line = ALL[0].line();
            line.0[0] = kind;
            assert_eq!(Control::parse(&line), Err(ProtocolError::UnknownControl));
        }
        for control in ALL {
            for word in 4..7 {
                let mut line = control.line();
                line.0[word] = 1;
                assert_eq!(Control::parse(&line), Err(ProtocolError::ReservedNotZero));
            }
        }
        let mut line = ALL[0].line();
        line.0[2] = 1;
        assert_eq!(Control::parse(&line), Err(ProtocolError::ReservedNotZero));
        let mut line = ALL[1].line();
        line.0[3] = 1 << 32;
        assert_eq!(Control::parse(&line), Err(ProtocolError::ReservedNotZero));
    }
}
