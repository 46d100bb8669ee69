//! Messages that are built in place: what names them.

/// Space for a message, where it is sent from: over shared memory in the peer's landing buffer, over RDMA in its image here.
///
/// It names the space to its connection and borrows nothing, so the connection can receive meanwhile. Only one is open at a time, and nothing else can
/// be sent until it is [committed](crate::Connection::commit) or [abandoned](crate::Connection::abandon). If it is dropped, it stays open until the
/// connection ends.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "until it is committed or abandoned, nothing else can be sent"]
pub struct Reserved {
    pub(crate) message: superpipe_core::ReservedMessage,
    /// Number of the connection in this process.
    pub(crate) owner: u64,
}

impl Reserved {
    /// Returns the bytes of the message.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.message.bytes as usize
    }
}

impl From<(Reserved, Self)> for crate::Error {
    /// Drops what was reserved: the space stays open, and nothing else can be sent until the connection ends.
    fn from((_, error): (Reserved, Self)) -> Self {
        error
    }
}
