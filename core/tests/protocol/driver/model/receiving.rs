//! Calls that receive.

use superpipe_core::driver::{Drive, Received, RecvFailed, RecvOperation, RefusedRecv};
use superpipe_core::{Incoming, Length, Reason};
use superpipe_testkit::TestFabric;

use super::{Model, Receives, UNTOUCHED, cut_mut};

impl<F: TestFabric> Model<F> {
    /// The message that comes next, as the oracle knows it.
    pub(crate) fn incoming(&self, side: usize) -> Option<Incoming> {
        let sent = self.flows[1 - side].sent.get(self.flows[1 - side].head)?;
        let length = Length::Exact(sent.payload.len() as u64);
        Some(Incoming { transfer: self.flows[1 - side].head as u64 + 1, tag: sent.tag, length })
    }

    pub(crate) fn has_begun(&self, side: usize) -> bool {
        self.flows[1 - side].receives.as_ref().is_some_and(|receives| receives.receive.has_begun())
    }

    pub(crate) fn took(&mut self, side: usize, received: Received, place: &[u8]) {
        let flow = &mut self.flows[1 - side];
        let sent = &flow.sent[flow.head];
        assert_eq!((received.tag, received.bytes), (sent.tag, sent.payload.len()));
        assert_eq!((sent.rejected, sent.cancelled), (None, None));
        assert!(place[..received.bytes] == sent.payload, "wrong bytes");
        assert!(place[received.bytes..].iter().all(|byte| *byte == UNTOUCHED), "written beyond the end");
        flow.head += 1;
    }

    pub(crate) fn try_recv(&mut self, side: usize, room: usize, pieces: usize) {
        let mut place = vec![UNTOUCHED; room];
        let got = self.ends[side].try_recv(&mut self.fabric, &mut cut_mut(&mut place, pieces));
        match got {
            Ok(Some(received)) => {
                assert!(
                    !self.has_begun(side)
                        || self.flows[1 - side].receives.as_ref().unwrap().receive.taken() == 0
                );
                self.took(side, received, &place);
            }
            refused => {
                assert!(place.iter().all(|byte| *byte == UNTOUCHED), "refused, and written");
                match refused {
                    Err(RefusedRecv::TooSmall(incoming)) => {
                        assert_eq!(Some(incoming), self.incoming(side));
                        assert!(incoming.length != Length::Stream && self.length(side) > room);
                    }
                    Err(RefusedRecv::Long(incoming)) => {
                        assert_eq!(Some(incoming), self.incoming(side));
                        assert!(self.length(side) <= room);
                    }
                    Ok(_) => {}
                }
            }
        }
    }

    pub(crate) fn length(&self, side: usize) -> usize {
        self.flows[1 - side].sent[self.flows[1 - side].head].payload.len()
    }

    pub(crate) fn begin_recv(&mut self, side: usize, room: usize, pieces: usize, is_cold: bool, looks: bool) {
        if self.flows[1 - side].receives.is_some() {
            return;
        }
        let receive = if is_cold { RecvOperation::cold() } else { RecvOperation::new() };
        let place = vec![UNTOUCHED; room];
        let receives = self.flows[1 - side].receives.insert(Receives { receive, place, pieces, is_cold });
        if looks && !is_cold {
            let slices = &mut cut_mut(&mut receives.place, pieces);
            let driven = self.ends[side].begin_recv(&mut self.fabric, &mut receives.receive, slices);
            self.judge(side, driven);
        }
    }

    pub(crate) fn drive_recv(&mut self, side: usize, part: usize) {
        let Some(receives) = &mut self.flows[1 - side].receives else { return };
        let Receives { receive, place, pieces, is_cold } = receives;
        let before = receive.taken();
        let (end, fabric) = (&mut self.ends[side], &mut self.fabric);
        let driven = if *is_cold && receive.has_begun() {
            let last = place.len().min(before + part);
            end.recv_part(fabric, receive, &mut place[before..last])
        } else {
            end.drive_recv(fabric, receive, &mut cut_mut(place, *pieces))
        };
        let moved = receive.taken() - before;
        match driven {
            Drive::Idle => assert_eq!(moved, 0),
            Drive::Moved => assert!(receive.has_begun()),
            Drive::Done(_) => assert!(!receive.has_begun()),
        }
        self.judge(side, driven);
    }

    pub(crate) fn judge(&mut self, side: usize, driven: Drive<Result<Received, RecvFailed>>) {
        let Drive::Done(done) = driven else { return };
        let Some(receives) = self.flows[1 - side].receives.take() else { return };
        let incoming = self.incoming(side);
        match done {
            Ok(received) => self.took(side, received, &receives.place),
            Err(RecvFailed::TooSmall(found)) => {
                assert_eq!(Some(found), incoming);
                assert!(self.length(side) > receives.place.len());
                assert_eq!(receives.receive.taken(), 0);
            }
            Err(RecvFailed::Cancelled(reason)) => {
                let flow = &mut self.flows[1 - side];
                let sent = &flow.sent[flow.head];
                assert_eq!(sent.cancelled, Some(reason));
                let taken = receives.receive.taken();
                assert!(receives.place[..taken] == sent.payload[..taken], "wrong bytes");
                flow.head += 1;
            }
            Err(RecvFailed::Busy | RecvFailed::WrongLength | RecvFailed::NotOpen) => {
                panic!("it was neither rejected nor taken by another")
            }
        }
    }

    pub(crate) fn rejected(&mut self, side: usize, reason: Reason) {
        let flow = &mut self.flows[1 - side];
        assert_eq!(flow.sent[flow.head].rejected.replace(reason), None);
        flow.sent[flow.head].cancelled = None;
        flow.head += 1;
    }

    pub(crate) fn cancel_recv(&mut self, side: usize, reason: Reason) {
        let Some(mut receives) = self.flows[1 - side].receives.take() else { return };
        let has_begun = receives.receive.has_begun();
        self.ends[side].cancel_recv(&mut self.fabric, &mut receives.receive, reason);
        if has_begun {
            self.rejected(side, reason);
        }
        let stale =
            self.ends[side].drive_recv(&mut self.fabric, &mut receives.receive, &mut [&mut receives.place]);
        assert_eq!(stale, Drive::Done(Err(RecvFailed::NotOpen)));
    }

    /// Rejects what is at the head; an operation that took it is over.
    pub(crate) fn reject(&mut self, side: usize, reason: Reason) {
        if !self.ends[side].reject(&mut self.fabric, reason) {
            return;
        }
        let has_begun = self.has_begun(side);
        self.rejected(side, reason);
        if has_begun {
            let Some(mut receives) = self.flows[1 - side].receives.take() else { return };
            let slices = &mut cut_mut(&mut receives.place, receives.pieces);
            let driven = self.ends[side].drive_recv(&mut self.fabric, &mut receives.receive, slices);
            assert_eq!(driven, Drive::Done(Err(RecvFailed::NotOpen)));
        }
    }
}
