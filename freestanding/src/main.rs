//! superpipe's core without std, allocator and libc. Two endpoints of the default configuration, in each arrival mode of direct
//! store, move messages of all kinds both ways through static memory, and compare every byte. Exits 0, or with what failed.
#![no_std]
#![no_main]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("this program enters and leaves by x86-64 Linux system calls");

mod fabric;
mod sys;

use fabric::{MESSAGE_BYTES_MAX, Memory, Wires, layout};
use superpipe_core::{
    Arrival, Closed, Config, End, Endpoint, Event, FlagPlace, Length, Origin, Protocol, Readable, Reason,
    RefusedSend, TransferId,
};

/// Rounds after which an unfinished step counts as stuck.
const ROUNDS_MAX: u32 = 100_000;

/// Failure, whose number is the exit code.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Failed {
    Memory = 1,
    Connect = 2,
    TrySend = 3,
    Start = 4,
    Push = 5,
    Reserve = 6,
    Incoming = 7,
    Bytes = 8,
    End = 9,
    Stuck = 10,
    Cancel = 11,
    Reject = 12,
    Close = 13,
}

/// Entry point in Rust.
extern "C" fn start() -> ! {
    sys::exit(run().map_or_else(|failed| failed as u8, |()| 0))
}

fn run() -> Result<(), Failed> {
    let memory = Memory::take().ok_or(Failed::Memory)?;
    for (side, source) in memory.sources.iter_mut().enumerate() {
        let mut state = side as u64 + 1;
        for place in source.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            place.copy_from_slice(&state.to_le_bytes());
        }
    }
    for (arrival, flags, sequence) in [
        (Arrival::Flag, FlagPlace::Apart { group_blocks: 4 }, 1),
        (Arrival::Flag, FlagPlace::Inside, u64::MAX - 20),
        (Arrival::CheckedFlag, FlagPlace::Inside, u64::from(u32::MAX) - 20),
    ] {
        memory.wires.clear();
        let origin = Origin { sequence, ..Origin::default() };
        let mut pair = Pair::new(memory, Config { arrival, ..Config::default() }, flags, origin)?;
        let longest = if matches!(arrival, Arrival::Flag) { MESSAGE_BYTES_MAX } else { 1 << 18 };
        for side in 0..2 {
            pair.messages(side, longest)?;
            pair.streams(side)?;
            pair.given_up(side)?;
        }
        pair.close()?;
    }
    Ok(())
}

/// Two endpoints on one memory.
struct Pair<'a> {
    memory: &'a mut Memory,
    ends: [Endpoint<Wires>; 2],
}

impl<'a> Pair<'a> {
    fn new(memory: &'a mut Memory, config: Config, flags: FlagPlace, origin: Origin) -> Result<Self, Failed> {
        let end = |side| {
            Endpoint::new(&memory.wires, Wires::attachment(side, layout(flags)), config, origin)
                .map_err(|_| Failed::Connect)
        };
        let ends = [end(0)?, end(1)?];
        Ok(Self { memory, ends })
    }

    fn progress(&mut self) {
        for end in &mut self.ends {
            end.progress(&mut self.memory.wires);
        }
    }

    /// Exchanges messages in a line, in a chunk, vectored, and folded, by every protocol.
    fn messages(&mut self, side: usize, longest: usize) -> Result<(), Failed> {
        for (tag, bytes) in (0u64..).zip([0, 1, 8, 40, 41, 4096, 12 << 10]) {
            self.send(side, tag, bytes)?;
            self.receive(side, None, tag, Length::Exact(bytes as u64), bytes)?;
        }
        for protocol in Protocol::ALL {
            self.ends[side].set_protocol(protocol);
            for bytes in [0, 50_000, longest - 1, longest] {
                let length = Length::Exact(bytes as u64);
                let id = self.ends[side].start(bytes as u64, length).map_err(|_| Failed::Start)?;
                self.receive(side, Some(id), bytes as u64, length, bytes)?;
            }
        }
        Ok(())
    }

    /// Sends a message by one call, in three slices.
    fn send(&mut self, side: usize, tag: u64, bytes: usize) -> Result<(), Failed> {
        for _ in 0..ROUNDS_MAX {
            let (first, second) = self.memory.sources[side][..bytes].split_at(bytes / 3);
            match self.ends[side].try_send(&mut self.memory.wires, tag, &[first, &[], second]) {
                Ok(_) => return Ok(()),
                Err(RefusedSend::NoCredit | RefusedSend::Busy) => self.progress(),
                Err(_) => return Err(Failed::TrySend),
            }
        }
        Err(Failed::Stuck)
    }

    /// Receives a transfer of `side`, and sends it meanwhile unless it was sent completely before.
    fn receive(
        &mut self,
        side: usize,
        id: Option<TransferId>,
        tag: u64,
        length: Length,
        bytes: usize,
    ) -> Result<(), Failed> {
        let peer = 1 - side;
        let (mut sent, mut received, mut is_begun) = (0, 0, false);
        for _ in 0..ROUNDS_MAX {
            if let Some(id) = id {
                let (head, tail) = self.memory.sources[side][sent..bytes].split_at((bytes - sent) / 2);
                match self.ends[side].push(&mut self.memory.wires, id, &[head, tail]) {
                    Ok(pushed) => sent += pushed,
                    Err(RefusedSend::NotOpen) if sent == bytes => {}
                    Err(_) => return Err(Failed::Push),
                }
            }
            if !is_begun && let Some(incoming) = self.ends[peer].incoming(&mut self.memory.wires) {
                if incoming.tag != tag || incoming.length != length {
                    return Err(Failed::Incoming);
                }
                is_begun = true;
            }
            if is_begun {
                let place = &mut self.memory.destination[received..bytes];
                let pulled = self.ends[peer].pull(&mut self.memory.wires, &mut [place]);
                received += pulled.bytes;
                match pulled.end {
                    End::No => {}
                    End::Cancelled(_) => return Err(Failed::End),
                    End::Fin if received != bytes => return Err(Failed::End),
                    End::Fin => return self.compare(side, bytes),
                }
            }
            self.progress();
        }
        Err(Failed::Stuck)
    }

    fn compare(&self, side: usize, bytes: usize) -> Result<(), Failed> {
        let same = self.memory.destination[..bytes] == self.memory.sources[side][..bytes];
        if same { Ok(()) } else { Err(Failed::Bytes) }
    }

    /// Exchanges a stream that is read into the blocks, and read in place.
    fn streams(&mut self, side: usize) -> Result<(), Failed> {
        let (peer, bytes) = (1 - side, 200_001);
        for protocol in Protocol::ALL {
            self.ends[side].set_protocol(protocol);
            let id = self.ends[side].start(7, Length::Stream).map_err(|_| Failed::Start)?;
            let (mut sent, mut received, mut finished) = (0, 0, false);
            for round in 0.. {
                if round == ROUNDS_MAX {
                    return Err(Failed::Stuck);
                }
                self.progress();
                if sent < bytes {
                    sent += self.read_in(side, id, sent, bytes)?;
                } else if !finished {
                    finished = self.ends[side].finish(&mut self.memory.wires, id).is_ok();
                }
                match self.ends[peer].readable(&mut self.memory.wires, 30_000) {
                    Readable::Nothing => continue,
                    Readable::Ended(End::Fin) => break,
                    Readable::Ended(_) => return Err(Failed::End),
                    Readable::Run(run) => {
                        for (at, bytes) in run.spans() {
                            let here = self.memory.wires.bytes(run.memory, at, bytes as usize);
                            self.memory.destination[received..][..bytes as usize].copy_from_slice(here);
                            received += bytes as usize;
                        }
                        if self.ends[peer].consume(&mut self.memory.wires, run.bytes) == End::Fin {
                            break;
                        }
                    }
                }
            }
            if received != bytes {
                return Err(Failed::End);
            }
            self.compare(side, bytes)?;
        }
        Ok(())
    }

    fn read_in(&mut self, side: usize, id: TransferId, sent: usize, bytes: usize) -> Result<usize, Failed> {
        let rest = u32::try_from(bytes - sent).map_err(|_| Failed::Reserve)?;
        let reservation = match self.ends[side].reserve(&mut self.memory.wires, id, rest.min(10_000)) {
            Ok(reservation) => reservation,
            Err(RefusedSend::NoCredit) => return Ok(0),
            Err(_) => return Err(Failed::Reserve),
        };
        let mut filled = sent;
        for (at, bytes) in reservation.spans() {
            let from = &self.memory.sources[side][filled..][..bytes as usize];
            self.memory.wires.bytes_mut(reservation.memory, at, bytes as usize).copy_from_slice(from);
            filled += bytes as usize;
        }
        let bytes = reservation.bytes();
        self.ends[side].commit(&mut self.memory.wires, id, bytes).map_err(|_| Failed::Reserve)?;
        Ok(bytes as usize)
    }

    /// Exchanges a transfer that the sender cancels, one that the receiver rejects, and one that completes.
    fn given_up(&mut self, side: usize) -> Result<(), Failed> {
        let peer = 1 - side;
        self.ends[side].set_protocol(Protocol::Superpipeline);
        let source = &self.memory.sources[side][..];
        let id = self.ends[side].start(1, Length::Stream).map_err(|_| Failed::Start)?;
        let pushed = self.ends[side].push(&mut self.memory.wires, id, &[source]).map_err(|_| Failed::Push)?;
        let incoming = self.ends[peer].incoming(&mut self.memory.wires);
        if pushed == 0 || incoming.is_none_or(|incoming| incoming.tag != 1) {
            return Err(Failed::Incoming);
        }
        self.ends[side].cancel(&mut self.memory.wires, id, Reason(5)).map_err(|_| Failed::Cancel)?;
        self.progress();
        let pulled = self.ends[peer].pull(&mut self.memory.wires, &mut [&mut self.memory.destination]);
        if pulled.end != End::Cancelled(Reason(5)) {
            return Err(Failed::Cancel);
        }

        let source = &self.memory.sources[side][..];
        let id = self.ends[side].start(2, Length::Stream).map_err(|_| Failed::Start)?;
        self.ends[side].push(&mut self.memory.wires, id, &[source]).map_err(|_| Failed::Push)?;
        if !self.ends[peer].reject(&mut self.memory.wires, Reason(6)) {
            return Err(Failed::Reject);
        }
        self.progress();
        let event = self.ends[side].poll_event();
        if event != Some(Event::Rejected { transfer: id.number(), reason: Reason(6) }) {
            return Err(Failed::Reject);
        }
        let pushed = self.ends[side].push(&mut self.memory.wires, id, &[&[1]]);
        if pushed != Err(RefusedSend::Rejected(Reason(6))) {
            return Err(Failed::Reject);
        }
        self.send(side, 3, 0)?;
        self.receive(side, None, 3, Length::Exact(0), 0)
    }

    /// Checks that everything was delivered, closes one end, and checks that the other reports the close.
    fn close(&mut self) -> Result<(), Failed> {
        for _ in 0..ROUNDS_MAX {
            self.progress();
            if self.ends.iter_mut().all(|end| end.poll_delivered() && end.poll_controls_delivered()) {
                self.ends[0].close(&mut self.memory.wires, Reason::DONE);
                self.progress();
                self.progress();
                let closed = [self.ends[0].closed(), self.ends[1].closed()];
                let wanted = [Some(Closed::Here(Reason::DONE)), Some(Closed::ByPeer(Reason::DONE))];
                return if closed == wanted { Ok(()) } else { Err(Failed::Close) };
            }
        }
        Err(Failed::Stuck)
    }
}
