//! Set-up of a connection by the peer over shared memory (wire.md 6).

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use super::descriptors::{bequeath, carried, hold, punch, register_membarrier, tamper};
use super::entry::Entry;
use super::link::{Link, Shared};
use super::memory::Memory;
use super::packets::{Fabric, Layout, PACKET_BYTES};
use super::script::{Carry, Role, Step};
use super::socket;

/// Sockets and segments.
pub(super) struct Sockets {
    path: PathBuf,
    listener: Option<OwnedFd>,
    /// Stay open; the last is the one that is used.
    sockets: Vec<OwnedFd>,
    mine: Option<Memory>,
    theirs: Option<Memory>,
    /// Descriptors of both.
    segments: Vec<OwnedFd>,
}

impl Sockets {
    pub(super) fn new(role: Role, path: PathBuf) -> Self {
        register_membarrier();
        let listener = (role == Role::Listens).then(|| socket::listen(&path));
        Self { path, listener, sockets: vec![], mine: None, theirs: None, segments: vec![] }
    }

    fn socket(&self) -> &OwnedFd {
        self.sockets.last().unwrap()
    }

    fn listener(&self) -> &OwnedFd {
        self.listener.as_ref().unwrap()
    }
}

impl Entry for Sockets {
    fn fabric(&self) -> Fabric {
        Fabric::Shm
    }

    fn connect(&mut self) {
        self.sockets.push(socket::connect(&self.path));
    }

    fn accept(&mut self) {
        self.sockets.push(socket::accept(self.listener()));
    }

    fn accept_and_close(&mut self) {
        drop(socket::accept(self.listener()));
    }

    fn send(&mut self, bytes: &[u8], carry: Carry, layout: Option<Layout>) {
        let segment_bytes = layout.map_or(1 << 20, Layout::segment_bytes);
        let fds = carried(carry, segment_bytes);
        if matches!(carry, Carry::Segment | Carry::Sparse | Carry::Holed) {
            self.mine = Some(Memory::map(&fds[0], segment_bytes));
        }
        let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        // Refused where the other end has closed, and then its result tells.
        let _ = socket::send(self.socket(), bytes, &numbers, 0);
        self.segments.extend(fds);
    }

    fn receive(&mut self, layout: Option<Layout>) -> [u8; PACKET_BYTES] {
        let mut packet = [0; PACKET_BYTES];
        let (bytes, fd) = socket::receive(self.socket(), &mut packet).unwrap();
        assert_eq!(bytes, PACKET_BYTES);
        if let Some(fd) = fd {
            let layout = layout.unwrap_or_else(|| Layout::of_welcome(&packet, Fabric::Shm));
            self.theirs = Some(Memory::map(&fd, layout.segment_bytes()));
            hold(&fd);
            self.segments.push(fd);
        }
        packet
    }

    fn wake(&mut self) {
        // Refused, it has seen enough of them.
        let _ = socket::send(self.socket(), b"W", &[], 0);
    }

    fn close(&mut self) {
        self.sockets.clear();
    }

    fn link(&mut self) -> Box<dyn Link> {
        let socket = self.socket().try_clone().unwrap();
        Box::new(Shared::new(socket, self.mine.unwrap(), self.theirs.unwrap()))
    }

    fn own_step(&mut self, step: Step) {
        match step {
            Step::Tamper => self.segments.iter().for_each(tamper),
            Step::Punch => self.segments.iter().for_each(punch),
            Step::Bequeath => bequeath(),
            _ => unreachable!("a step of another fabric: {step:?}"),
        }
    }
}
