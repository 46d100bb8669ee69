//! Signals: messages of four bytes, by a SEND or by the immediate of a write. wire.md 10.3.
//!
//! ```text
//! signal    2 bits of kind | 30 bits: core's notification, else 0
//! ```

/// Bytes of a signal.
pub(super) const SIGNAL_BYTES: u32 = 4;
const KIND_SHIFT: u32 = 30;

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Core's notification of a write, in 30 bits.
    Notification(u32),
    /// The sender wants to sleep.
    Sleep,
    /// The sender will wake its peer from now on.
    SleepOk,
    /// Something was written.
    Wake,
}

impl Signal {
    pub(super) const fn encode(self) -> u32 {
        match self {
            Self::Notification(bits) => bits & (u32::MAX >> 2),
            Self::Sleep => 1 << KIND_SHIFT,
            Self::SleepOk => 2 << KIND_SHIFT,
            Self::Wake => 3 << KIND_SHIFT,
        }
    }

    /// Returns true if these bits can only be a notification; packets do not begin so.
    pub(super) const fn is_notification(bits: u32) -> bool {
        bits >> KIND_SHIFT == 0
    }

    /// Returns none if bits are set that must not be.
    pub(super) const fn decode(signal: u32) -> Option<Self> {
        match (signal >> KIND_SHIFT, signal & (u32::MAX >> 2)) {
            (0, bits) => Some(Self::Notification(bits)),
            (1, 0) => Some(Self::Sleep),
            (2, 0) => Some(Self::SleepOk),
            (3, 0) => Some(Self::Wake),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_decode_as_encoded_and_others_are_refused() {
        for signal in [
            Signal::Notification(0),
            Signal::Notification(0x3FFF_FFFF),
            Signal::Sleep,
            Signal::SleepOk,
            Signal::Wake,
        ] {
            assert_eq!(Signal::decode(signal.encode()), Some(signal));
        }
        for wrong in [1 << 30 | 1, 2 << 30 | 1 << 29, u32::MAX] {
            assert_eq!(Signal::decode(wrong), None);
        }
    }
}
