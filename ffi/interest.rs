//! What a program wants to be told of a connection that it polls beside others.

/// Events that a connection reports, besides its end and its peer's silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// [`PollEvent::Readable`](crate::PollEvent::Readable). Without it what arrives stays in the landing buffer. Default: true.
    pub readable: bool,
    /// [`PollEvent::Writable`](crate::PollEvent::Writable). To be asked for once a try found no room. Default: false.
    pub writable: bool,
}

impl Default for Interest {
    fn default() -> Self {
        Self { readable: true, writable: false }
    }
}
