//! Trust in the peer, which the user declares.

use superpipe::PeerTrust;

/// Returns the library's trust in the peer, if the user has declared it by `--trust-peer`.
#[must_use]
pub const fn peer_trust(is_declared: bool) -> PeerTrust {
    if is_declared {
        // SAFETY: 1. The user says that the peer is trusted; the option's text tells what that means.
        unsafe { PeerTrust::declare() }
    } else {
        PeerTrust::NONE
    }
}
