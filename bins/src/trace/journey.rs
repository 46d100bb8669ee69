//! The way of one message, found in what the two ends recorded: its copies in, its writes, its copies out, and what was
//! acknowledged meanwhile.

use super::mark::{Mark, What};
use std::collections::{BTreeMap, BTreeSet};

/// One way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leg {
    /// payload put into blocks
    pub copy_in: Vec<Bar>,
    /// writes under way; none where stores go direct
    pub wire: Vec<Bar>,
    /// payload taken out of blocks
    pub copy_out: Vec<Bar>,
    /// the sender had no free block, or no CTS
    pub waits: Vec<[u64; 2]>,
    /// the receiver acknowledged blocks of it
    pub acks_out: Vec<u64>,
    /// the sender saw that blocks of it are free
    pub acks_in: Vec<u64>,
}

/// Something that took time, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// when it began
    pub begin_ns: u64,
    /// when it was over
    pub end_ns: u64,
    /// of the chunk
    pub sequence: u64,
}

/// A message's way there, and the answer's way back where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journey {
    /// from the client to the server
    pub there: Leg,
    /// from the server to the client
    pub back: Option<Leg>,
}

impl Leg {
    /// From the first copy in to the last copy out.
    #[must_use]
    pub fn span(&self) -> [u64; 2] {
        let begin = self.copy_in.iter().map(|bar| bar.begin_ns).min();
        let end = self.copy_out.iter().map(|bar| bar.end_ns).max();
        [begin.unwrap_or_default(), end.unwrap_or_default()]
    }

    /// Nanoseconds that one end copied in, that the other copied out, and that both did so at once.
    #[must_use]
    pub fn overlap(&self) -> [u64; 3] {
        let sum = |bars: &[Bar]| bars.iter().map(|bar| bar.end_ns.saturating_sub(bar.begin_ns)).sum();
        let both = self.copy_in.iter().flat_map(|one| {
            self.copy_out
                .iter()
                .map(|other| one.end_ns.min(other.end_ns).saturating_sub(one.begin_ns.max(other.begin_ns)))
        });
        [sum(&self.copy_in), sum(&self.copy_out), both.sum()]
    }
}

impl Journey {
    /// From its first copy to its last.
    #[must_use]
    pub fn span(&self) -> [u64; 2] {
        let [begin, end] = self.there.span();
        [begin, self.back.as_ref().map_or(end, |back| back.span()[1])]
    }

    /// The message of so many bytes that took the median of all whose whole way was recorded, with its answer if there
    /// is to be one.
    #[must_use]
    pub fn typical(client: &[Mark], server: &[Mark], bytes: u64, is_answered: bool) -> Option<Self> {
        let there = legs(client, server, bytes);
        let mut back =
            if is_answered { legs(server, client, bytes) } else { Vec::new() }.into_iter().peekable();
        let mut journeys = Vec::new();
        for there in there {
            let answer = if is_answered {
                while back.next_if(|back| back.span()[0] < there.span()[1]).is_some() {}
                let Some(back) = back.next() else { break };
                Some(back)
            } else {
                None
            };
            journeys.push(Self { there, back: answer });
        }
        journeys.sort_by_key(|journey| {
            let [begin, end] = journey.span();
            end.saturating_sub(begin)
        });
        let median = journeys.len() / 2;
        journeys.into_iter().nth(median)
    }
}

/// Every message of so many bytes whose whole way one way was recorded, in the order in which they were sent.
fn legs(from: &[Mark], to: &[Mark], bytes: u64) -> Vec<Leg> {
    let mut legs = Vec::new();
    let mut begun = None;
    for (index, mark) in from.iter().enumerate() {
        match mark.what {
            What::SendBegin { transfer, length: Some(length) } if length == bytes => {
                begun = Some((transfer, index));
            }
            What::SendEnd { transfer } => {
                if let Some((_, first)) = begun.take_if(|(open, _)| *open == transfer) {
                    legs.extend(leg(from, &from[first..index], to, bytes));
                }
            }
            _ => {}
        }
    }
    legs
}

/// One message: `sent` is what its sender recorded from its begin to its end.
fn leg(from: &[Mark], sent: &[Mark], to: &[Mark], bytes: u64) -> Option<Leg> {
    let mut leg = Leg::default();
    let mut chunks = BTreeSet::new();
    let (mut copied_in, mut copied_out) = (0, 0);
    let (mut first_block, mut last_block) = (0, 0);
    for mark in sent {
        match mark.what {
            What::CopyIn { sequence, block, bytes } => {
                if leg.copy_in.is_empty() {
                    first_block = block;
                }
                copied_in += u64::from(bytes);
                chunks.insert(sequence);
                leg.copy_in.push(mark.bar(sequence));
            }
            What::NoCredit { .. } | What::NoCts { .. } => leg.waits.push([mark.begin_ns, mark.end_ns]),
            _ => {}
        }
    }
    for mark in to {
        if let What::CopyOut { sequence, block, bytes } = mark.what
            && chunks.contains(&sequence)
        {
            last_block = block;
            copied_out += u64::from(bytes);
            leg.copy_out.push(mark.bar(sequence));
        }
    }
    if bytes == 0 || copied_in != bytes || copied_out != bytes {
        return None;
    }
    let mut posts = BTreeMap::new();
    for mark in from {
        match mark.what {
            What::Post { sequence, .. } if chunks.contains(&sequence) => {
                posts.insert(sequence, mark.begin_ns);
            }
            What::Complete { sequence } => leg.wire.extend(posts.remove(&sequence).map(|begin_ns| Bar {
                begin_ns,
                end_ns: mark.end_ns,
                sequence,
            })),
            _ => {}
        }
    }
    let blocks = last_block.wrapping_sub(first_block).wrapping_add(1);
    let is_of_these = |acknowledged: &u64| (1..=blocks).contains(&acknowledged.wrapping_sub(first_block));
    let acked_out = |mark: &Mark| if let What::AckOut { blocks } = mark.what { Some(blocks) } else { None };
    let acked_in = |mark: &Mark| if let What::AckIn { blocks } = mark.what { Some(blocks) } else { None };
    leg.acks_out = firsts(to, |mark| acked_out(mark).filter(is_of_these));
    leg.acks_in = firsts(from, |mark| acked_in(mark).filter(is_of_these));
    Some(leg)
}

/// When each number came first: an acknowledgement is written again with every sign of life.
fn firsts(marks: &[Mark], number: impl Fn(&Mark) -> Option<u64>) -> Vec<u64> {
    let mut seen = BTreeSet::new();
    let new = marks.iter().filter(|mark| number(mark).is_some_and(|number| seen.insert(number)));
    new.map(|mark| mark.begin_ns).collect()
}

impl Mark {
    const fn bar(&self, sequence: u64) -> Bar {
        Bar { begin_ns: self.begin_ns, end_ns: self.end_ns, sequence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u32 = 100;

    fn at(begin_ns: u64, end_ns: u64, what: What) -> Mark {
        Mark { begin_ns, end_ns, what }
    }

    /// A message of so many blocks, a chunk each, that begins at this time: what its sender and its receiver recorded.
    fn message(transfer: u64, blocks: u64, begin: u64, step: u64, is_posted: bool) -> [Vec<Mark>; 2] {
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let first = transfer * 10;
        let length = Some(blocks * u64::from(BLOCK));
        sent.push(at(begin, begin, What::SendBegin { transfer, length }));
        for block in first..first + blocks {
            let now = begin + (block - first) * step;
            sent.push(at(now, now + step, What::CopyIn { sequence: block, block, bytes: BLOCK }));
            if is_posted {
                sent.push(at(now + step, now + step, What::Post { sequence: block, bytes: BLOCK }));
            }
            let came = now + 3 * step / 2;
            received.push(at(came, came + step, What::CopyOut { sequence: block, block, bytes: BLOCK }));
            let acked = What::AckOut { blocks: block + 1 };
            received
                .extend([at(came + step, came + step, acked.clone()), at(came + step, came + step, acked)]);
        }
        let end = begin + blocks * step;
        sent.push(at(end, end, What::SendEnd { transfer }));
        sent.push(at(end, end, What::AckIn { blocks: first + blocks }));
        let completed = (first..first + blocks).filter(|_| is_posted);
        sent.extend(completed.map(|sequence| at(end + step, end + step, What::Complete { sequence })));
        [sent, received]
    }

    /// Messages of 4 blocks, answered or not, of which the second takes the median; and one of 2 blocks.
    fn recorded(is_answered: bool) -> [Vec<Mark>; 2] {
        let [mut client, mut server] = message(1, 2, 100, 10, false);
        for (index, step) in [30, 20, 10].into_iter().enumerate() {
            let (number, begin) = (2 + index as u64, 1000 * (1 + index as u64));
            let [sent, received] = message(number, 4, begin, step, false);
            client.extend(sent);
            server.extend(received);
            if is_answered {
                let [sent, received] = message(number, 4, begin + 500, step, false);
                server.extend(sent);
                client.extend(received);
            }
        }
        [client, server]
    }

    #[test]
    fn the_message_that_takes_the_median_is_found() {
        let [client, server] = recorded(false);
        let journey = Journey::typical(&client, &server, 400, false).unwrap();
        assert_eq!((journey.span(), journey.back), ([2000, 2110], None));
        assert_eq!(journey.there.overlap(), [80, 80, 50]);
        assert_eq!(journey.there.acks_out, [2050, 2070, 2090, 2110], "each once");
        assert_eq!(journey.there.acks_in, [2080]);
        assert_eq!(Journey::typical(&client, &server, 300, false), None);
    }

    #[test]
    fn an_answer_belongs_to_the_message_before_it() {
        let [client, server] = recorded(true);
        let journey = Journey::typical(&client, &server, 400, true).unwrap();
        assert_eq!(journey.there.span(), [2000, 2110]);
        assert_eq!(journey.back.unwrap().span(), [2500, 2610]);
    }

    #[test]
    fn what_was_not_recorded_whole_is_left_out() {
        let [client, server] = recorded(false);
        let begin =
            client.iter().position(|mark| matches!(mark.what, What::SendBegin { transfer: 3, .. })).unwrap();
        let journey = Journey::typical(&client[begin + 1..], &server, 400, false).unwrap();
        assert_eq!(journey.span(), [3000, 3055]);
        assert_eq!(Journey::typical(&client, &server[..20], 400, false).unwrap().span()[0], 1000);
        assert_eq!(Journey::typical(&client, &[], 400, false), None);
    }

    #[test]
    fn writes_are_on_the_wire_from_post_to_completion() {
        let [client, server] = message(1, 2, 1000, 10, true);
        let journey = Journey::typical(&client, &server, 200, false).unwrap();
        let bar = |begin_ns, end_ns, sequence| Bar { begin_ns, end_ns, sequence };
        assert_eq!(journey.there.wire, [bar(1010, 1030, 10), bar(1020, 1030, 11)]);
    }
}
