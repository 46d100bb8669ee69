//! Timeline of one message, found in the records of both ends: copies in, writes, copies out, and acknowledgements.

use super::mark::{Job, Mark, MarkKind};
use std::collections::{BTreeMap, BTreeSet};

/// Timeline of one message, from its sender to its receiver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageTimeline {
    /// copies of payload into blocks
    pub copy_in: Vec<Bar>,
    /// posted writes, from post to completion; empty with direct stores
    pub wire: Vec<Bar>,
    /// copies of payload out of blocks
    pub copy_out: Vec<Bar>,
    /// waits of the sender for a free block or a CTS
    pub waits: Vec<[u64; 2]>,
    /// times at which the receiver acknowledged its blocks
    pub acks_out: Vec<u64>,
    /// times at which the sender saw its blocks acknowledged
    pub acks_in: Vec<u64>,
}

/// A span of time, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// begin
    pub begin_ns: u64,
    /// end
    pub end_ns: u64,
    /// sequence of the chunk
    pub sequence: u64,
}

/// Timeline of a message and, in a round trip, of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// from the client to the server
    pub message: MessageTimeline,
    /// from the server to the client
    pub answer: Option<MessageTimeline>,
    /// jobs of the client, and of the server, that took place meanwhile
    pub jobs: [Vec<JobSpan>; 2],
}

/// Time of a job, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobSpan {
    /// begin and end
    pub span_ns: [u64; 2],
    /// kind of the job
    pub job: Job,
}

impl MessageTimeline {
    /// Returns the time of the first copy in and of the last copy out.
    #[must_use]
    pub fn span(&self) -> [u64; 2] {
        let begin = self.copy_in.iter().map(|bar| bar.begin_ns).min();
        let end = self.copy_out.iter().map(|bar| bar.end_ns).max();
        [begin.unwrap_or_default(), end.unwrap_or_default()]
    }

    /// Returns the nanoseconds that one end copied in, that the other copied out, and that both copied at once.
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

impl Timeline {
    /// Returns the time of the first copy and of the last one.
    #[must_use]
    pub fn span(&self) -> [u64; 2] {
        let [begin, end] = self.message.span();
        [begin, self.answer.as_ref().map_or(end, |answer| answer.span()[1])]
    }

    /// Returns the timeline of median duration among the messages of this size that were recorded completely, each with its answer
    /// if `is_answered`.
    #[must_use]
    pub fn median(client: &[Mark], server: &[Mark], bytes: u64, is_answered: bool) -> Option<Self> {
        let answers = if is_answered { messages(server, client, bytes) } else { Vec::new() };
        let mut answers = answers.into_iter().peekable();
        let mut timelines = Vec::new();
        for message in messages(client, server, bytes) {
            let answer = if is_answered {
                while answers.next_if(|answer| answer.span()[0] < message.span()[1]).is_some() {}
                let Some(answer) = answers.next() else { break };
                Some(answer)
            } else {
                None
            };
            timelines.push(Self { message, answer, jobs: Default::default() });
        }
        timelines.sort_by_key(|timeline| {
            let [begin, end] = timeline.span();
            end.saturating_sub(begin)
        });
        let median = timelines.len() / 2;
        let mut timeline = timelines.into_iter().nth(median)?;
        timeline.jobs = [client, server].map(|marks| jobs_in(marks, timeline.span()));
        Some(timeline)
    }
}

/// Returns the timelines of all messages of this size that were recorded completely, in the order of sending.
fn messages(from: &[Mark], to: &[Mark], bytes: u64) -> Vec<MessageTimeline> {
    let mut messages = Vec::new();
    let mut begun = None;
    for (index, mark) in from.iter().enumerate() {
        match mark.what {
            MarkKind::SendBegin { transfer, length: Some(length) } if length == bytes => {
                begun = Some((transfer, index));
            }
            MarkKind::SendEnd { transfer } => {
                if let Some((_, first)) = begun.take_if(|(open, _)| *open == transfer) {
                    messages.extend(timeline(from, &from[first..index], to, bytes));
                }
            }
            _ => {}
        }
    }
    messages
}

/// Returns the timeline of one message, if it is complete. `sent` holds the sender's records from its begin to its end.
fn timeline(from: &[Mark], sent: &[Mark], to: &[Mark], bytes: u64) -> Option<MessageTimeline> {
    let mut timeline = MessageTimeline::default();
    let mut chunks = BTreeSet::new();
    let (mut copied_in, mut copied_out) = (0, 0);
    let (mut first_block, mut last_block) = (0, 0);
    for mark in sent {
        match mark.what {
            MarkKind::CopyIn { sequence, block, bytes } => {
                if timeline.copy_in.is_empty() {
                    first_block = block;
                }
                copied_in += u64::from(bytes);
                chunks.insert(sequence);
                timeline.copy_in.push(mark.bar(sequence));
            }
            MarkKind::NoCredit { .. } | MarkKind::NoCts { .. } => {
                timeline.waits.push([mark.begin_ns, mark.end_ns])
            }
            _ => {}
        }
    }
    for mark in to {
        if let MarkKind::CopyOut { sequence, block, bytes } = mark.what
            && chunks.contains(&sequence)
        {
            last_block = block;
            copied_out += u64::from(bytes);
            timeline.copy_out.push(mark.bar(sequence));
        }
    }
    if bytes == 0 || copied_in != bytes || copied_out != bytes {
        return None;
    }
    let mut posts = BTreeMap::new();
    for mark in from {
        match mark.what {
            MarkKind::Post { sequence, .. } if chunks.contains(&sequence) => {
                posts.insert(sequence, mark.begin_ns);
            }
            MarkKind::Complete { sequence } => {
                timeline.wire.extend(posts.remove(&sequence).map(|begin_ns| Bar {
                    begin_ns,
                    end_ns: mark.end_ns,
                    sequence,
                }))
            }
            _ => {}
        }
    }
    let blocks = last_block.wrapping_sub(first_block).wrapping_add(1);
    let is_of_these = |acknowledged: &u64| (1..=blocks).contains(&acknowledged.wrapping_sub(first_block));
    let acked_out =
        |mark: &Mark| if let MarkKind::AckOut { blocks } = mark.what { Some(blocks) } else { None };
    let acked_in = |mark: &Mark| if let MarkKind::AckIn { blocks } = mark.what { Some(blocks) } else { None };
    timeline.acks_out = firsts(to, |mark| acked_out(mark).filter(is_of_these));
    timeline.acks_in = firsts(from, |mark| acked_in(mark).filter(is_of_these));
    Some(timeline)
}

/// Returns the jobs that took place in this span, wholly or in part.
fn jobs_in(marks: &[Mark], [begin_ns, end_ns]: [u64; 2]) -> Vec<JobSpan> {
    let jobs = marks.iter().filter_map(|mark| match mark.what {
        MarkKind::JobEnd { job, .. } => Some(JobSpan { span_ns: [mark.begin_ns, mark.end_ns], job }),
        _ => None,
    });
    jobs.filter(|job| job.span_ns[0] <= end_ns && begin_ns <= job.span_ns[1]).collect()
}

/// Returns the time at which each number appeared first: every keepalive repeats the last acknowledgement.
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

    fn at(begin_ns: u64, end_ns: u64, what: MarkKind) -> Mark {
        Mark { begin_ns, end_ns, what }
    }

    /// Returns the records of the sender and of the receiver for a message of `blocks` blocks, one per chunk, which begins
    /// at `begin`.
    fn message(transfer: u64, blocks: u64, begin: u64, step: u64, is_posted: bool) -> [Vec<Mark>; 2] {
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let first = transfer * 10;
        let length = Some(blocks * u64::from(BLOCK));
        sent.push(at(begin, begin, MarkKind::SendBegin { transfer, length }));
        for block in first..first + blocks {
            let now = begin + (block - first) * step;
            sent.push(at(now, now + step, MarkKind::CopyIn { sequence: block, block, bytes: BLOCK }));
            if is_posted {
                sent.push(at(now + step, now + step, MarkKind::Post { sequence: block, bytes: BLOCK }));
            }
            let came = now + 3 * step / 2;
            received.push(at(came, came + step, MarkKind::CopyOut { sequence: block, block, bytes: BLOCK }));
            let acked = MarkKind::AckOut { blocks: block + 1 };
            received
                .extend([at(came + step, came + step, acked.clone()), at(came + step, came + step, acked)]);
        }
        let end = begin + blocks * step;
        sent.push(at(end, end, MarkKind::SendEnd { transfer }));
        sent.push(at(end, end, MarkKind::AckIn { blocks: first + blocks }));
        let completed = (first..first + blocks).filter(|_| is_posted);
        sent.extend(completed.map(|sequence| at(end + step, end + step, MarkKind::Complete { sequence })));
        [sent, received]
    }

    /// Returns the records of a message of 2 blocks and of three of 4 blocks, the second of which has the median duration.
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
        let timeline = Timeline::median(&client, &server, 400, false).unwrap();
        assert_eq!((timeline.span(), &timeline.answer), ([2000, 2110], &None));
        assert_eq!(timeline.jobs, [const { Vec::new() }; 2]);
        assert_eq!(timeline.message.overlap(), [80, 80, 50]);
        assert_eq!(timeline.message.acks_out, [2050, 2070, 2090, 2110], "each once");
        assert_eq!(timeline.message.acks_in, [2080]);
        assert_eq!(Timeline::median(&client, &server, 300, false), None);
    }

    #[test]
    fn an_answer_belongs_to_the_message_before_it() {
        let [client, server] = recorded(true);
        let timeline = Timeline::median(&client, &server, 400, true).unwrap();
        assert_eq!(timeline.message.span(), [2000, 2110]);
        assert_eq!(timeline.answer.unwrap().span(), [2500, 2610]);
    }

    #[test]
    fn jobs_belong_to_the_message_that_they_took_place_beside() {
        let [mut client, mut server] = recorded(false);
        let end = |job| MarkKind::JobEnd { number: 0, job, has_failed: false, visible_ns: 0 };
        let (early, beside) = (end(Job::ProvisionImage), end(Job::ReleaseImage));
        client.extend([at(1900, 1999, early.clone()), at(1990, 2005, beside), at(2111, 2200, early)]);
        server.push(at(2050, 2060, end(Job::ProvisionLanding)));
        let jobs = Timeline::median(&client, &server, 400, false).unwrap().jobs;
        let span = |span_ns, job| vec![JobSpan { span_ns, job }];
        assert_eq!(jobs, [span([1990, 2005], Job::ReleaseImage), span([2050, 2060], Job::ProvisionLanding)]);
    }

    #[test]
    fn incomplete_messages_are_left_out() {
        let [client, server] = recorded(false);
        let begin = client
            .iter()
            .position(|mark| matches!(mark.what, MarkKind::SendBegin { transfer: 3, .. }))
            .unwrap();
        let timeline = Timeline::median(&client[begin + 1..], &server, 400, false).unwrap();
        assert_eq!(timeline.span(), [3000, 3055]);
        assert_eq!(Timeline::median(&client, &server[..20], 400, false).unwrap().span()[0], 1000);
        assert_eq!(Timeline::median(&client, &[], 400, false), None);
    }

    #[test]
    fn writes_are_on_the_wire_from_post_to_completion() {
        let [client, server] = message(1, 2, 1000, 10, true);
        let timeline = Timeline::median(&client, &server, 200, false).unwrap();
        let bar = |begin_ns, end_ns, sequence| Bar { begin_ns, end_ns, sequence };
        assert_eq!(timeline.message.wire, [bar(1010, 1030, 10), bar(1020, 1030, 11)]);
    }
}
