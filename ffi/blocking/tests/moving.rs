//! A flow that moves is no idle end, however long it takes; and no deadline passes it by.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use superpipe_core::driver::Drive;
use superpipe_core::{Endpoint, Length, Reason};
use superpipe_testkit::Direct;

use super::played::{LAYOUT, over, sleeps};
use crate::blocking::waiting::Waiting;
use crate::{ErrorKind, Options};

/// Bounds a hang: all of it takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(60);
/// Many times as many blocks as there are rounds before a sleep.
const BYTES: usize = 2000 * LAYOUT.block_bytes as usize;

/// Sends one transfer, a block a step.
fn sends_slowly(length: Length) -> impl FnMut(&mut Direct, &mut Endpoint<Direct>) + Send {
    let message = message();
    let (mut id, mut sent) = (None, 0);
    move |direct, end| {
        let id = *id.get_or_insert_with(|| end.start(1, length).unwrap());
        let rest = &message[sent..];
        if !rest.is_empty() {
            sent += end.push(direct, id, &[&rest[..rest.len().min(LAYOUT.block_bytes as usize)]]).unwrap();
        } else if length == Length::Stream {
            // Without credit it has time; and it ends once.
            let _ = end.finish(direct, id);
        }
    }
}

/// Takes what comes, a block a step.
fn takes_slowly() -> impl FnMut(&mut Direct, &mut Endpoint<Direct>) + Send {
    let mut place = vec![0; LAYOUT.block_bytes as usize];
    move |direct, end| _ = end.pull(direct, &mut [&mut place])
}

fn message() -> Vec<u8> {
    (0..=u8::MAX - 4).cycle().take(BYTES).collect()
}

#[test]
fn a_message_that_arrives_block_by_block_lets_nobody_sleep() {
    let exact = Length::Exact(BYTES as u64);
    let mut room = vec![0; BYTES];
    over(Options::default(), sends_slowly(exact)).recv_into(&mut [&mut room], DEADLINE).unwrap();
    assert!(room == message());
    assert_eq!(sleeps(), 0, "recv_into");
    room.fill(0);
    let (first, second) = room.split_at_mut(BYTES / 3);
    over(Options::default(), sends_slowly(exact))
        .recv_into_cold(&mut [first, second], DEADLINE.into())
        .unwrap();
    assert!(room == message());
    assert_eq!(sleeps(), 0, "recv_into_cold");
}

#[test]
fn a_message_that_is_taken_block_by_block_lets_nobody_sleep() {
    over(Options::default(), takes_slowly()).send(1, &[&vec![7; BYTES]], DEADLINE).unwrap();
    assert_eq!(sleeps(), 0);
}

#[test]
fn streams_let_nobody_sleep_either() {
    let mut sending = over(Options::default(), takes_slowly());
    let mut stream = sending.open_stream(1, DEADLINE.into()).unwrap();
    for part in vec![7; BYTES].chunks(100_000) {
        let mut rest = part;
        while !rest.is_empty() {
            let sent = stream.write(rest).unwrap();
            rest = &rest[sent..];
        }
    }
    stream.finish(DEADLINE.into()).unwrap();
    assert_eq!(sleeps(), 0, "write");
    let mut receiving = over(Options::default(), sends_slowly(Length::Stream));
    let mut stream = receiving.accept_stream(DEADLINE.into()).unwrap();
    let (mut all, mut part) = (Vec::new(), vec![0; 100_000]);
    loop {
        match stream.read(&mut part).unwrap() {
            0 => break,
            bytes => all.extend_from_slice(&part[..bytes]),
        }
    }
    assert!(all == message());
    assert_eq!(sleeps(), 0, "read");
}

#[test]
fn what_moves_for_ever_meets_its_deadline() {
    let mut moving = over(Options::default(), |_, _| {});
    let mut attempts = 0_u64;
    let waited = moving.access().wait(Duration::from_millis(1).into(), |_, _| {
        attempts += 1;
        assert!(attempts < 1 << 30, "nobody looks at the clock");
        Drive::<()>::Moved
    });
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn what_moves_for_ever_is_interrupted() {
    static STOP: AtomicBool = AtomicBool::new(true);
    let options = Options { interrupt: Some(&STOP), ..Options::default() };
    let mut attempts = 0;
    let waited = over(options, |_, _| {}).access().wait(DEADLINE.into(), |_, _| {
        attempts += 1;
        assert!(attempts < 100_000, "nobody looks at the flag");
        Drive::<()>::Moved
    });
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::Interrupted);
}

/// Work of progress is none of the attempts.
#[test]
fn what_a_round_of_progress_finds_for_ever_meets_its_deadline() {
    let mut rounds = 0_u64;
    // A peer whose messages are all rejected.
    let mut receiving = over(Options::default(), move |direct, end| {
        rounds += 1;
        assert!(rounds < 1 << 24, "nobody looks at the clock");
        let _ = end.try_send(direct, 1, &[&[7; 100]]);
        end.acknowledge(direct);
        end.poll_acknowledgements(direct);
    });
    let deadline = Duration::from_millis(1);
    let waited = receiving.access().wait(deadline.into(), |driver, fabric| {
        driver.reject(fabric, Reason(5));
        Drive::<()>::Idle
    });
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::Timeout);
}
