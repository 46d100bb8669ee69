//! Transfers of one direction, as a seed draws them.

use superpipe_core::Protocol;
use superpipe_testkit::Rng;
use superpipe_testkit::pair::{Content, ReceiveMethod, SendMethod, Transfer};

use super::up_to;

/// Most transfers of one direction: in most seeds, and in those that fill the mailbox.
pub(super) const TRANSFERS_MAX: [usize; 2] = [8, 60];

/// Draws the transfers of one direction. In some seeds all are alike, so that a rare event happens many times in a row, such as short
/// messages that are rejected at once. In some most are cancelled.
pub(super) fn transfers(rng: &mut Rng, most: usize) -> Vec<Transfer> {
    let cancels = if rng.one_in(8) { 2 } else { 7 };
    let one = transfer(rng, cancels);
    // Short messages, and messages of several blocks that begin by the fast path and are rejected in the middle.
    let most_bytes = [200, 1500][rng.below(2)];
    let refused = Transfer {
        bytes: one.bytes % most_bytes,
        receive_method: ReceiveMethod::Reject(0),
        cancel_at: None,
        ..one
    };
    let alike = [Some(one), Some(one), Some(refused), None, None, None, None, None][rng.below(8)];
    let most = if alike.is_some_and(|it| it.bytes < 1000) { TRANSFERS_MAX[1] } else { most };
    (0..=rng.below(most)).map(|_| alike.unwrap_or_else(|| transfer(rng, cancels))).collect()
}

fn transfer(rng: &mut Rng, cancels: usize) -> Transfer {
    let bytes = match rng.below(6) {
        0 | 1 => rng.below(49),
        2 => ((1 + rng.below(20)) * 128 + rng.below(131)).saturating_sub(65),
        3 | 4 => rng.below(2501),
        _ => rng.below(9001),
    };
    let send_method = match rng.below(4) {
        0 => SendMethod::TrySend(1 + rng.below(4)),
        1 => SendMethod::Push(1 + rng.below(3000), 1 + rng.below(4)),
        2 => SendMethod::Reserve(up_to(rng, 1500)),
        _ => SendMethod::Mixed(up_to(rng, 700)),
    };
    let receive_method = match rng.below(8) {
        0..=3 => ReceiveMethod::Pull(1 + rng.below(3000), 1 + rng.below(4)),
        4..=6 => ReceiveMethod::InPlace(up_to(rng, 2000)),
        _ => ReceiveMethod::Reject(if rng.one_in(2) { 0 } else { rng.below(601) }),
    };
    Transfer {
        bytes,
        stream: rng.below(10) < 3,
        content: [Content::Random, Content::Flags, Content::Headers][rng.below(3)],
        protocol: Protocol::ALL[rng.below(Protocol::ALL.len())],
        send_method,
        receive_method,
        cancel_at: rng.one_in(cancels).then(|| rng.below(1501)),
    }
}
