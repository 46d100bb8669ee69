//! What a lying peer writes instead of what its core meant: a line near the truth, so that it is believed for a while.

use crate::flags::Flags;
use superpipe_core::{Line, Notice, seat};
use superpipe_testkit::{Memory, Place, Rng, crc32c, wire};

/// One end as a liar.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Liar {
    /// The line before, in the seat and in the landing buffer.
    said: [Option<Line>; 2],
    /// The next write goes where none may.
    pub(crate) strays: bool,
    /// The next notification says something else: its bits are changed by these.
    notice: u32,
}

impl Liar {
    /// The truth, to be said again later.
    pub(crate) const fn hear(&mut self, to: Memory, line: &Line) {
        self.said[to.place as usize] = Some(*line);
    }

    /// What is notified, or what is said instead.
    pub(crate) const fn twist_notice(&mut self, Notice(notice): Notice) -> Notice {
        let changed = core::mem::replace(&mut self.notice, 0);
        Notice(notice ^ changed)
    }

    /// What is said instead. The flag stays, so that the line arrives; a checked one is made right again.
    pub(crate) fn twist(&mut self, rng: &mut Rng, to: Memory, at: u32, line: &Line, flags: Flags) -> Line {
        let is_ack = to.place == Place::Seat && at == seat::ACK;
        let flag = line.flag();
        let mut lie = *line;
        match rng.below(8) {
            0 => self.strays = true,
            1 | 2 if flags.notify => self.notice = lie_of_notice(rng),
            1 => lie = self.said[to.place as usize].unwrap_or(lie),
            2 => lie.0.swap(rng.below(7), rng.below(7)),
            3 => lie.0[0] = rng.below(256) as u64,
            4 if to.place == Place::Landing => lie = wire::cancel(other(rng, line.0[4]), 9, flag),
            _ if is_ack => {
                let count = 2 * rng.below(3);
                let said = other(rng, lie.0[count]);
                (lie.0[count], lie.0[count + 1]) = (said, !said);
            }
            _ => {
                let word = rng.below(7);
                lie.0[word] = other(rng, lie.0[word]);
            }
        }
        if !flags.checked {
            lie.0[7] = flag;
        } else if is_ack {
            lie.0[7] = u64::from(crc32c(&lie.body_bytes(), !0));
        } else {
            // Right for lines that stand for themselves. A chunk's never arrives: that is a lie, too.
            lie = wire::checked(lie, flag >> 32);
        }
        lie
    }
}

/// Another number near the true one, another kind, or anything.
fn lie_of_notice(rng: &mut Rng) -> u32 {
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
