//! The cases, and the words in which they are written down.

mod direct;
mod notified;
mod posted;

use superpipe_core::{Arrival, FlagPlace, NOTICES_MIN, Origin, Protocol};

use super::case::{Acks, Case, Closing, How, Take, Transfer};

/// All of them.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = posted::cases();
    cases.extend(notified::cases());
    cases.extend(direct::cases());
    cases
}

/// A message of so many bytes, as an operation.
const fn message(bytes: usize) -> Transfer {
    let (protocol, how) = (Protocol::Superpipeline, How::Drive);
    Transfer { bytes, stream: false, protocol, how, cancel: false, reject: false }
}

/// A message that is sent at once: in a line, if it has at most 40 bytes.
const fn at_once(bytes: usize) -> Transfer {
    Transfer { how: How::TrySend, ..message(bytes) }
}

/// A message of 8 bytes in a line.
const fn inline() -> Transfer {
    at_once(8)
}

/// A stream of so many bytes.
const fn stream(bytes: usize) -> Transfer {
    Transfer { stream: true, how: How::Push(bytes), ..message(bytes) }
}

impl Transfer {
    /// It may be given up at any step.
    const fn cancelled(self) -> Self {
        Self { cancel: true, ..self }
    }

    /// It may be refused at any step.
    const fn rejected(self) -> Self {
        Self { reject: true, ..self }
    }

    const fn by(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    const fn how(self, how: How) -> Self {
        Self { how, ..self }
    }
}

/// Two blocks, everything torn, a send queue of one, no close; end 0 sends.
fn case(name: &'static str, transfers: &[Transfer]) -> Case {
    Case {
        name,
        direct: false,
        arrival: Arrival::Flag,
        ordered: true,
        flags: FlagPlace::Inside,
        blocks: 2,
        c0_bytes: 64,
        send_queue: 1,
        notices: NOTICES_MIN,
        torn: true,
        late: 1,
        reads_late: false,
        acks: Acks::InOrder,
        life: false,
        looks: false,
        origin: Origin::default(),
        closing: [Closing::Not; 2],
        take: [Take::Drive(0); 2],
        transfers: [transfers.to_vec(), Vec::new()],
    }
}

impl Case {
    /// End 1 sends, too.
    fn back(self, transfers: &[Transfer]) -> Self {
        let [there, _] = self.transfers;
        Self { transfers: [there, transfers.to_vec()], ..self }
    }

    fn ring(self, blocks: u32) -> Self {
        Self { blocks, ..self }
    }

    fn queue(self, send_queue: usize) -> Self {
        Self { send_queue, ..self }
    }

    /// Torn between blocks only.
    fn untorn(self) -> Self {
        Self { torn: false, ..self }
    }

    /// A write is visible before its WR completes.
    fn prompt(self) -> Self {
        Self { late: 0, ..self }
    }

    /// Checked flags; where writes are posted, without order inside them.
    fn checked(self) -> Self {
        Self { arrival: Arrival::CheckedFlag, ordered: self.direct, ..self }
    }

    /// Notifications, without order inside writes.
    fn notified(self) -> Self {
        Self { arrival: Arrival::Notify, ordered: false, ..self }
    }

    fn apart(self) -> Self {
        Self { flags: FlagPlace::Apart, ..self }
    }

    fn taking(self, take: Take) -> Self {
        Self { take: [take; 2], ..self }
    }

    fn closing(self, closing: [Closing; 2]) -> Self {
        Self { closing, ..self }
    }

    /// Acknowledgements overtake each other, and ends show life.
    fn overtaken(self) -> Self {
        Self { acks: Acks::Overtaken, life: true, ..self }
    }
}
