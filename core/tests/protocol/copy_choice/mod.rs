//! The choice of copy kernels (wire.md 4.12), over a fabric that has all of them, and whose copies take what a table says.

use superpipe_core::{
    Attachment, CONTROL_PAGE_BYTES, Caps, Completion, Config, CopyKernel, Endpoint, Fabric, FlagPlace,
    KernelSet, Landing, Layout, Line, Nanos, Notification, Origin, RefusedSend, SqFull, TryRecv, WrId,
};

mod kernels;
mod windows;

const LAYOUT: Layout =
    Layout { block_bytes: 16 << 10, block_count: 8, flags: FlagPlace::Apart { group_blocks: 1 } };

struct Timed {
    memory: [Vec<u8>; 4],
    now: u64,
    /// Nanoseconds of a copy of 4096 bytes by each kernel: in, out.
    cost: [[u64; 4]; 2],
    /// Kernels of the copies in, with their bytes.
    ins: Vec<(CopyKernel, usize)>,
    /// Reads of the line of acknowledgements of end 0.
    acks_read: core::cell::Cell<u64>,
}

impl Timed {
    fn word(&self, from: usize, at: u32) -> u64 {
        u64::from_le_bytes(*self.memory[from][at as usize..].first_chunk().unwrap())
    }
}

impl Fabric for Timed {
    const DIRECT: bool = true;
    const TIMES_COPIES: bool = true;
    type Link = ();
    type Region = usize;
    type Remote = usize;
    fn caps(&self, _: &()) -> Caps {
        Caps { order_inside_write: true, notifications_max: 0 }
    }
    fn now(&mut self) -> Nanos {
        Nanos(self.now)
    }
    fn flag(&self, _: &(), from: usize, at: u32) -> u64 {
        self.word(from, at)
    }
    fn take_line(&self, _: &(), from: usize, at: u32) -> Line {
        if from == 0 && at == superpipe_core::control_page::ACK {
            self.acks_read.set(self.acks_read.get() + 1);
        }
        Line(core::array::from_fn(|index| self.word(from, at + 8 * u32::try_from(index).unwrap())))
    }
    fn copy_kernels(&self, _: &()) -> KernelSet {
        KernelSet::ALL
    }
    fn copy_out(&mut self, _: &mut (), from: usize, at: u32, to: &mut [u8], kernel: CopyKernel) {
        self.now += self.cost[1][kernel as usize] * to.len() as u64 / 4096;
        to.copy_from_slice(&self.memory[from][at as usize..][..to.len()]);
    }
    fn write_line(&mut self, link: &mut (), to: usize, at: u32, line: &Line) {
        for (index, word) in line.0.iter().enumerate() {
            self.publish(link, to, at + 8 * u32::try_from(index).unwrap(), *word);
        }
    }
    fn publish(&mut self, _: &mut (), to: usize, at: u32, flag: u64) {
        self.memory[to][at as usize..][..8].copy_from_slice(&flag.to_le_bytes());
    }
    fn copy_in(&mut self, _: &mut (), to: usize, at: u32, from: &[u8], kernel: CopyKernel) {
        self.now += self.cost[0][kernel as usize] * from.len() as u64 / 4096;
        self.ins.push((kernel, from.len()));
        self.memory[to][at as usize..][..from.len()].copy_from_slice(from);
    }
    fn crc_out(&self, _: &(), _: usize, _: u32, _: u32, _: u32) -> u32 {
        0
    }
    fn crc_in(&self, _: &(), _: usize, _: u32, _: u32, _: u32) -> u32 {
        0
    }
    fn crc(&self, _: &[u8], _: u32) -> u32 {
        0
    }
    fn post_write(
        &mut self,
        _: &mut (),
        _: usize,
        _: u32,
        _: u32,
        _: Option<WrId>,
        _: Option<Notification>,
    ) -> Result<(), SqFull> {
        Err(SqFull)
    }
    fn ring_doorbell(&mut self, _: &mut ()) {}
    fn poll_cq(&mut self, _: &mut ()) -> Option<Completion> {
        None
    }
}

fn pair(layout: Layout, config: Config) -> (Timed, [Endpoint<Timed>; 2]) {
    let [page, landing] = [CONTROL_PAGE_BYTES, layout.bytes()].map(|bytes| vec![0; bytes as usize]);
    let memory = [page.clone(), landing.clone(), page, landing];
    let fabric =
        Timed { memory, now: 0, cost: [[1000; 4]; 2], ins: Vec::new(), acks_read: Default::default() };
    let ends = [0, 2].map(|own| {
        let peer = 2 - own;
        let attachment = Attachment {
            link: (),
            control_page: own,
            peer_control_page: peer,
            landing: Landing { memory: own + 1, layout },
            peer_landing: Landing { memory: peer + 1, layout },
            growth: None,
        };
        Endpoint::new(&fabric, attachment, config, Origin::default()).unwrap()
    });
    (fabric, ends)
}

fn config() -> Config {
    Config { c0_bytes: 64 << 10, ..Config::default() }
}

/// Sends a message of `bytes` bytes and receives it.
fn message(fabric: &mut Timed, ends: &mut [Endpoint<Timed>; 2], bytes: usize) {
    let from = vec![7; bytes];
    let mut to = vec![0; bytes];
    let mut sent = ends[0].try_send(fabric, 1, &[&from]);
    if sent == Err(RefusedSend::NoCredit) {
        // A lap that is shorter than the ones before needs what the receiver owes, which it tells while it waits.
        ends[1].acknowledge(fabric);
        sent = ends[0].try_send(fabric, 1, &[&from]);
    }
    assert!(sent.is_ok(), "{sent:?}");
    match ends[1].try_recv(fabric, &mut [&mut to], 1) {
        TryRecv::Taken { bytes: got, .. } => assert_eq!(got, bytes),
        TryRecv::Other => {
            assert_eq!(ends[1].pull(fabric, &mut [&mut to]).bytes, bytes);
        }
        other => panic!("{other:?}"),
    }
    progress(fabric, ends);
}

/// Lets both ends acknowledge, and read that.
fn progress(fabric: &mut Timed, ends: &mut [Endpoint<Timed>; 2]) {
    for _ in 0..3 {
        ends[1].progress(fabric);
        ends[0].progress(fabric);
    }
}
