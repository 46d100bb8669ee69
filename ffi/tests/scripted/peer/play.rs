//! Plays a script.

use core::time::Duration;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::thread;

use super::descriptors::{bequeath, carried, hold, register_membarrier, tamper};
use super::floods::flood;
use super::memory::Memory;
use super::packets::{Layout, PACKET_BYTES, packet};
use super::process::{say_cue, say_heard, say_listens};
use super::script::{Carry, Kind, Of, Patch, Role, Step};
use super::wire::Wire;
use super::{PATIENCE, socket, wait};

/// C0 of shared memory (wire.md 4.5).
const C0: usize = 64 << 10;
/// Most messages of a step of the warm-up (wire.md 6.7).
const STEP_MAX: usize = 64;

/// What the peer has come to.
pub(super) struct Player {
    role: Role,
    path: PathBuf,
    listener: Option<OwnedFd>,
    /// Stay open; the last is the one that is used.
    sockets: Vec<OwnedFd>,
    layout: Option<Layout>,
    mine: Option<Memory>,
    theirs: Option<Memory>,
    /// Descriptors of both.
    segments: Vec<OwnedFd>,
    wire: Option<Wire>,
    /// Exchanges of the warm-up that are done.
    warmed: usize,
}

impl Player {
    pub(super) fn new(role: Role, path: PathBuf) -> Self {
        register_membarrier();
        let listener = (role == Role::Listens).then(|| socket::listen(&path));
        if listener.is_some() {
            say_listens();
        }
        Self {
            role,
            path,
            listener,
            sockets: vec![],
            layout: None,
            mine: None,
            theirs: None,
            segments: vec![],
            wire: None,
            warmed: 0,
        }
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
            Step::Connect => self.sockets.push(socket::connect(&self.path)),
            Step::Accept => self.sockets.push(socket::accept(self.listener.as_ref().unwrap())),
            Step::AcceptAndClose => loop {
                drop(socket::accept(self.listener.as_ref().unwrap()));
            },
            Step::Send(kind, patches, carry) => self.send(kind, patches, carry),
            Step::Raw(bytes, carry) => self.send_bytes(bytes, carry),
            Step::Huge(bytes) => self.send_bytes(&vec![7; bytes], Carry::Nothing),
            Step::Wakes(many, pause_ms) => {
                for _ in 0..many {
                    // Refused, it has seen enough of them.
                    let _ = socket::send(self.socket(), b"W", &[], 0);
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
                self.sockets.clear();
                if let Some(wire) = &mut self.wire {
                    wire.close_socket();
                }
            }
            Step::Tamper => self.segments.iter().for_each(tamper),
            Step::Bequeath => bequeath(),
            // SAFETY: the call takes integers only.
            Step::Die => unsafe {
                libc::kill(libc::getpid(), libc::SIGKILL);
            },
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
            Step::Notice => wire.notice(),
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
            Step::HearLife => {
                let before = wire.life_seen();
                wait("a sign of life", || (wire.life_seen() != before).then_some(()));
                say_heard();
            }
            _ => unreachable!("done in `step`"),
        }
    }

    fn socket(&self) -> &OwnedFd {
        self.sockets.last().unwrap()
    }

    fn wire(&mut self) -> &mut Wire {
        if self.wire.is_none() {
            let socket = self.socket().try_clone().unwrap();
            let wire = Wire::new(socket, self.mine.unwrap(), self.theirs.unwrap(), self.layout.unwrap());
            self.wire = Some(wire);
        }
        self.wire.as_mut().unwrap()
    }

    fn send(&mut self, kind: Kind, patches: &[Patch], carry: Carry) {
        let packet = packet(kind, patches);
        if kind == Kind::Welcome {
            self.layout = Some(Layout::of_welcome(&packet));
        }
        self.send_bytes(&packet, carry);
    }

    fn send_bytes(&mut self, bytes: &[u8], carry: Carry) {
        let segment_bytes = self.layout.map_or(1 << 20, Layout::segment_bytes);
        let fds = carried(carry, segment_bytes);
        if matches!(carry, Carry::Segment | Carry::Holed) {
            self.mine = Some(Memory::map(&fds[0], segment_bytes));
        }
        let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        // Refused where the other end has closed, and then its result tells.
        let _ = socket::send(self.socket(), bytes, &numbers, 0);
        self.segments.extend(fds);
    }

    fn expect(&mut self, kind: Kind) {
        let mut packet = [0; PACKET_BYTES];
        let (bytes, fd) = socket::receive(self.socket(), &mut packet).unwrap();
        assert_eq!(
            (bytes, packet[10]),
            (PACKET_BYTES, kind as u8),
            "{}",
            String::from_utf8_lossy(&packet[64..])
        );
        if kind == Kind::Welcome {
            self.layout = Some(Layout::of_welcome(&packet));
        }
        if let Some(fd) = fd {
            self.theirs = Some(Memory::map(&fd, self.layout.unwrap().segment_bytes()));
            hold(&fd);
            self.segments.push(fd);
        }
    }

    fn meet(&mut self, wishes: &[Patch]) {
        match self.role {
            Role::Connects => {
                self.step(Step::Connect);
                self.send(Kind::Hello, wishes, Carry::Nothing);
                self.expect(Kind::Welcome);
                self.send(Kind::Grant, &[], Carry::Segment);
                self.expect(Kind::Ready);
            }
            Role::Listens => {
                self.step(Step::Accept);
                self.expect(Kind::Hello);
                self.send(Kind::Welcome, wishes, Carry::Segment);
                self.expect(Kind::Grant);
                self.send(Kind::Ready, &[], Carry::Nothing);
            }
        }
    }

    /// Length of the next message of the warm-up (wire.md 6.7).
    fn warm_bytes(&mut self) -> Option<usize> {
        let Layout { block_bytes, blocks } = self.wire().layout();
        let ring = block_bytes * blocks;
        let long = C0.min(ring / 4);
        let steps = [
            (2 * C0, 2),
            (long, (ring / long + 2).min(STEP_MAX)),
            (long.min(1024), (blocks + 2).min(STEP_MAX)),
            (8, (blocks + 2).min(STEP_MAX)),
        ];
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
