//! The API over shared memory against a second process that speaks the wire by hand, and stalls, dies, floods and lies at
//! every step of a connection.
//!
//! A case is data: the peer's script (`peer`), the call at this end, and the result that the call must have (`case`). Every
//! case checks more than that result: only bytes that the script sent arrive, and afterwards every descriptor, mapping and share
//! of the budget is given back. In one of three plays each call returns within ten times its deadline, and a wait costs little CPU time.
//!
//! Over RDMA the same peer plays a part of them, and cases of its own (`rdma`), where there is a device.
//!
//! Cases run one after the other, because they count what the process holds.

#[macro_use]
mod case;
mod closing;
mod exposing;
mod growing;
mod held;
mod message;
mod peer;
mod rdma;
mod setup;
mod splitting;
mod stream;
mod us;
mod warming;

/// Tables of all phases, by the phase's name.
pub(crate) const PHASES: [(&str, case::Table); 9] = [
    ("setup", setup::CASES),
    ("warming", warming::CASES),
    ("message", message::CASES),
    ("stream", stream::CASES),
    ("closing", closing::CASES),
    ("growing", growing::CASES),
    ("exposing", exposing::CASES),
    ("splitting", splitting::CASES),
    ("rdma", rdma::CASES),
];
