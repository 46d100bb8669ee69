//! What an application does to receive.

use superpipe_core::{End, Incoming, Length, Readable, TryRecv};
use superpipe_testkit::Memory;

use super::case::Take;
use super::flow::reason;
use super::state::State;

/// More than any message of a case has.
const ROOM_BYTES: usize = 1024;

impl<const DIRECT: bool> State<DIRECT> {
    /// The next step of receiving what the other end sends.
    pub(super) fn receive(&mut self, side: usize) -> bool {
        match (self.flows[1 - side].head, self.case.take[side]) {
            (None, Take::Whole) => self.receive_whole(side) || self.look_for(side),
            (None, _) => self.look_for(side),
            (Some(_), Take::InPlace(bytes)) => self.read_in_place(side, bytes),
            (Some(_), Take::Pull(bytes)) => self.pull(side, bytes),
            (Some(_), Take::Whole) => self.pull(side, ROOM_BYTES),
        }
    }

    /// Refuses the transfer at the head.
    pub(super) fn reject(&mut self, side: usize) -> bool {
        let from = 1 - side;
        let Some((index, _)) = self.flows[from].head else { return false };
        let end = &mut self.ends[side].change().0;
        let why = reason(from, index, 2);
        assert!(end.reject(&mut self.net, why), "it is at the head");
        let flow = self.flows[from].change();
        flow.sent[index].rejected = Some(why);
        flow.head = None;
        true
    }

    fn look_for(&mut self, side: usize) -> bool {
        if let Some(incoming) = self.ends[side].change().0.incoming(&mut self.net) {
            self.flows[1 - side].change().meet(&self.case.transfers[1 - side], incoming);
        }
        true
    }

    /// The short way. Whether it took something.
    fn receive_whole(&mut self, side: usize) -> bool {
        let mut place = [0; ROOM_BYTES];
        let found = self.ends[side].change().0.try_recv(&mut self.net, &mut [&mut place], 1);
        let (TryRecv::Taken { tag, bytes } | TryRecv::Begun { tag, bytes }) = found else { return false };
        let end = if matches!(found, TryRecv::Taken { .. }) { End::Fin } else { End::No };
        let transfers = &self.case.transfers[1 - side];
        let flow = self.flows[1 - side].change();
        let index = usize::try_from(tag).unwrap_or(usize::MAX);
        let number = flow.sent.get(index).and_then(|sent| sent.number);
        let Some(transfer) = number else { panic!("transfer {tag} was never sent") };
        let length = Length::Exact(transfers[index].bytes as u64);
        flow.meet(transfers, Incoming { transfer, tag, length });
        flow.took(transfers, &place[..bytes], end);
        true
    }

    fn pull(&mut self, side: usize, bytes: usize) -> bool {
        let mut place = [0; ROOM_BYTES];
        let pulled = self.ends[side].change().0.pull(&mut self.net, &mut [&mut place[..bytes]]);
        self.took(side, &place[..pulled.bytes], pulled.end)
    }

    fn read_in_place(&mut self, side: usize, bytes: u32) -> bool {
        match self.ends[side].change().0.readable(&mut self.net, bytes) {
            Readable::Nothing => true,
            Readable::Ended(end) => self.took(side, &[], end),
            Readable::Run(run) => {
                let mut found = Vec::new();
                for (at, bytes) in run.spans() {
                    found.extend_from_slice(self.net.visible(Memory::landing(side), at, bytes));
                }
                assert_eq!(found.len(), run.bytes as usize);
                let end = self.ends[side].change().0.consume(&mut self.net, run.bytes);
                self.took(side, &found, end)
            }
        }
    }

    fn took(&mut self, side: usize, got: &[u8], end: End) -> bool {
        if !got.is_empty() || end != End::No {
            self.flows[1 - side].change().took(&self.case.transfers[1 - side], got, end);
        }
        true
    }
}
