//! The memory side of superpipe-verbs' fake device, for the tests of this directory.

use superpipe_verbs::fake::{self, Posted};

/// Makes the next poll find that the oldest receive got these bytes by a SEND.
pub(super) fn receive(bytes: &[u8]) {
    // SAFETY: these tests keep the memory of each receive until they end, and look at it after the completion.
    unsafe { fake::receive(bytes) };
}

/// Returns the bytes that the device would read now for this work request.
pub(super) fn gathered(posted: &Posted) -> Vec<u8> {
    // SAFETY: these tests keep what they post from until they end, and run in one thread.
    unsafe { fake::gathered(posted) }
}
