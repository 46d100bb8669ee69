//! Connects: many at once, and one beside clients that say nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use superpipe::{
    Address, Connection, LandingMode, PollEvent, PollEvents, Poller, PollerOptions, TryRecv, TrySend,
    WaitStrategy,
};
use superpipe_bench::connection::{DEADLINE, fail, polling};
use superpipe_bench::failure::Failure;

use super::TAG;
use super::server::{Command, encode};

const MESSAGE: [u8; 8] = *b"servedby";

pub(crate) struct Connects {
    control: Connection,
    address: Address,
}

impl Connects {
    pub(crate) const fn new(control: Connection, address: Address) -> Self {
        Self { control, address }
    }

    fn command(&mut self, count: u32) -> Result<(), Failure> {
        self.control.send(TAG, &[&encode(Command::Serve, count as usize, 0)], DEADLINE).map_err(fail)?;
        self.control.recv_into(&mut [&mut []], DEADLINE).map_err(fail)?;
        Ok(())
    }

    /// Begins so many connects, and has a message of each answered. Returns the microseconds of one.
    pub(crate) fn at_once(&mut self, count: u32) -> Result<f64, Failure> {
        self.command(count)?;
        let options =
            PollerOptions { wait: WaitStrategy::Spin, connections_max: count, ..PollerOptions::default() };
        let mut poller = Poller::new(options).map_err(fail)?;
        let mut options = polling();
        // so that a thousand have room in the budget
        options.tuning.landing = Some(LandingMode::OnDemand);
        let begin = Instant::now();
        for _ in 0..count {
            poller.connect(&self.address, options, DEADLINE).map_err(fail)?;
        }
        let mut events = PollEvents::with_capacity(256);
        let (mut answered, mut room) = (0, [0; 8]);
        while answered < count {
            poller.poll(&mut events, DEADLINE).map_err(fail)?;
            if events.is_empty() {
                return Err(Failure::Timeout(DEADLINE.as_secs()));
            }
            for event in &events {
                match event {
                    PollEvent::Connected { connection: key } => {
                        let Some(connection) = poller.connection(key) else { continue };
                        let sent = connection.try_send(TAG, &[&MESSAGE]).map_err(fail)?;
                        if sent != TrySend::Sent {
                            return Err(Failure::Integrity(format!("{sent:?}")));
                        }
                    }
                    PollEvent::Readable { connection: key } => {
                        let Some(connection) = poller.connection(key) else { continue };
                        if let TryRecv::Received(_) = connection.try_recv(&mut [&mut room]).map_err(fail)? {
                            if room != MESSAGE {
                                return Err(Failure::Integrity("the answer is another message".into()));
                            }
                            answered += 1;
                        }
                    }
                    PollEvent::ConnectFailed { connection: key, .. } => {
                        let error = poller.take_error(key);
                        return Err(error.map_or(Failure::PeerLost, fail));
                    }
                    _ => return Err(Failure::Integrity(format!("{event:?}"))),
                }
            }
        }
        Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(count))
    }

    /// Connects beside so many clients that say nothing. Returns the milliseconds until a message was answered.
    pub(crate) fn beside_mute(&mut self, mute: u32) -> Result<f64, Failure> {
        self.command(1)?;
        let Address::Shm(path) = &self.address else { return Err(Failure::Usage("not a socket".into())) };
        let mute: Vec<OwnedFd> = (0..mute).map(|_| connect_mute(path)).collect::<Result<_, _>>()?;
        let begin = Instant::now();
        let mut honest = Connection::connect(&self.address, polling(), DEADLINE).map_err(fail)?;
        let mut room = [0; 8];
        honest.send(TAG, &[&MESSAGE], DEADLINE).map_err(fail)?;
        honest.recv_into(&mut [&mut room], DEADLINE).map_err(fail)?;
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        drop(mute);
        if room == MESSAGE { Ok(ms) } else { Err(Failure::Integrity("the answer is another message".into())) }
    }
}

/// Connects, and says nothing.
fn connect_mute(path: &Path) -> Result<OwnedFd, Failure> {
    let connected = || {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(socket)
    };
    connected().map_err(|errno: rustix::io::Errno| Failure::Os("connect", io::Error::from(errno)))
}
