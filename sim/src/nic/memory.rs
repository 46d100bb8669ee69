//! Registered memory and its permissions.

use core::fmt;

use super::World;
use crate::faults::Fault;

/// Key of an MR: its lkey and rkey. Keys are never reused, so that the key of a deregistered MR names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Host of the MR.
    pub node: usize,
    /// Index at the host.
    pub index: usize,
}

impl Key {
    /// Returns a key of this host that names nothing.
    pub(crate) const fn void(node: usize) -> Self {
        Self { node, index: usize::MAX }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            usize::MAX => write!(f, "mr{}.void", self.node),
            index => write!(f, "mr{}.{index}", self.node),
        }
    }
}

/// Permissions of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// RDMA writes (IBV_ACCESS_REMOTE_WRITE).
    pub remote_write: bool,
}

pub(super) struct Mr {
    rights: Rights,
    bytes: Vec<u8>,
}

/// The bytes are outside of every MR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAccess {
    /// Key of the access.
    pub key: Key,
    /// Offset of the access.
    pub at: u32,
    /// Bytes of the access.
    pub bytes: u32,
}

impl fmt::Display for BadAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, at, bytes } = self;
        write!(
            f,
            "{bytes} bytes at {at} of {key} are not registered; name an MR that lives, inside its length"
        )
    }
}

/// Memory could not be registered (ibv_reg_mr(3), ENOMEM).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRegistered {
    /// Bytes of the registration.
    pub bytes: u32,
}

impl fmt::Display for NotRegistered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes could not be registered; raise RLIMIT_MEMLOCK", self.bytes)
    }
}

impl World {
    /// Registers new memory, all zero. It takes T_reg of this host's CPU, and page faults unless the memory is resident.
    ///
    /// # Errors
    /// [`NotRegistered`], if the fault strikes.
    pub fn register(
        &mut self,
        node: usize,
        bytes: u32,
        rights: Rights,
        resident: bool,
    ) -> Result<Key, NotRegistered> {
        self.spend(node, self.profile.registration_ns(u64::from(bytes), resident));
        if self.strikes(Fault::FailedRegistration) {
            return Err(NotRegistered { bytes });
        }
        Ok(self.register_aside(node, bytes, rights))
    }

    /// Registers an MR by a helper, which takes no time of the CPU.
    pub(crate) fn register_aside(&mut self, node: usize, bytes: u32, rights: Rights) -> Key {
        let mrs = &mut self.nodes[node].mrs;
        mrs.push(Some(Mr { rights, bytes: vec![0; bytes as usize] }));
        Key { node, index: mrs.len() - 1 }
    }

    /// Deregisters an MR by a helper.
    pub(crate) fn deregister_aside(&mut self, key: Key) {
        self.nodes[key.node].mrs[key.index] = None;
    }

    /// Returns the number of MRs of this host.
    #[must_use]
    pub fn registered(&self, node: usize) -> usize {
        self.nodes[node].mrs.iter().flatten().count()
    }

    /// Deregisters an MR. Whatever arrives for it from now on fails.
    pub fn deregister(&mut self, key: Key) {
        let bytes = self.whole(key).len() as u64;
        self.spend(key.node, self.profile.deregistration_ns(bytes));
        self.deregister_aside(key);
    }

    /// Returns bytes of an MR as its host sees them.
    ///
    /// # Errors
    /// [`BadAccess`] if they are outside of the MR.
    pub fn bytes(&self, key: Key, at: u32, bytes: u32) -> Result<&[u8], BadAccess> {
        let mr = self.nodes.get(key.node).and_then(|node| node.mrs.get(key.index)?.as_ref());
        mr.and_then(|mr| mr.bytes.get(at as usize..)?.get(..bytes as usize)).ok_or(BadAccess {
            key,
            at,
            bytes,
        })
    }

    /// Returns the bytes for writing.
    ///
    /// # Errors
    /// [`BadAccess`] if they are outside of the MR.
    pub fn bytes_mut(&mut self, key: Key, at: u32, bytes: u32) -> Result<&mut [u8], BadAccess> {
        let mr = self.nodes.get_mut(key.node).and_then(|node| node.mrs.get_mut(key.index)?.as_mut());
        let bytes_mut = mr.and_then(|mr| mr.bytes.get_mut(at as usize..)?.get_mut(..bytes as usize));
        bytes_mut.ok_or(BadAccess { key, at, bytes })
    }

    /// Returns all bytes of an MR, none if it is gone.
    pub(crate) fn whole(&self, key: Key) -> &[u8] {
        let mr = self.nodes.get(key.node).and_then(|node| node.mrs.get(key.index)?.as_ref());
        mr.map_or(&[], |mr| &mr.bytes)
    }

    /// Returns true if a peer may write there.
    pub(super) fn may_write(&self, key: Key, at: u32, bytes: u32) -> bool {
        let mr = self.nodes.get(key.node).and_then(|node| node.mrs.get(key.index)?.as_ref());
        mr.is_some_and(|mr| mr.rights.remote_write) && self.bytes(key, at, bytes).is_ok()
    }
}
