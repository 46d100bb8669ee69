//! Lines and notifications of a hostile peer. Each is one of core's with one or two words changed, which passes most checks of the receiver.

use superpipe_core::{Line, Notification, control_page};
use superpipe_testkit::{Memory, Place, Rng, crc32c, wire};

/// Arrival flags of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrivalFlags {
    /// The flags have a CRC.
    pub(crate) checked: bool,
    /// Notifications announce the flags.
    pub(crate) notify: bool,
    /// The applications lend memory, so that the ends of remote writes are notified.
    pub(crate) lends: bool,
    /// One registration of what they lend in so many fails; 0: none.
    pub(crate) refuses_one_in: usize,
    /// Bits of the CRC. Fewer than 32 show how often it fails.
    pub(crate) crc_bits: u32,
}

/// State of one forging end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forger {
    /// Last line in the control page and in the landing buffer.
    sent: [Option<Line>; 2],
    /// The next write goes to an address without permission.
    pub(crate) is_out_of_range: bool,
    /// Bits that are flipped in the next notification.
    notification: u32,
}

impl Forger {
    /// Remembers a true line, which may be repeated later.
    pub(crate) const fn remember(&mut self, to: Memory, line: &Line) {
        self.sent[to.place as usize] = Some(*line);
    }

    /// Returns the notification to send, with the bits flipped that the last forged line has asked for.
    pub(crate) const fn forge_notification(
        &mut self,
        Notification(notification): Notification,
    ) -> Notification {
        let changed = core::mem::replace(&mut self.notification, 0);
        Notification(notification ^ changed)
    }

    /// Returns the line to write. The flag stays, so that the line arrives. A checked flag gets a correct CRC.
    pub(crate) fn forge(
        &mut self,
        rng: &mut Rng,
        to: Memory,
        at: u32,
        line: &Line,
        flags: ArrivalFlags,
    ) -> Line {
        let is_ack = to.place == Place::ControlPage && at == control_page::ACK;
        let flag = line.flag();
        let mut forged = *line;
        match rng.below(8) {
            0 => self.is_out_of_range = true,
            1 | 2 if flags.notify => self.notification = forged_notification_bits(rng),
            1 => forged = self.sent[to.place as usize].unwrap_or(forged),
            2 => forged.0.swap(rng.below(7), rng.below(7)),
            3 => forged.0[0] = rng.below(256) as u64,
            4 if to.place == Place::Landing => forged = wire::cancel(other(rng, line.0[4]), 9, flag),
            _ if is_ack => {
                let count = 2 * rng.below(3);
                let sent = other(rng, forged.0[count]);
                (forged.0[count], forged.0[count + 1]) = (sent, !sent);
            }
            _ => {
                let word = rng.below(7);
                forged.0[word] = other(rng, forged.0[word]);
            }
        }
        if !flags.checked {
            forged.0[7] = flag;
        } else if is_ack {
            forged.0[7] = u64::from(crc32c(&forged.body_bytes(), !0));
        } else {
            // The CRC is right for lines without blocks. That of a chunk is wrong, so that the chunk never arrives.
            forged = wire::checked(forged, flag >> 32);
        }
        forged
    }
}

/// Draws bits to flip: a near number, another kind, or anything.
fn forged_notification_bits(rng: &mut Rng) -> u32 {
    let any = (rng.next() >> 34) as u32;
    [1, 3, 1 << 28, 2 << 28, 3 << 28, any][rng.below(6)]
}

fn other(rng: &mut Rng, word: u64) -> u64 {
    match rng.below(6) {
        0 => word.wrapping_add(1),
        1 => word.wrapping_sub(1),
        2 => word ^ 1 << rng.below(64),
        3 => u64::MAX,
        4 => 0,
        _ => rng.next(),
    }
}
