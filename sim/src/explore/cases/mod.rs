//! The cases, and functions that build them.

mod case;
mod direct;
mod exposing;
mod growing;
mod lending;
mod notified;
mod offering;
mod posted;
mod preparing;

use superpipe_core::{Arrival, FirstChunk, FlagPlace, NOTIFICATIONS_MIN, Origin, Protocol};

pub(in crate::explore) use case::BLOCK_BYTES;
pub use case::{
    AckOrder, Case, ClosePolicy, Exposing, Growing, Lending, Offering, ReceiveMethod, SendMethod, Transfer,
};

/// Returns all cases.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = posted::cases();
    cases.extend(notified::cases());
    cases.extend(direct::cases());
    cases.extend(growing::cases());
    cases.extend(exposing::cases());
    cases.extend(lending::cases());
    cases.extend(offering::cases());
    cases.extend(preparing::cases());
    cases
}

/// Returns a message of this many bytes, as an operation.
const fn message(bytes: usize) -> Transfer {
    let (protocol, send_method) = (Protocol::Superpipeline, SendMethod::Drive);
    Transfer { bytes, stream: false, protocol, send_method, cancel: false, reject: false }
}

/// Returns a message for `try_send`. Up to 40 bytes travel in a line.
const fn at_once(bytes: usize) -> Transfer {
    Transfer { send_method: SendMethod::TrySend, ..message(bytes) }
}

/// Returns a message of 8 bytes in a line.
const fn inline() -> Transfer {
    at_once(8)
}

/// Returns a stream of this many bytes.
const fn stream(bytes: usize) -> Transfer {
    Transfer { stream: true, send_method: SendMethod::Push(bytes), ..message(bytes) }
}

impl Transfer {
    /// Lets the sender cancel it at any step.
    const fn cancelled(self) -> Self {
        Self { cancel: true, ..self }
    }

    /// Lets the receiver reject it at any step.
    const fn rejected(self) -> Self {
        Self { reject: true, ..self }
    }

    const fn by(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    const fn send_method(self, send_method: SendMethod) -> Self {
        Self { send_method, ..self }
    }
}

/// Returns a case with two blocks, all splits, a send queue of one, and no close, in which end 0 sends.
fn case(name: &'static str, transfers: &[Transfer]) -> Case {
    Case {
        name,
        direct: false,
        arrival: Arrival::Flag,
        ordered: true,
        flags: FlagPlace::Inside,
        blocks: 2,
        c0_bytes: 64,
        first_chunk: FirstChunk::WithRts,
        send_queue: 1,
        notifications_max: NOTIFICATIONS_MIN,
        at_once: false,
        settles: false,
        split: true,
        late_max: 1,
        reads_late: false,
        acks: AckOrder::InOrder,
        keepalives: false,
        checks_time: false,
        windows: &[],
        growing: None,
        exposing: None,
        lending: None,
        offering: None,
        origin: Origin::default(),
        close_policy: [ClosePolicy::Never; 2],
        receive_method: [ReceiveMethod::Drive(0); 2],
        transfers: [transfers.to_vec(), Vec::new()],
    }
}

impl Case {
    /// Lets end 1 send these transfers.
    fn back(self, transfers: &[Transfer]) -> Self {
        let [there, _] = self.transfers;
        Self { transfers: [there, transfers.to_vec()], ..self }
    }

    fn ring(self, blocks: u32) -> Self {
        Self { blocks, ..self }
    }

    /// Lets end 0 choose among these windows at any step.
    fn windows(self, windows: &'static [u32]) -> Self {
        Self { windows, ..self }
    }

    fn queue(self, send_queue: usize) -> Self {
        Self { send_queue, ..self }
    }

    /// Splits writes between blocks only.
    fn unsplit(self) -> Self {
        Self { split: false, ..self }
    }

    /// Makes writes visible at once.
    fn at_once(self) -> Self {
        Self { at_once: true, ..self }.unsplit()
    }

    /// Makes writes visible at once, and lets each round go on until nothing is left to do.
    fn settling(self) -> Self {
        Self { settles: true, ..self }.at_once()
    }

    /// Makes a write visible before its WR completes.
    fn prompt(self) -> Self {
        Self { late_max: 0, ..self }
    }

    /// Uses checked flags. Posted writes then have no order inside.
    fn checked(self) -> Self {
        Self { arrival: Arrival::CheckedFlag, ordered: self.direct, ..self }
    }

    /// Uses notifications, without order inside writes.
    fn notified(self) -> Self {
        Self { arrival: Arrival::Notify, ordered: false, ..self }
    }

    /// Puts the slot lines apart, with groups of this many blocks.
    fn apart(self, group_blocks: u8) -> Self {
        Self { flags: FlagPlace::Apart { group_blocks }, ..self }
    }

    fn taking(self, receive_method: ReceiveMethod) -> Self {
        Self { receive_method: [receive_method; 2], ..self }
    }

    fn closing(self, close_policy: [ClosePolicy; 2]) -> Self {
        Self { close_policy, ..self }
    }

    /// Lets acknowledgements overtake each other, and ends send keepalives.
    fn overtaken(self) -> Self {
        Self { acks: AckOrder::Overtaken, keepalives: true, ..self }
    }
}
