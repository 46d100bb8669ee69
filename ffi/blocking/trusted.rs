//! Messages into trusted buffers, whose memory the peer may write: payload is copied by addresses, and no reference to that memory is made.

use std::sync::Arc;

use superpipe_core::driver::{Drive, Driver, Received};
use superpipe_core::{End, Incoming, Length, Readable, Reason};

use super::Blocking;
use super::access::DriverAccess;
use super::host_driver::HostDriver;
use super::receiving::{SHORT_BYTES, claimed, too_small};
use super::waiting::Waiting;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fabric::{HostFabric, TrustedMemory};
use crate::trusted_buf::TrustedBuf;

/// Bytes that are copied and consumed at a time, so that the sender gets its blocks back early.
const PART_BYTES: u32 = 64 << 10;
/// Parts of one attempt.
const PARTS: u32 = 4;

impl<A: DriverAccess> Blocking<A> {
    /// Receives the next message into a trusted buffer.
    pub(crate) fn recv_trusted(
        &mut self,
        buffer: &mut TrustedBuf,
        deadline: Deadline,
    ) -> Result<Received, Error> {
        let id = self.prepare(buffer)?;
        let mut receiving = Receiving::new(buffer, id);
        if deadline.is_poll() {
            return self.poll_recv_trusted(receiving);
        }
        let received = self.access().wait(deadline, |driver, fabric| receiving.drive(driver, fabric));
        let received = match received {
            Ok(received) => received?,
            Err(error) => {
                let HostDriver { driver, fabric, .. } = &mut *self.access().hold();
                receiving.give_up(driver, fabric);
                return Err(error);
            }
        };
        if A::IS_SHARED {
            self.yield_after_moving(received.bytes.min(SHORT_BYTES));
        }
        Ok(received)
    }

    /// Offers a trusted buffer for the next message. Returns true if it is offered.
    pub(crate) fn offer(&mut self, buffer: &mut TrustedBuf) -> Result<bool, Error> {
        let id = self.prepare(buffer)?;
        let HostDriver { driver, fabric, .. } = &mut *self.access().hold();
        // A first message that is here already can be offered nothing.
        if driver.try_peek(fabric).is_none() {
            fabric.offer(driver.endpoint_mut(), buffer.memory());
        }
        let is_offered = fabric.is_offered(driver.endpoint_mut(), buffer.memory());
        if is_offered {
            buffer.memory().note_offered(id);
        }
        Ok(is_offered)
    }

    /// Checks that the peer is trusted. Gives a buffer that another connection has offered new memory, so that no write of that one's peer comes into
    /// a message of this one. Returns the number of the connection.
    fn prepare(&mut self, buffer: &mut TrustedBuf) -> Result<u64, Error> {
        // Not held while memory is renewed: the other half goes on meanwhile.
        let (id, is_trusted) = {
            let HostDriver { id, options, .. } = &*self.access().hold();
            (*id, options.peer_trust.is_declared())
        };
        if !is_trusted {
            return Err(Error::new(
                ErrorKind::Usage,
                "a peer may write a trusted buffer at any time: declare that it is trusted, in Options::peer_trust",
            ));
        }
        if buffer.memory().is_offered_beside(id) {
            buffer.renew()?;
        }
        Ok(id)
    }

    /// Receives a message that is complete and fits. Otherwise returns the error of a call whose deadline is now.
    fn poll_recv_trusted(&mut self, mut receiving: Receiving<'_>) -> Result<Received, Error> {
        if let Some(mut held) = self.access().try_hold() {
            let host = &mut *held;
            let HostDriver { driver, fabric, .. } = &mut *host;
            if receiving.find(driver, fabric)?.is_none() {
                host.count_empty_try()?;
            } else if driver.is_complete(fabric) {
                loop {
                    match receiving.drive(driver, fabric) {
                        Drive::Done(received) => return received,
                        Drive::Moved => {}
                        // The message was complete. A peer that has changed it since has destroyed its own message.
                        Drive::Idle => {
                            receiving.give_up(driver, fabric);
                            break;
                        }
                    }
                }
            } else {
                host.count_try_that_left_part()?;
                host.progress();
                return Err(Error::new(
                    ErrorKind::Timeout,
                    "the message has not arrived completely: give it a deadline",
                ));
            }
        }
        // A program may call nothing but this.
        self.progress();
        Err(Error::deadline())
    }
}

/// A message that is received into a trusted buffer.
struct Receiving<'a> {
    memory: &'a Arc<TrustedMemory>,
    room: usize,
    /// Number of the connection.
    connection: u64,
    /// The message, once it has begun, and its bytes.
    begun: Option<(Incoming, u64)>,
    taken: usize,
    /// Nothing more is to be done so that the peer may write a part of the message itself.
    is_offered: bool,
}

impl<'a> Receiving<'a> {
    const fn new(buffer: &'a mut TrustedBuf, connection: u64) -> Self {
        let room = buffer.len();
        Self { memory: buffer.memory(), room, connection, begun: None, taken: 0, is_offered: false }
    }

    /// Finds the message at the head. Until it comes, offers the buffer to the peer.
    fn find<F: HostFabric>(
        &mut self,
        driver: &mut Driver<F>,
        fabric: &mut F,
    ) -> Result<Option<(Incoming, u64)>, Error> {
        if self.begun.is_some() {
            return Ok(self.begun);
        }
        let Some(incoming) = driver.try_peek(fabric) else {
            if !self.is_offered {
                self.is_offered = fabric.offer(driver.endpoint_mut(), self.memory);
                if self.is_offered && fabric.is_offered(driver.endpoint_mut(), self.memory) {
                    self.memory.note_offered(self.connection);
                }
            }
            return Ok(None);
        };
        if driver.is_claimed(&incoming) {
            return Err(claimed());
        }
        match incoming.length {
            Length::Exact(bytes) if bytes <= self.room as u64 => self.begun = Some((incoming, bytes)),
            length => return Err(too_small(length, self.room as u64)),
        }
        Ok(self.begun)
    }

    /// Takes the next parts of the message.
    fn drive<F: HostFabric>(
        &mut self,
        driver: &mut Driver<F>,
        fabric: &mut F,
    ) -> Drive<Result<Received, Error>> {
        let (incoming, length) = match self.find(driver, fabric) {
            Ok(Some(begun)) => begun,
            Ok(None) => return Drive::Idle,
            Err(error) => return Drive::Done(Err(error)),
        };
        let is_streaming = length >= driver.endpoint().config().streaming_bytes;
        let mut moved = Drive::Idle;
        for _ in 0..PARTS {
            let end = match driver.endpoint_mut().readable(fabric, PART_BYTES) {
                Readable::Nothing => return moved,
                Readable::Ended(end) => end,
                Readable::Run(run) => {
                    if self.taken == 0 {
                        // From here on no other call may take the message.
                        driver.claim(&incoming);
                    }
                    for (at, bytes) in run.spans() {
                        let source = fabric.source_of(driver.endpoint().link(), run.memory, at, bytes);
                        let bytes = bytes as usize;
                        // SAFETY: 1. The span is payload that has arrived and is not consumed, valid while the link lives. 2. No reference to
                        // memory of a fabric is ever made (`HostFabric`). 3. A peer writes into a buffer at the place that its bytes have
                        // in the message.
                        unsafe { self.memory.place(self.taken, source, bytes, is_streaming) };
                        self.taken += bytes;
                    }
                    driver.endpoint_mut().consume(fabric, run.bytes)
                }
            };
            if end != End::No {
                // An offer is over with the message that it was for.
                self.memory.note_unoffered(self.connection);
            }
            match end {
                End::No => moved = Drive::Moved,
                End::Fin => return Drive::Done(Ok(Received { tag: incoming.tag, bytes: self.taken })),
                End::Cancelled(reason) => return Drive::Done(Err(Error::cancelled(reason))),
            }
        }
        moved
    }

    /// Leaves a message at the head if nothing of it was taken. Otherwise rejects the rest.
    fn give_up<F: HostFabric>(&self, driver: &mut Driver<F>, fabric: &mut F) {
        if let Some((incoming, _)) = self.begun
            && self.taken > 0
            && driver.endpoint().head().is_some_and(|(number, _)| number == incoming.transfer)
        {
            driver.reject(fabric, Reason::GIVEN_UP);
        }
    }
}
