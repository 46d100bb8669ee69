//! Receives over all connections of a group, until each has sent its end.

use superpipe::{Connection, Drive, Interest, PollEvent, RecvOperation};
use superpipe_bench::connection::{DEADLINE, fail};
use superpipe_bench::failure::Failure;

use super::group::{Group, turn};
use super::{BYTE, TAG, TAG_END};

/// A connection of a slice, with memory of its own.
struct Lane {
    receive: RecvOperation,
    room: Vec<u8>,
    count: u64,
    is_ended: bool,
}

/// The connections of a slice. Their memory is made before the time begins, and looked at when it is over: for 64 connections that is 64 times the work of one.
pub(crate) struct Lanes(Vec<Lane>);

impl Lanes {
    /// Makes memory for messages of this length.
    pub(crate) fn new(group: &Group, bytes: usize) -> Self {
        let lane = || Lane { receive: RecvOperation::new(), room: vec![1; bytes], count: 0, is_ended: false };
        Self(core::iter::repeat_with(lane).take(group.keys.len()).collect())
    }

    /// Checks the last message of each connection.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let is_wrong = |lane: &Lane| lane.count > 0 && lane.room.iter().any(|byte| *byte != BYTE);
        if self.0.iter().any(is_wrong) {
            return Err(Failure::Integrity("another message arrived than was sent".into()));
        }
        Ok(())
    }
}

/// Receives messages. Returns their number for each connection.
pub(crate) fn receive_all(group: &mut Group, lanes: &mut Lanes) -> Result<Vec<u64>, Failure> {
    let lanes = &mut lanes.0;
    for key in &group.keys {
        group.poller.set_interest(*key, Interest::default());
    }
    let mut open = lanes.len();
    while open > 0 {
        group.poller.poll(&mut group.events, DEADLINE).map_err(fail)?;
        if group.events.is_empty() {
            return Err(Failure::Timeout(DEADLINE.as_secs()));
        }
        for event in &group.events {
            let PollEvent::Readable { connection: key } = event else {
                return Err(Failure::Integrity(format!("{event:?}")));
            };
            let (Some(connection), Some(&index)) = (group.poller.connection(key), group.index.get(&key))
            else {
                continue;
            };
            let lane = &mut lanes[index];
            receive_some(connection, lane)?;
            if lane.is_ended {
                group.poller.set_interest(key, Interest::NONE);
                open -= 1;
            }
        }
    }
    Ok(lanes.iter().map(|lane| lane.count).collect())
}

/// Receives what is there now, within a turn.
fn receive_some(connection: &mut Connection, lane: &mut Lane) -> Result<(), Failure> {
    for _ in 0..turn(lane.room.len()) {
        match connection.drive_recv(&mut lane.receive, &mut [&mut lane.room]).map_err(fail)? {
            Drive::Done(received) => {
                lane.receive = RecvOperation::new();
                match (received.tag, received.bytes) {
                    (TAG, bytes) if bytes == lane.room.len() => lane.count += 1,
                    (TAG_END, 0) => {
                        lane.is_ended = true;
                        return Ok(());
                    }
                    _ => return Err(Failure::Integrity(format!("{received:?}"))),
                }
            }
            Drive::Moved | Drive::Idle => return Ok(()),
        }
    }
    Ok(())
}
