//! Operations of a client, with their slices.

use superpipe_core::driver::{DescriptorWait, RecvOperation, SendOperation, Wait};
use superpipe_core::{Nanos, TransferId};
use superpipe_testkit::Rng;

/// Most slices of one message.
const SLICES_MAX: usize = 6;

/// A message that is being sent.
#[derive(Debug)]
pub(super) struct SendOp {
    pub(super) op: SendOperation,
    pub(super) index: usize,
    pub(super) cuts: Vec<usize>,
}

/// A message that is being received.
#[derive(Clone, Debug)]
pub(super) struct ReceiveOp {
    pub(super) op: RecvOperation,
    pub(super) buffer: Vec<u8>,
    pub(super) cuts: Vec<usize>,
    /// Bytes received so far, as the oracle knows them.
    pub(super) expected: Vec<u8>,
    pub(super) index: Option<usize>,
    pub(super) is_cold: bool,
    /// Driven with other slices, so that the position of the bytes is undefined.
    pub(super) is_odd: bool,
}

/// A stream, or a message that is written like one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    pub(super) id: TransferId,
    pub(super) index: usize,
}

/// Goal of a blocking call.
#[derive(Debug)]
pub(super) enum Wanted {
    Send(usize),
    Receive(usize),
    /// The whole stream with its end.
    Write,
    /// The end of the stream at the head.
    Read,
    Flush,
    WarmUp,
    Close,
    /// A descriptor that is ready at this time.
    Descriptor(DescriptorWait, Nanos),
}

/// A blocking call.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) wanted: Wanted,
    pub(super) wait: Wait,
    pub(super) deadline: Nanos,
    /// Rounds with work since the last check of the time.
    pub(super) busy_rounds: u32,
}

/// Draws where slices begin. Some are empty.
pub(super) fn cuts(rng: &mut Rng, bytes: usize) -> Vec<usize> {
    let mut cuts: Vec<_> = (0..rng.below(SLICES_MAX)).map(|_| rng.below(bytes + 1)).collect();
    if rng.one_in(4) {
        cuts.extend(cuts.first().copied());
    }
    cuts.sort_unstable();
    cuts
}

/// Cuts the bytes to send into slices.
pub(super) fn gather<'a>(mut bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut at = 0;
    let mut slices = Vec::new();
    for cut in cuts {
        let cut = (*cut).min(at + bytes.len());
        let (here, after) = bytes.split_at(cut - at);
        slices.push(here);
        (bytes, at) = (after, cut);
    }
    slices.push(bytes);
    slices
}

/// Cuts the receive buffer into slices.
pub(super) fn scatter<'a>(mut bytes: &'a mut [u8], cuts: &[usize]) -> Vec<&'a mut [u8]> {
    let mut at = 0;
    let mut slices = Vec::new();
    for cut in cuts {
        let cut = (*cut).min(at + bytes.len());
        let (here, after) = bytes.split_at_mut(cut - at);
        slices.push(here);
        (bytes, at) = (after, cut);
    }
    slices.push(bytes);
    slices
}

/// Draws a number from 0 to `most`.
#[expect(clippy::cast_possible_truncation, reason = "not more than a u32")]
pub(super) const fn up_to(rng: &mut Rng, most: u32) -> u32 {
    rng.below(most as usize + 1) as u32
}
