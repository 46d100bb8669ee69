//! The choice of copy kernels (wire.md 4.12), over a fabric that has all of them, and whose copies take what a table says.

use superpipe_core::{
    Attachment, CONTROL_PAGE_BYTES, Caps, Completion, Config, CopyKernel, Endpoint, Fabric, FlagPlace,
    KernelSet, Landing, Layout, Line, Nanos, Notification, Origin, RefusedSend, SqFull, TryRecv, WrId,
};

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
    for _ in 0..3 {
        ends[1].progress(fabric);
        ends[0].progress(fabric);
    }
}

const STREAMING: usize = CopyKernel::Streaming as usize;

/// `pin_copies(None, None)`: "they are chosen while data flow". The streaming kernel is 10 times as slow as the others.
#[test]
fn a_choice_that_is_made_again_leaves_a_bad_kernel() {
    let (mut fabric, mut ends) = pair(LAYOUT, config());
    fabric.cost = [[100; 4]; 2];
    fabric.cost[0][STREAMING] = 1000;
    fabric.cost[1][STREAMING] = 1000;
    for end in &mut ends {
        end.pin_copies(Some(CopyKernel::Streaming), Some(CopyKernel::Streaming));
    }
    message(&mut fabric, &mut ends, 8 << 10);
    for end in &mut ends {
        end.pin_copies(None, None);
    }
    for _ in 0..200_000 {
        message(&mut fabric, &mut ends, 8 << 10);
    }
    fabric.ins.clear();
    for _ in 0..10_000 {
        message(&mut fabric, &mut ends, 8 << 10);
    }
    let streamed = fabric.ins.iter().filter(|(kernel, _)| *kernel == CopyKernel::Streaming).count();
    let counters = [ends[0].counters(), ends[1].counters()];
    assert!(
        counters[0].copy_in[0] != CopyKernel::Streaming && counters[1].copy_out[0] != CopyKernel::Streaming,
        "after 200000 messages of 8 KiB: in {:?}, out {:?}; {streamed} of the last 10000 were streamed; changes {:?} {:?}, timed {:?}",
        counters[0].copy_in,
        counters[1].copy_out,
        counters[0].copy_changes,
        counters[1].copy_changes,
        counters[0].copies_timed,
    );
}

/// Messages of two classes in turn, one block each: the counts between timed blocks are even, and each class has its own.
#[test]
fn each_of_two_classes_in_turn_is_measured() {
    let (mut fabric, mut ends) = pair(LAYOUT, config());
    // The string instruction takes a tenth.
    fabric.cost = [[1000, 100, 1000, 1000]; 2];
    for _ in 0..100_000 {
        message(&mut fabric, &mut ends, 8 << 10);
        message(&mut fabric, &mut ends, 16 << 10);
    }
    let chosen = ends[0].counters().copy_in;
    assert_eq!(
        chosen[..2],
        [CopyKernel::String; 2],
        "classes of 8 KiB and of 16 KiB, after 100000 messages each"
    );
}

/// A group is one copy, and the first one of a chunk is what is timed.
#[test]
fn the_unit_of_copies_is_a_group() {
    let grouped =
        Layout { block_bytes: 4 << 10, block_count: 64, flags: FlagPlace::Apart { group_blocks: 4 } };
    let (mut fabric, mut ends) = pair(grouped, config());
    for bytes in [64 << 10, 50_000] {
        fabric.ins.clear();
        message(&mut fabric, &mut ends, bytes);
        let copies: Vec<usize> = fabric.ins.iter().map(|(_, bytes)| *bytes).collect();
        let rest = bytes - 3 * (16 << 10);
        assert_eq!(copies, [16 << 10, 16 << 10, 16 << 10, rest]);
    }
    // The string instruction takes a tenth: the choice is made by groups of 16 KiB in messages of 64 KiB.
    fabric.cost = [[1000, 100, 1000, 1000]; 2];
    for _ in 0..2000 {
        message(&mut fabric, &mut ends, 64 << 10);
    }
    let chosen = [ends[0].counters().copy_in[1], ends[1].counters().copy_out[1]];
    assert_eq!(chosen, [CopyKernel::String; 2]);
}

/// "all copies into blocks ... of messages of that length and more" use the kernel that was given.
#[test]
fn a_given_kernel_is_used_for_all_copies_of_long_messages() {
    let inside = Layout { block_bytes: 16 << 10, block_count: 8, flags: FlagPlace::Inside };
    let (mut fabric, mut ends) = pair(inside, Config { copy_in: Some(CopyKernel::Streaming), ..config() });
    message(&mut fabric, &mut ends, 50_000);
    assert!(
        fabric.ins.iter().all(|(kernel, _)| *kernel == CopyKernel::Streaming),
        "a message of 50000 bytes: {:?}",
        fabric.ins
    );
}

/// Receives a message of `bytes` bytes into two places, of which no copy out of a block is timed.
fn in_halves(fabric: &mut Timed, ends: &mut [Endpoint<Timed>; 2], bytes: usize) {
    let from = vec![7; bytes];
    let [mut left, mut right] = [vec![0; bytes / 2], vec![0; bytes - bytes / 2]];
    ends[0].try_send(fabric, 1, &[&from]).unwrap();
    assert_eq!(ends[1].pull(fabric, &mut [&mut left, &mut right]).bytes, bytes);
    for _ in 0..3 {
        ends[1].progress(fabric);
        ends[0].progress(fabric);
    }
}

/// A receiver that tries another kernel says nothing. If its trials always fell together with those of the sender, the sender would never learn what
/// another kernel takes.
#[test]
fn trials_of_both_ends_do_not_always_fall_together() {
    let mut chosen = Vec::new();
    for shift in 0..4 {
        let (mut fabric, mut ends) = pair(LAYOUT, config());
        for _ in 0..20_000 {
            message(&mut fabric, &mut ends, 16 << 10);
        }
        // Some timed blocks are copied out into two places: 64 blocks have one.
        for _ in 0..64 * shift {
            in_halves(&mut fabric, &mut ends, 16 << 10);
        }
        // The string instruction is twenty times as fast as it was, at the sender.
        fabric.cost[0] = [1000, 50, 1000, 1000];
        for _ in 0..500_000 {
            message(&mut fabric, &mut ends, 16 << 10);
        }
        chosen.push((shift, ends[0].counters().copy_in[1], ends[0].counters().copies_timed));
    }
    assert!(chosen.iter().all(|(_, kernel, _)| *kernel == CopyKernel::String), "{chosen:?}");
}

/// A sender that stays ahead of its receiver by a ring of 32 blocks. Nothing ever changes: once the kernels are chosen, one block in 64 is timed.
fn ahead(ring: u32, taken: usize) -> ([u64; 2], usize, usize, [u32; 2]) {
    use superpipe_core::{Length, Protocol};
    let layout = Layout { block_count: ring, ..LAYOUT };
    let (mut fabric, mut ends) = pair(layout, config());
    fabric.cost = [[1000, 1500, 1500, 1500]; 2];
    ends[0].set_protocol(Protocol::Eager);
    let id = ends[0].start(1, Length::Exact(1 << 45)).unwrap();
    let from = vec![7; 1 << 20];
    let mut to = vec![0; taken << 14];
    let mut run = |blocks: u64, fabric: &mut Timed, ends: &mut [Endpoint<Timed>; 2]| {
        let end = ends[0].counters().bytes_sent + (blocks << 14);
        while ends[0].counters().bytes_sent < end {
            ends[0].push(fabric, id, &[&from]).unwrap();
            ends[1].incoming(fabric);
            ends[1].pull(fabric, &mut [&mut to]);
            ends[1].progress(fabric);
            ends[0].progress(fabric);
        }
    };
    run(50_000, &mut fabric, &mut ends);
    let before = ends[0].counters().copies_timed;
    fabric.ins.clear();
    run(50_000, &mut fabric, &mut ends);
    let after = ends[0].counters().copies_timed;
    let tried = fabric.ins.iter().filter(|(kernel, _)| *kernel != CopyKernel::Plain).count();
    (
        [after[0] - before[0], ends[1].counters().copies_timed[1]],
        tried,
        fabric.ins.len(),
        ends[0].counters().copy_changes,
    )
}

#[test]
fn a_sender_that_is_ahead_settles() {
    let mut seen = Vec::new();
    for (ring, taken) in [(8, 1), (16, 2), (32, 1), (32, 4), (48, 6), (64, 8), (96, 4), (128, 8)] {
        let (timed, tried, all, _) = ahead(ring, taken);
        seen.push((ring, taken, timed[0], tried, all));
    }
    // One block in 64 of 50000 is timed: 781; of these, one in four is a trial.
    assert!(seen.iter().all(|seen| seen.2 < 1600), "ring, taken at a time, timed, tried, all: {seen:?}");
}

/// A receiver that keeps pace: each message is taken before the next one is sent. Rings of every size.
#[test]
fn a_sender_whose_receiver_keeps_pace_settles() {
    let mut bad = Vec::new();
    for ring in 6..=80 {
        for bytes in [8 << 10, 16 << 10, 48 << 10] {
            let (mut fabric, mut ends) = pair(Layout { block_count: ring, ..LAYOUT }, config());
            fabric.cost = [[1000, 1500, 1500, 1500]; 2];
            let blocks = |bytes: usize| bytes.div_ceil(16 << 10) as u64;
            let count = 20_000 / blocks(bytes);
            for _ in 0..count {
                message(&mut fabric, &mut ends, bytes);
            }
            let before = ends[0].counters().copies_timed[0];
            fabric.ins.clear();
            for _ in 0..count {
                message(&mut fabric, &mut ends, bytes);
            }
            let timed = ends[0].counters().copies_timed[0] - before;
            let tried = fabric.ins.iter().filter(|(kernel, _)| *kernel != CopyKernel::Plain).count();
            if timed > 2 * count * blocks(bytes) / 64 {
                bad.push((ring, bytes, timed, tried, fabric.ins.len()));
            }
        }
    }
    assert!(bad.is_empty(), "ring, bytes, timed, tried, all: {bad:?}");
}

/// The plain kernel takes two thirds of what each other takes, always. Returns how many of each 10000 copies another one made.
fn others_of_10000(ring: u32, bytes: usize) -> Vec<usize> {
    let (mut fabric, mut ends) = pair(Layout { block_count: ring, ..LAYOUT }, config());
    fabric.cost = [[1000, 1500, 1500, 1500]; 2];
    (0..30)
        .map(|_| {
            fabric.ins.clear();
            for _ in 0..10_000 {
                message(&mut fabric, &mut ends, bytes);
            }
            fabric.ins.iter().filter(|(kernel, _)| *kernel != CopyKernel::Plain).count()
        })
        .collect()
}

#[test]
fn the_best_kernel_is_chosen_and_kept() {
    let mut bad = Vec::new();
    for ring in [32, 35, 61, 65, 129, 257, 300] {
        for bytes in [8 << 10, 16 << 10] {
            let others = others_of_10000(ring, bytes);
            if others.iter().any(|others| *others > 5000) {
                bad.push((ring, bytes, others));
            }
        }
    }
    assert!(bad.is_empty(), "ring, bytes, copies by slower kernels of each 10000: {bad:#?}");
}

/// The application takes some messages by a copy, and then reads all others in place, of which its end says no time. Copies in and copies out take
/// 1000 ns by the plain kernel and 1500 by others: a sum for the plain kernel, and the sender's time alone for another, are not to be compared.
#[test]
fn times_with_and_without_those_of_the_peer_are_not_compared() {
    use superpipe_core::{End, Readable};
    let mut bad = Vec::new();
    for answered in (0..600).step_by(8) {
        let (mut fabric, mut ends) = pair(LAYOUT, config());
        fabric.cost = [[1000, 1500, 1500, 1500]; 2];
        for _ in 0..answered {
            message(&mut fabric, &mut ends, 16 << 10);
        }
        fabric.ins.clear();
        let from = vec![7; 16 << 10];
        for _ in 0..3000 {
            ends[0].try_send(&mut fabric, 1, &[&from]).unwrap();
            while let Readable::Run(run) = ends[1].readable(&mut fabric, u32::MAX) {
                if ends[1].consume(&mut fabric, run.bytes) != End::No {
                    break;
                }
            }
            for _ in 0..3 {
                ends[1].progress(&mut fabric);
                ends[0].progress(&mut fabric);
            }
        }
        let others = fabric.ins.iter().filter(|(kernel, _)| *kernel != CopyKernel::Plain).count();
        if others > 500 {
            bad.push((answered, others, ends[0].counters().copy_in[1], ends[0].counters().copy_changes[0]));
        }
    }
    assert!(bad.is_empty(), "answered before, copies of 3000 by slower kernels, chosen, changes: {bad:?}");
}

/// Absurd clocks, absurd words 6, and every kernel given at every time lead to no panic and no wrong byte.
#[test]
fn absurd_times_do_no_harm() {
    use superpipe_core::control_page;
    use superpipe_testkit::Rng;
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let (mut fabric, mut ends) = pair(
            Layout { block_count: 6 + u32::try_from(rng.below(60)).unwrap(), ..LAYOUT },
            Config { timed_bytes: 1, least_window_bytes: 1, ..config() },
        );
        let mut sequence = 0_u64;
        for _ in 0..20_000 {
            for side in 0..2 {
                for kernel in 0..4 {
                    fabric.cost[side][kernel] = match rng.below(5) {
                        0 => 0,
                        1 => 1 << 40,
                        2 => u64::MAX / (1 << 20),
                        _ => 1000,
                    };
                }
            }
            fabric.now = match rng.below(4) {
                0 => 0,
                1 => u64::MAX / 2,
                2 => fabric.now % (1 << 30),
                _ => fabric.now % (1 << 50),
            };
            if rng.one_in(50) {
                let kernel = |rng: &mut Rng| {
                    [
                        None,
                        Some(CopyKernel::Plain),
                        Some(CopyKernel::String),
                        Some(CopyKernel::Fetching),
                        Some(CopyKernel::Streaming),
                    ][rng.below(5)]
                };
                let (a, b) = (kernel(&mut rng), kernel(&mut rng));
                ends[rng.below(2)].pin_copies(a, b);
                let window = u32::try_from(rng.below(1 << 20)).ok().filter(|window| window % 4 == 0);
                ends[rng.below(2)].set_window(window);
            }
            let bytes = [41, 100, 8 << 10, 16 << 10, 40_000, 64 << 10][rng.below(6)];
            if ends[0].counters().chunks_sent > 0 {
                sequence = ends[0].counters().chunks_sent;
            }
            if rng.one_in(2) {
                let word = match rng.below(3) {
                    0 => rng.next(),
                    1 => sequence | u64::from(u32::MAX) << 32,
                    _ => sequence | (rng.next() << 32),
                };
                fabric.publish(&mut (), 0, control_page::ACK + 48, word);
            }
            message(&mut fabric, &mut ends, bytes);
        }
        assert_eq!((ends[0].closed(), ends[1].closed()), (None, None));
    }
}

const LARGE: Layout = Layout { block_count: 128, ..LAYOUT };
fn in_place(fabric: &mut Timed, ends: &mut [Endpoint<Timed>; 2], bytes: usize) {
    use superpipe_core::{End, Readable};
    ends[0].try_send(fabric, 1, &[&vec![7; bytes]]).unwrap();
    while let Readable::Run(run) = ends[1].readable(fabric, u32::MAX) {
        if ends[1].consume(fabric, run.bytes) != End::No {
            break;
        }
    }
    for _ in 0..3 {
        ends[1].progress(fabric);
        ends[0].progress(fabric);
    }
}

#[test]
fn a_peer_that_answers_sometimes_leaves_no_choice_open() {
    let mut bad = Vec::new();
    for period in [1, 5, 9, 13, 17, 25, 35, usize::MAX] {
        let (mut fabric, mut ends) = pair(LAYOUT, config());
        fabric.cost = [[1000, 1500, 1500, 100], [1000, 1500, 1500, 1000]];
        let run = |count: usize, fabric: &mut Timed, ends: &mut [Endpoint<Timed>; 2]| {
            for index in 0..count {
                if index % period == 0 {
                    message(fabric, ends, 16 << 10)
                } else {
                    in_place(fabric, ends, 16 << 10)
                }
            }
        };
        run(100_000, &mut fabric, &mut ends);
        fabric.cost[0] = [100, 1500, 1500, 1000]; // the cores move
        run(500_000, &mut fabric, &mut ends);
        let before = ends[0].counters().copies_timed[0];
        run(100_000, &mut fabric, &mut ends);
        let one_in = 100_000 / (ends[0].counters().copies_timed[0] - before);
        if ends[0].counters().copy_in[1] != CopyKernel::Plain || one_in < 32 {
            bad.push((period, ends[0].counters().copy_in[1], one_in));
        }
    }
    assert!(bad.is_empty(), "one message copied of so many, kernel, one timed in: {bad:?}");
}

#[test]
fn a_trial_ends_although_short_messages_follow() {
    let (mut fabric, mut ends) = pair(LARGE, Config { window_bytes: None, ..config() });
    fabric.cost = [[1000; 4]; 2];
    ends[0].pin_copies(Some(CopyKernel::Plain), None);
    while u64::from(ends[0].window()) == ends[0].counters().window_bytes {
        message(&mut fabric, &mut ends, 64 << 10);
    }
    (0..100_000).for_each(|_| message(&mut fabric, &mut ends, 1 << 10));
    assert_eq!(u64::from(ends[0].window()), ends[0].counters().window_bytes);
}

#[test]
fn acknowledgements_are_not_read_for_ever() {
    let reads = [Some(u32::MAX), None].map(|window| {
        let (mut fabric, mut ends) = pair(LARGE, Config { window_bytes: window, ..config() });
        fabric.cost = [[1000; 4]; 2];
        ends[0].pin_copies(Some(CopyKernel::Plain), None);
        (0..20).for_each(|_| in_place(&mut fabric, &mut ends, 64 << 10));
        let before = fabric.acks_read.get();
        (0..10_000).for_each(|_| message(&mut fabric, &mut ends, 1 << 10));
        fabric.acks_read.get() - before
    });
    assert!(reads[1] <= reads[0] + 2 * u64::from(LARGE.block_count), "until two laps have ended: {reads:?}");
}

#[test]
fn chunks_that_are_not_timed_take_no_turn() {
    use superpipe_core::Length;
    let layout =
        Layout { block_bytes: 4 << 10, block_count: 2048, flags: FlagPlace::Apart { group_blocks: 4 } };
    let windows = [64 << 10, 65 << 10, 72 << 10].map(|bytes| {
        let (mut fabric, mut ends) = pair(layout, Config { window_bytes: None, ..config() });
        ends[0].pin_copies(Some(CopyKernel::Plain), None);
        let (from, mut to) = (vec![7; bytes], vec![0; bytes]);
        for _ in 0..40_000 {
            fabric.cost = [[if ends[0].window() == 8 << 20 { 600 } else { 1000 }; 4]; 2];
            let id = ends[0].start(1, Length::Exact(bytes as u64)).unwrap();
            let (mut sent, mut got) = (0, 0);
            while got < bytes {
                if sent < bytes {
                    sent += ends[0].push(&mut fabric, id, &[&from[sent..]]).unwrap();
                }
                ends[1].incoming(&mut fabric);
                got += ends[1].pull(&mut fabric, &mut [&mut to[got..]]).bytes;
                ends[1].progress(&mut fabric);
                ends[0].progress(&mut fabric);
            }
        }
        (ends[0].counters().window_bytes >> 10, ends[0].counters().copies_timed[0])
    });
    assert!(windows.iter().all(|window| window.0 == 8 << 10), "KiB, timed: {windows:?}");
}

#[test]
fn a_given_kernel_stays() {
    let config = Config { window_bytes: None, copy_in: Some(CopyKernel::Streaming), ..config() };
    let (mut fabric, mut ends) = pair(LARGE, config);
    fabric.cost = [[1000; 4]; 2];
    (0..2000).for_each(|_| in_place(&mut fabric, &mut ends, 64 << 10));
    fabric.ins.clear();
    message(&mut fabric, &mut ends, 8 << 10);
    assert_eq!(fabric.ins[0].0, CopyKernel::Streaming);
}

#[test]
fn setting_the_same_again_changes_nothing() {
    let (mut fabric, mut ends) = pair(LARGE, Config { window_bytes: None, ..config() });
    for _ in 0..20_000 {
        let cost = if ends[0].window() == 2 << 20 { 600 } else { 1000 };
        fabric.cost = [[cost; 4], [cost, cost / 2, cost, cost]];
        ends[0].set_window(None);
        ends[1].pin_copies(Some(CopyKernel::Plain), None);
        message(&mut fabric, &mut ends, 64 << 10);
    }
    assert_eq!(
        (ends[0].counters().window_bytes, ends[1].counters().copy_out[1]),
        (2 << 20, CopyKernel::String)
    );
}
