//! Arrival flags of a simulated connection.

/// Kind of its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// They have a CRC.
    pub(crate) checked: bool,
    /// They are notified.
    pub(crate) notify: bool,
    /// Bits of the CRC: 32, but for who wants to see it miss.
    pub(crate) crc_bits: u32,
}
