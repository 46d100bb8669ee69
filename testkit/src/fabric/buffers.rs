//! Memory of the applications at both ends, and its registrations.

use superpipe_core::{Buffer, DestinationClaim, Registration, RemoteClaim};

/// Distance of two buffers' addresses, so that a claim that runs over one names none.
const ADDRESS_SHIFT: u32 = 32;

/// Memory that an application has lent.
#[derive(Clone, Debug)]
struct Lent {
    side: usize,
    bytes: Vec<u8>,
}

/// A registration.
#[derive(Clone, Copy, Debug)]
struct Registered {
    buffer: usize,
    bytes: u64,
    /// The peer may write.
    is_remote: bool,
}

/// Memory of the applications at both ends. Numbers are never used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers {
    lent: Vec<Option<Lent>>,
    registered: Vec<Option<Registered>>,
}

impl Buffers {
    /// Takes memory that an application lends.
    pub(super) fn lend(&mut self, side: usize, bytes: Vec<u8>) -> Buffer {
        self.lent.push(Some(Lent { side, bytes }));
        Buffer(self.lent.len() as u64 - 1)
    }

    /// Gives memory back. Panics if it is registered.
    pub(super) fn take_back(&mut self, buffer: Buffer) -> Vec<u8> {
        let index = index(buffer.0);
        let is_registered = self.registered.iter().flatten().any(|registered| registered.buffer == index);
        assert!(!is_registered, "{buffer:?} is given back, and is registered");
        self.lent[index].take().expect("it is lent").bytes
    }

    /// Returns the bytes of memory that is lent.
    pub(super) fn bytes(&self, buffer: Buffer) -> &[u8] {
        &self.lent[index(buffer.0)].as_ref().expect("it is lent").bytes
    }

    pub(super) fn register(
        &mut self,
        side: usize,
        buffer: Buffer,
        bytes: u64,
        is_remote: bool,
    ) -> (Registration, RemoteClaim) {
        let there = self.lent[index(buffer.0)].as_ref().expect("it is lent");
        assert!(there.side == side && bytes <= there.bytes.len() as u64, "{bytes} bytes of {buffer:?}");
        self.registered.push(Some(Registered { buffer: index(buffer.0), bytes, is_remote }));
        let key = u32::try_from(self.registered.len()).expect("few registrations");
        let claim = RemoteClaim { address: buffer.0 << ADDRESS_SHIFT, key };
        (Registration(u64::from(key) - 1), claim)
    }

    pub(super) fn deregister(&mut self, registration: Registration) {
        let ended = self.registered[index(registration.0)].take();
        assert!(ended.is_some(), "{registration:?} is deregistered twice");
    }

    /// Returns true if nothing is registered.
    pub(super) fn is_idle(&self) -> bool {
        self.registered.iter().all(Option::is_none)
    }

    /// Returns bytes that the device reads. Panics if they are not registered.
    pub(super) fn source(&self, from: Registration, at: u32, bytes: u32) -> &[u8] {
        let registered = self.registered[index(from.0)].expect("the device reads what is registered");
        assert!(u64::from(at + bytes) <= registered.bytes, "{bytes} bytes at {at} of {from:?}");
        &self.bytes(Buffer(registered.buffer as u64))[at as usize..][..bytes as usize]
    }

    /// Returns bytes that the peer of `writer` lets it write, or `None` if they are not registered.
    pub(super) fn destination(
        &mut self,
        writer: usize,
        to: DestinationClaim,
        at: u32,
        bytes: u32,
    ) -> Option<&mut [u8]> {
        let registered = (*self.registered.get(index(u64::from(to.memory.key)).checked_sub(1)?)?)?;
        let base = (registered.buffer as u64) << ADDRESS_SHIFT;
        let from = to.memory.address.checked_add(u64::from(at))?.checked_sub(base)?;
        let upto = from.checked_add(u64::from(bytes))?;
        if !registered.is_remote || upto > registered.bytes {
            return None;
        }
        let lent = self.lent[registered.buffer].as_mut().filter(|lent| lent.side != writer)?;
        lent.bytes.get_mut(index(from)..index(upto))
    }

    /// Returns true if a claim names this registration.
    pub(super) fn is_of(registration: Registration, claim: DestinationClaim) -> bool {
        u64::from(claim.memory.key) == registration.0 + 1
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("an index")
}
