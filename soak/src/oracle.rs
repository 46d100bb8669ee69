//! Checks each message that was received without an error: it must be complete, as sent, and newer than the one before. A message
//! may be missing only if a call timed out or rejected it.

use core::fmt;

use superpipe::{Incoming, Length};

use crate::message::{ContentPool, Message};
use crate::round::Round;
use crate::sender::Outcome;

/// A difference between what was sent and what was received.
pub(crate) struct Mismatch(String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A message that was received without an error.
struct Delivered {
    number: u64,
    /// Calls since the message before that may each have lost one message.
    allowed_losses: u64,
}

/// Oracle of one round.
pub(crate) struct Oracle<'a> {
    round: &'a Round,
    pool: &'a ContentPool,
    delivered: Vec<Delivered>,
    allowed_losses: u64,
}

impl<'a> Oracle<'a> {
    pub(crate) fn new(round: &'a Round, pool: &'a ContentPool) -> Self {
        Self { round, pool, delivered: Vec::with_capacity(1 << 20), allowed_losses: 0 }
    }

    /// Returns the number of the last message that was received without an error, or 0.
    pub(crate) fn last(&self) -> u64 {
        self.delivered.last().map_or(0, |delivered| delivered.number)
    }

    /// Notes that a call may have lost a message, because it timed out or rejected it.
    pub(crate) const fn allow_loss(&mut self) {
        self.allowed_losses += 1;
    }

    /// Returns the message that a tag names, if it can be next.
    fn named(&self, tag: u64) -> Result<Message, Mismatch> {
        let message = Message::of_tag(self.round, tag);
        let (number, last) = (message.number, self.last());
        if number <= last {
            return Err(Mismatch(format!("message {number} came after message {last}")));
        }
        Ok(message)
    }

    /// Checks a transfer that was shown.
    pub(crate) fn shown(&self, incoming: &Incoming) -> Result<Message, Mismatch> {
        let message = self.named(incoming.tag)?;
        let expected = self.length(&message);
        if incoming.length == expected {
            return Ok(message);
        }
        let (number, length) = (message.number, incoming.length);
        Err(Mismatch(format!("message {number} was shown as {length:?}, and is {expected:?}")))
    }

    fn length(&self, message: &Message) -> Length {
        if message.is_stream() {
            Length::Stream
        } else {
            Length::Exact(message.content(self.pool).len() as u64)
        }
    }

    /// Checks `bytes` of a stream from offset `from` on. The stream may be longer.
    pub(crate) fn part(&self, message: &Message, from: usize, bytes: &[u8]) -> Result<(), Mismatch> {
        let content = message.content(self.pool).get(from..).unwrap_or_default();
        compare(message, from, &content[..content.len().min(bytes.len())], bytes)
    }

    /// Checks the end of a stream after `bytes` bytes, which were checked before.
    pub(crate) fn ended(&mut self, message: &Message, bytes: usize) -> Result<(), Mismatch> {
        let (number, all) = (message.number, message.bytes);
        if message.is_given_up() {
            return Err(Mismatch(format!(
                "stream {number} ended, and was given up by its sender: {message:?}"
            )));
        }
        if bytes != all {
            return Err(Mismatch(format!("stream {number} ended after {bytes} of {all} bytes")));
        }
        self.take(number);
        Ok(())
    }

    /// Checks a message that was received.
    pub(crate) fn message(&mut self, tag: u64, bytes: &[u8]) -> Result<Message, Mismatch> {
        let message = self.named(tag)?;
        if message.is_stream() {
            let number = message.number;
            return Err(Mismatch(format!(
                "stream {number} was received as a message of {} bytes",
                bytes.len()
            )));
        }
        compare(&message, 0, message.content(self.pool), bytes)?;
        self.take(message.number);
        Ok(message)
    }

    fn take(&mut self, number: u64) {
        self.delivered.push(Delivered { number, allowed_losses: core::mem::take(&mut self.allowed_losses) });
    }

    /// Compares the messages received with the outcomes that the sender reported, one byte per message.
    pub(crate) fn finish(&self, outcomes: &[u8]) -> Result<(), Mismatch> {
        let outcome = |number: u64| {
            let byte = usize::try_from(number).ok().and_then(|number| outcomes.get(number.checked_sub(1)?));
            byte.and_then(|byte| Outcome::of_byte(*byte))
        };
        let mut last = 0;
        for Delivered { number, allowed_losses } in &self.delivered {
            match outcome(*number) {
                Some(Outcome::Sent) => {}
                Some(other) => {
                    return Err(Mismatch(format!(
                        "message {number} was received, and its sender says: {other:?}"
                    )));
                }
                None => return Err(Mismatch(format!("message {number} was received and never sent"))),
            }
            let lost =
                (last + 1..*number).filter(|lost| outcome(*lost) == Some(Outcome::Sent)).count() as u64;
            if lost > *allowed_losses {
                return Err(Mismatch(format!(
                    "of the messages between {last} and {number} {lost} were sent and never came, and only {allowed_losses} \
                     calls timed out or rejected one"
                )));
            }
            last = *number;
        }
        if last != outcomes.len() as u64 {
            return Err(Mismatch(format!("the last message, {}, never came; {last} did", outcomes.len())));
        }
        Ok(())
    }
}

/// Compares the bytes received with the bytes sent, from offset `from` on.
fn compare(message: &Message, from: usize, sent: &[u8], came: &[u8]) -> Result<(), Mismatch> {
    if sent == came {
        return Ok(());
    }
    let Message { number, bytes, .. } = message;
    let mut text = format!("message {number} has {bytes} bytes, and {} came", from + came.len());
    match sent.iter().zip(came).position(|(sent, came)| sent != came) {
        Some(at) => {
            let (sent, came) = (sent[at], came[at]);
            text += &format!(
                "; the first that differs is byte {}: {sent:#04x} sent, {came:#04x} came",
                from + at
            );
        }
        None => text += "; those that came are right",
    }
    if came.len() < sent.len() && !came.is_empty() && sent.ends_with(came) {
        text += "; what came is the end of the message";
    }
    Err(Mismatch(format!("{text}; {message:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::SendMethod;
    use crate::options::Overrides;

    /// Returns the first `count` long messages of a round that are sent as one slice.
    fn plain(round: &Round, count: usize) -> Vec<Message> {
        let all = (1..10_000).map(|number| Message::new(round, number, false));
        all.filter(|message| message.method == SendMethod::Whole && message.bytes > 1000)
            .take(count)
            .collect()
    }

    #[test]
    fn a_message_must_be_complete_and_in_order() {
        let (round, pool) = (Round::new(1, 1, &Overrides::default()), ContentPool::new(1));
        let messages = plain(&round, 3);
        let [one, two, three] = &messages[..] else { panic!("three") };
        let mut oracle = Oracle::new(&round, &pool);
        let mut judge = |message: &Message, bytes: &[u8]| {
            oracle.message(message.tag(), bytes).map(|_| ()).map_err(|mismatch| mismatch.to_string())
        };
        assert_eq!(judge(two, two.content(&pool)), Ok(()));
        let text = judge(two, two.content(&pool)).unwrap_err();
        assert_eq!(text, format!("message {0} came after message {0}", two.number));
        assert!(judge(one, one.content(&pool)).unwrap_err().contains("came after"));
        let content = three.content(&pool);
        let text = judge(three, &content[600..]).unwrap_err();
        assert!(text.contains("is the end of the message") && text.contains("differs is byte"), "{text}");
        assert!(judge(three, &content[..600]).unwrap_err().contains("600 came; those that came are right"));
        let mut flipped = content.to_vec();
        flipped[777] ^= 1;
        assert!(judge(three, &flipped).unwrap_err().contains("the first that differs is byte 777:"));
        assert!(judge(three, one.content(&pool)).is_err());
        assert_eq!(judge(three, content), Ok(()));
    }

    #[test]
    fn streams_must_be_finished() {
        let (round, pool) = (Round::new(1, 1, &Overrides::default()), ContentPool::new(1));
        let find = |is: &dyn Fn(&Message) -> bool| {
            (1..10_000).map(|number| Message::new(&round, number, false)).find(is).unwrap()
        };
        let mut oracle = Oracle::new(&round, &pool);
        let stream = find(&|message| message.method == SendMethod::Stream && message.bytes > 9);
        assert!(oracle.message(stream.tag(), stream.content(&pool)).is_err());
        assert!(oracle.part(&stream, 0, &stream.content(&pool)[..9]).is_ok());
        assert!(oracle.part(&stream, 1, &stream.content(&pool)[..9]).is_err());
        assert!(oracle.ended(&stream, stream.bytes - 1).is_err());
        assert!(oracle.ended(&stream, stream.bytes).is_ok());
        let given_up = find(&Message::is_given_up);
        assert!(oracle.ended(&given_up, given_up.bytes).is_err());
    }

    #[test]
    fn outcomes_of_the_sender_are_compared() {
        let (round, pool) = (Round::new(1, 1, &Overrides::default()), ContentPool::new(1));
        let messages = plain(&round, 5);
        let [first, .., last] = &messages[..] else { panic!("five") };
        let judge = |allowed_losses: u64, change: &dyn Fn(&mut Vec<u8>)| {
            let mut oracle = Oracle::new(&round, &pool);
            for _ in 0..first.number {
                oracle.allow_loss();
            }
            assert!(oracle.message(first.tag(), first.content(&pool)).is_ok());
            for _ in 0..allowed_losses {
                oracle.allow_loss();
            }
            assert!(oracle.message(last.tag(), last.content(&pool)).is_ok());
            let mut outcomes = vec![Outcome::Sent.byte(); usize::try_from(last.number).unwrap()];
            change(&mut outcomes);
            oracle.finish(&outcomes).map_err(|mismatch| mismatch.to_string())
        };
        let between = last.number - first.number - 1;
        assert!(between > 0);
        assert_eq!(judge(between, &|_| ()), Ok(()));
        assert!(judge(between - 1, &|_| ()).unwrap_err().contains("never came, and only"));
        let given_up = |outcomes: &mut Vec<u8>| *outcomes.last_mut().unwrap() = Outcome::Rejected.byte();
        assert!(judge(between, &given_up).unwrap_err().contains("its sender says: Rejected"));
        assert!(judge(between, &|outcomes| outcomes.push(b's')).unwrap_err().contains("the last message"));
        assert!(judge(between, &|outcomes| outcomes.truncate(1)).unwrap_err().contains("never sent"));
    }
}
