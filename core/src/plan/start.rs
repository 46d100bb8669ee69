//! Start of a message: the wait before its first byte leaves.

/// Start of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// Without a rendezvous: the receiver has memory for all of it. The papers' raw protocols.
    Raw,
    /// A rendezvous, and then the preparation: the copy of the first chunk, or registrations. superpipe's register protocols take as long, since the receiver
    /// registers between RTS and CTS, while the sender does (wire.md 4.8).
    Rendezvous,
    /// The preparation during the rendezvous: the first copy (Denis, section 4), or registrations at both ends (Denis, section 6, with reference 11), if the
    /// receiver registers its buffer before it knows of the message.
    Overlapped,
    /// The first chunk is copied and goes with the RTS, and the others are copied and sent after the CTS: superpipe's optimistic start (wire.md 4.5). Nothing can be registered so:
    /// for registrations it is a rendezvous.
    Optimistic,
}

impl Start {
    /// Returns the nanoseconds until the first byte leaves, if preparing it takes `prepare_ns`, and a rendezvous `rendezvous_ns`.
    #[must_use]
    pub const fn ns(self, prepare_ns: f64, rendezvous_ns: f64) -> f64 {
        match self {
            Self::Raw | Self::Optimistic => prepare_ns,
            Self::Rendezvous => rendezvous_ns + prepare_ns,
            Self::Overlapped => prepare_ns.max(rendezvous_ns),
        }
    }

    /// Returns the start of a message by remote writes, which need the CTS.
    pub(super) const fn of_registration(self) -> Self {
        match self {
            Self::Optimistic => Self::Rendezvous,
            Self::Raw | Self::Rendezvous | Self::Overlapped => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_has_its_rendezvous_before_beside_or_not() {
        let ns = |prepare_ns| {
            [Start::Raw, Start::Rendezvous, Start::Overlapped, Start::Optimistic]
                .map(|start| start.ns(prepare_ns, 10.0))
        };
        assert_eq!(ns(4.0), [4.0, 14.0, 10.0, 4.0]);
        assert_eq!(ns(40.0), [40.0, 50.0, 40.0, 40.0]);
    }
}
