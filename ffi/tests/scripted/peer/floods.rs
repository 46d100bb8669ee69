//! Floods: what is legal, as fast as it can be, for ever.

use core::time::Duration;
use std::thread;

use super::SPINS;
use super::script::{CTS, Flood, Of, REJECT};
use super::wire::{CTS_MAX, Wire};

/// The transfer that every REJECT and CTS names: it is over.
const OVER: Of = Of::Number(1);
/// REJECTs that may be on the way (wire.md 5).
const REJECTS_MAX: u64 = 1;
const PATIENCE: Duration = Duration::from_millis(50);

/// Floods until this process is ended.
pub(super) fn flood(wire: &mut Wire, flood: Flood) -> ! {
    let mut vain = 0;
    loop {
        wire.keep_house();
        let has_moved = match flood {
            Flood::Rejects => control(wire, [REJECT, 0, 0, 7, 0, 0, 0], REJECTS_MAX),
            Flood::Cts => control(wire, [CTS, 0, 0, 0, 0, 0, 0], CTS_MAX),
            Flood::Wakes => wire.link().wake(),
            Flood::Life => {
                wire.send_keepalive();
                true
            }
            Flood::Acks => {
                wire.acknowledge(0, 0);
                true
            }
            Flood::Chunks => wire.trickle(1),
            Flood::Flags => wire.trickle_flags(1),
            Flood::Blocks => wire.trickle_flags(wire.layout().block_bytes),
            Flood::Takes => wire.take_blindly(),
            Flood::Lulls => {
                wire.link().lull();
                true
            }
            Flood::Patience => {
                wire.send_keepalive();
                thread::sleep(PATIENCE);
                true
            }
        };
        vain = if has_moved { 0 } else { vain + 1 };
        if vain > SPINS {
            thread::yield_now();
        }
    }
}

/// A control message more, if one may be on the way.
fn control(wire: &mut Wire, words: [u64; 7], most: u64) -> bool {
    let may = wire.controls_on_the_way() < most;
    if may {
        wire.control(words, Some(OVER));
    }
    may
}
