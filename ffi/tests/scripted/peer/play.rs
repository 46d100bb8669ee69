//! Plays a script.

use core::time::Duration;
use std::io::Read;
use std::thread;

use super::entry::Entry;
use super::floods::flood;
use super::packets::{Fabric, Layout, packet};
use super::process::{die, say_cue, say_heard, say_listens};
use super::rdma::Verbs;
use super::script::{Carry, Kind, Of, Patch, Place, Role, Step};
use super::shm::Sockets;
use super::wire::Wire;
use super::{PATIENCE, wait};

/// C0 (wire.md 4.5).
const C0: usize = 64 << 10;
/// Most messages of a step of the warm-up (wire.md 6.7).
const STEP_MAX: usize = 64;

/// State of a peer that plays a script.
pub(super) struct Player {
    role: Role,
    entry: Box<dyn Entry>,
    layout: Option<Layout>,
    wire: Option<Wire>,
    /// Exchanges of the warm-up that are done.
    warmed: usize,
}

impl Player {
    pub(super) fn new(role: Role, place: Place) -> Self {
        let entry: Box<dyn Entry> = match place {
            Place::Shm(path) => Box::new(Sockets::new(role, path)),
            Place::Rdma(address) => Box::new(Verbs::new(role, address)),
        };
        if role == Role::Listens {
            say_listens();
        }
        Self { role, entry, layout: None, wire: None, warmed: 0 }
    }

    /// Plays all of it, then stalls.
    pub(super) fn play(&mut self, script: &[Step]) {
        for step in script {
            self.step(*step);
        }
        loop {
            thread::sleep(PATIENCE);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Connect => self.entry.connect(),
            Step::Accept => self.entry.accept(),
            Step::AcceptAndClose => loop {
                self.entry.accept_and_close();
            },
            Step::Send(kind, patches, carry) => self.send(kind, patches, carry),
            Step::Raw(bytes, carry) => self.entry.send(bytes, carry, self.layout),
            Step::Huge(bytes) => self.entry.send(&vec![7; bytes], Carry::Nothing, self.layout),
            Step::Wakes(many, pause_ms) => {
                for _ in 0..many {
                    self.entry.wake();
                    thread::sleep(Duration::from_millis(pause_ms));
                }
            }
            Step::Expect(kind) => self.expect(kind),
            Step::Meet => self.meet(&[]),
            Step::MeetWith(wishes) => self.meet(wishes),
            Step::Warm(many) => (0..many).for_each(|_| self.warm()),
            Step::WarmUp => {
                while self.warm_bytes().is_some() {
                    self.warm();
                }
            }
            Step::Cue => say_cue(),
            Step::Await => std::io::stdin().read_exact(&mut [0]).unwrap(),
            Step::Sleep(ms) => thread::sleep(Duration::from_millis(ms)),
            Step::CloseSocket => {
                self.entry.close();
                if let Some(wire) = &mut self.wire {
                    wire.link().close();
                }
            }
            Step::Tamper | Step::Punch | Step::Bequeath | Step::FailQp | Step::Stray => {
                self.entry.own_step(step)
            }
            Step::Die => die(),
            step => self.wire_step(step),
        }
    }

    /// A step on a connection that stands.
    fn wire_step(&mut self, step: Step) {
        let wire = self.wire();
        match step {
            Step::Message(tag, bytes) => wire.message(tag, bytes),
            Step::Stream(tag, bytes) => wire.begin(tag, None, bytes, true),
            Step::Part(tag, length, bytes) => wire.begin(tag, Some(length), bytes, false),
            Step::Flow(tag, bytes) => wire.begin(tag, None, bytes, false),
            Step::More(bytes, is_last) => wire.go_on(0, 0, bytes, is_last),
            Step::Take => while !wire.take_chunk() {},
            Step::TakeChunks(many) => (0..many).for_each(|_| _ = wire.take_chunk()),
            Step::Mute(tag, bytes) => wire.mute(|wire| wire.message(tag, bytes)),
            Step::Skip(many) => wire.skip(many),
            Step::Notification => wire.notice(),
            Step::Slot(words, of, blocks) => wire.write_slot(words, of, blocks),
            Step::Unsteady(one, other) => {
                wire.write_slot(one, Of::Newest(1), 1);
                loop {
                    wire.change_slot(&other);
                    wire.change_slot(&one);
                }
            }
            Step::Control(words, of) => wire.control(words, Some(of)),
            Step::Close(from_newest, reason) => wire.close(from_newest, reason),
            Step::Ack(blocks, controls) => wire.acknowledge(blocks, controls),
            Step::TornAck => wire.tear(),
            Step::Flood(kind) => flood(wire, kind),
            Step::Lie(kind, further) => wire.link().lie(kind, further),
            Step::Hear(kind) => wire.hear(kind),
            Step::HearLife => {
                let before = wire.life_seen();
                wait("a sign of life", || {
                    wire.keep_house();
                    (wire.life_seen() != before).then_some(())
                });
                say_heard();
            }
            _ => unreachable!("done in `step`"),
        }
    }

    fn wire(&mut self) -> &mut Wire {
        let (entry, layout) = (&mut self.entry, self.layout);
        self.wire.get_or_insert_with(|| Wire::new(entry.link(), layout.unwrap()))
    }

    fn send(&mut self, kind: Kind, patches: &[Patch], carry: Carry) {
        let packet = packet(self.entry.fabric(), kind, patches);
        if kind == Kind::Welcome {
            self.layout = Some(Layout::of_welcome(&packet, self.entry.fabric()));
        }
        self.entry.send(&packet, carry, self.layout);
    }

    fn expect(&mut self, kind: Kind) {
        let packet = self.entry.receive(self.layout);
        assert_eq!(packet[10], kind as u8, "{}", String::from_utf8_lossy(&packet[64..]));
        if kind == Kind::Welcome {
            self.layout = Some(Layout::of_welcome(&packet, self.entry.fabric()));
        }
    }

    fn meet(&mut self, wishes: &[Patch]) {
        match self.role {
            Role::Connects => {
                self.step(Step::Connect);
                self.send(Kind::Hello, wishes, Carry::Nothing);
                self.expect(Kind::Welcome);
                let carry = self.layout.map_or(Carry::Segment, segment_for);
                self.send(Kind::Grant, &[], carry);
                self.expect(Kind::Ready);
            }
            Role::Listens => {
                self.step(Step::Accept);
                self.expect(Kind::Hello);
                let welcome = packet(self.entry.fabric(), Kind::Welcome, wishes);
                let carry = segment_for(Layout::of_welcome(&welcome, self.entry.fabric()));
                self.send(Kind::Welcome, wishes, carry);
                self.expect(Kind::Grant);
                self.send(Kind::Ready, &[], Carry::Nothing);
            }
        }
    }

    /// Length of the next message of the warm-up (wire.md 6.7).
    fn warm_bytes(&mut self) -> Option<usize> {
        let Layout { block_bytes, blocks, .. } = self.wire().layout();
        let ring = block_bytes * blocks;
        let long = C0.min(ring / 4);
        let many = match self.entry.fabric() {
            Fabric::Shm => {
                [2, (ring / long + 2).min(STEP_MAX), (blocks + 2).min(STEP_MAX), (blocks + 2).min(STEP_MAX)]
            }
            Fabric::Rdma => [1, 8, 4, 4],
        };
        // Nothing longer than the base has room for.
        let skipped = usize::from(self.wire().layout().is_on_demand());
        let steps = [2 * C0, long, long.min(1024), 8].into_iter().zip(many).skip(skipped);
        let mut left = self.warmed;
        for (bytes, many) in steps {
            if left < many {
                return Some(bytes);
            }
            left -= many;
        }
        None
    }

    /// One exchange of the warm-up.
    fn warm(&mut self) {
        let bytes = self.warm_bytes().unwrap();
        self.warmed += 1;
        let (role, wire) = (self.role, self.wire());
        if role == Role::Connects {
            wire.message(0, bytes);
        }
        while !wire.take_chunk() {}
        if role == Role::Listens {
            wire.message(0, bytes);
        }
    }
}

/// Returns the segment for a connection with this first landing buffer (wire.md 6.4).
fn segment_for(layout: Layout) -> Carry {
    if layout.is_on_demand() { Carry::Sparse } else { Carry::Segment }
}
