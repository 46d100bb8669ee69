//! Fabric of one thread.

use std::sync::Arc;

use superpipe_core::{
    Attachment, CONTROL_PAGE_BYTES, Caps, Completion, Config, CopyKernel, Endpoint, Fabric, LINE_BYTES,
    Landing, Layout, Line, Nanos, Notification, Origin, SqFull, WrId, control_page, word,
};

use crate::memory::{BLOCK_BYTES, BLOCKS_MAX, Memory, Place};

/// One thread's view of the shared memory, with direct store or as a device that writes an image.
pub(crate) struct Loom<const DIRECT: bool> {
    shared: Arc<[Memory; 2]>,
    /// Control page and landing buffer of the peer, as this end builds them.
    images: [Vec<u8>; 2],
    /// Completions that were not polled, at most as many as the send queue holds.
    completions: Vec<WrId>,
}

/// WRs that the device takes before a completion is polled.
const SEND_QUEUE: usize = 2;

impl<const DIRECT: bool> Loom<DIRECT> {
    pub(crate) fn new(shared: Arc<[Memory; 2]>) -> Self {
        let landing = (BLOCKS_MAX * BLOCK_BYTES) as usize;
        let images =
            [CONTROL_PAGE_BYTES as usize, landing].map(|bytes| vec![0; if DIRECT { 0 } else { bytes }]);
        Self { shared, images, completions: Vec::new() }
    }

    fn of(&self, place: Place) -> &Memory {
        &self.shared[place.owner()]
    }

    fn image(&mut self, place: Place, at: u32, bytes: usize) -> &mut [u8] {
        let image = &mut self.images[usize::from(matches!(place, Place::Landing(_)))];
        &mut image[at as usize..][..bytes]
    }

    pub(crate) fn end(&self, side: usize, layout: Layout, config: Config) -> Endpoint<Self> {
        let attachment = Attachment {
            link: (),
            control_page: Place::ControlPage(side),
            peer_control_page: Place::ControlPage(1 - side),
            landing: Landing { memory: Place::Landing(side), layout },
            peer_landing: Landing { memory: Place::Landing(1 - side), layout },
            growth: None,
        };
        Endpoint::new(self, attachment, config, Origin::default()).expect("a configuration that can be")
    }

    /// Makes a line visible, its flag last.
    fn show_line(&self, to: Place, at: u32, line: &Line) {
        let memory = self.of(to);
        if is_ack(to, at) {
            word::write_line(memory.ack.each_ref(), line);
        } else {
            memory.write(to, at, &line.body_bytes());
            word::publish(memory.flag(to, at + LINE_BYTES - 8), line.flag());
        }
    }
}

const fn is_ack(place: Place, at: u32) -> bool {
    matches!(place, Place::ControlPage(_)) && at == control_page::ACK
}

fn line_of(bytes: &[u8]) -> Line {
    let words = bytes.as_chunks::<8>().0;
    Line(core::array::from_fn(|index| u64::from_le_bytes(words[index])))
}

impl<const DIRECT: bool> Fabric for Loom<DIRECT> {
    const DIRECT: bool = DIRECT;
    const TIMES_COPIES: bool = DIRECT;
    type Link = ();
    type Region = Place;
    type Remote = Place;

    fn caps(&self, (): &()) -> Caps {
        Caps { order_inside_write: true, notifications_max: 0 }
    }
    fn now(&mut self) -> Nanos {
        Nanos(0)
    }
    fn flag(&self, (): &(), from: Place, at: u32) -> u64 {
        word::observe(self.of(from).flag(from, at))
    }
    fn take_line(&self, (): &(), from: Place, at: u32) -> Line {
        let memory = self.of(from);
        if is_ack(from, at) {
            return word::take_line(memory.ack.each_ref());
        }
        let mut bytes = [0; 64];
        memory.read(from, at, &mut bytes[..56]);
        bytes[56..].copy_from_slice(&word::observe(memory.flag(from, at + 56)).to_le_bytes());
        line_of(&bytes)
    }
    fn copy_out(&mut self, (): &mut (), from: Place, at: u32, to: &mut [u8], _: CopyKernel) {
        if !to.is_empty() {
            self.of(from).read(from, at, to);
        }
    }
    fn crc_out(&self, (): &(), _: Place, _: u32, _: u32, _: u32) -> u32 {
        unreachable!("plain flags")
    }
    fn write_line(&mut self, (): &mut (), to: Place, at: u32, line: &Line) {
        if DIRECT {
            self.show_line(to, at, line);
        } else {
            let image = self.image(to, at, 64);
            for (place, word) in image.as_chunks_mut::<8>().0.iter_mut().zip(line.0) {
                *place = word.to_le_bytes();
            }
        }
    }
    fn publish(&mut self, (): &mut (), to: Place, at: u32, flag: u64) {
        if DIRECT {
            word::publish(self.of(to).flag(to, at), flag);
        } else {
            self.image(to, at, 8).copy_from_slice(&flag.to_le_bytes());
        }
    }
    fn copy_in(&mut self, (): &mut (), to: Place, at: u32, from: &[u8], _: CopyKernel) {
        if !DIRECT {
            self.image(to, at, from.len()).copy_from_slice(from);
        } else if !from.is_empty() {
            self.of(to).write(to, at, from);
        }
    }
    fn crc_in(&self, (): &(), _: Place, _: u32, _: u32, _: u32) -> u32 {
        unreachable!("plain flags")
    }
    fn crc(&self, _: &[u8], _: u32) -> u32 {
        unreachable!("plain flags")
    }
    /// Writes the bytes in ascending order, block by block, and completes the WR.
    fn post_write(
        &mut self,
        (): &mut (),
        to: Place,
        at: u32,
        bytes: u32,
        wr: Option<WrId>,
        _: Option<Notification>,
    ) -> Result<(), SqFull> {
        if self.completions.len() == SEND_QUEUE {
            return Err(SqFull);
        }
        let image = self.image(to, at, bytes as usize).to_vec();
        if matches!(to, Place::ControlPage(_)) {
            self.show_line(to, at, &line_of(&image));
        } else {
            let (mut at, mut rest) = (at, &image[..]);
            while !rest.is_empty() {
                let (here, after) = rest.split_at((BLOCK_BYTES - at % BLOCK_BYTES) as usize);
                let (body, flag) = here.split_at(here.len() - 8);
                self.of(to).write(to, at, body);
                at += BLOCK_BYTES - at % BLOCK_BYTES;
                let flag = u64::from_le_bytes(flag.try_into().expect("eight bytes"));
                word::publish(self.of(to).flag(to, at - 8), flag);
                rest = after;
            }
        }
        self.completions.extend(wr);
        Ok(())
    }
    fn ring_doorbell(&mut self, (): &mut ()) {}
    fn poll_cq(&mut self, (): &mut ()) -> Option<Completion> {
        let wr = (!self.completions.is_empty()).then(|| self.completions.remove(0))?;
        Some(Completion { wr, result: Ok(()) })
    }
}
