//! Memory policies of the kernel: which node the pages of a mapping come from. mbind(2), get_mempolicy(2).
//!
//! By libc's `syscall`: rustix has neither call, and libnuma is not needed for two system calls. A policy is a preference: where the node has no
//! free memory, pages come from the nearest one that has. It takes effect for pages that are not there yet. The policy of a shared file holds for
//! all processes that map it.

use super::error::OsError;
use super::map::Mapping;
use core::ffi::{c_int, c_long, c_ulong};
use core::ptr;

/// Most nodes that Linux is built for (MAX_NUMNODES).
const NODES_MAX: u32 = 1024;
const WORD_BITS: u32 = c_ulong::BITS;
const WORDS: usize = (NODES_MAX / WORD_BITS) as usize;
// Modes and flags of linux/mempolicy.h.
const MPOL_DEFAULT: c_int = 0;
const MPOL_PREFERRED: c_ulong = 1;
const MPOL_LOCAL: c_int = 4;
const MPOL_F_NODE: c_ulong = 1;
const MPOL_F_ADDR: c_ulong = 2;

impl Mapping {
    /// Has the pages of this mapping that are not there yet come from a memory node. The process's own policy holds for it no more.
    ///
    /// # Errors
    /// There is no such node, this process may not use it, or a sandbox forbids the call.
    pub fn prefer_node(&self, node: u32) -> Result<(), OsError> {
        let doing = || format!("cannot place memory on node {node}");
        let Some(mask) = mask_of(node) else { return Err(OsError::new(libc::EINVAL, doing())) };
        assert!(self.is_here(), "a child of fork does not have the mapping");
        let (start, bytes) = (self.as_ptr().as_ptr(), self.len() as c_ulong);
        // The kernel takes one less than `maxnode` bits.
        let bits = c_ulong::from(NODES_MAX) + 1;
        // SAFETY: the range is this mapping's own, and a policy changes no byte; the mask has as many bits as the kernel reads.
        let result: c_long = unsafe {
            libc::syscall(libc::SYS_mbind, start, bytes, MPOL_PREFERRED, mask.as_ptr(), bits, 0 as c_ulong)
        };
        if result == 0 { Ok(()) } else { Err(remedied(OsError::last(doing()))) }
    }

    /// Returns the node of the page at an offset, which becomes resident by that. None if the kernel does not tell.
    ///
    /// # Panics
    /// The offset is outside.
    #[must_use]
    pub fn node_at(&self, offset: usize) -> Option<u32> {
        assert!(offset < self.len() && self.is_here(), "the offset is inside");
        let address = self.as_ptr().as_ptr().wrapping_add(offset);
        let mut node: c_int = -1;
        // SAFETY: the pointer is to a local; no mask is asked for; the kernel reads the page at an address of this mapping, and changes no byte.
        let result: c_long = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut node,
                ptr::null_mut::<c_ulong>(),
                0 as c_ulong,
                address,
                MPOL_F_NODE | MPOL_F_ADDR,
            )
        };
        if result == 0 { u32::try_from(node).ok() } else { None }
    }
}

#[cfg(test)]
impl Mapping {
    /// Returns the node that pages of this mapping are to come from, if a policy says so.
    pub(crate) fn preferred_node(&self) -> Option<u32> {
        preferred_node_at(self.as_ptr().as_ptr())
    }
}

/// Returns the node that the page at an address is to come from, if a policy says so.
#[cfg(test)]
pub(crate) fn preferred_node_at(address: *const u8) -> Option<u32> {
    let mut mode: c_int = -1;
    let mut mask: [c_ulong; WORDS] = [0; WORDS];
    // SAFETY: the pointers are to locals, of which the mask has as many bits as the kernel writes; it looks the address up, and accesses no byte
    // there.
    let result: c_long = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            mask.as_mut_ptr(),
            c_ulong::from(NODES_MAX),
            address,
            MPOL_F_ADDR,
        )
    };
    let word = mask.iter().position(|word| *word != 0)?;
    let node = u32::try_from(word).ok()? * WORD_BITS + mask[word].trailing_zeros();
    (result == 0 && c_ulong::try_from(mode) == Ok(MPOL_PREFERRED)).then_some(node)
}

/// Returns true if the calling thread has a policy that somebody has chosen, such as numactl.
pub(crate) fn thread_has_policy() -> bool {
    let mut mode: c_int = MPOL_DEFAULT;
    // SAFETY: the pointer is to a local; neither a mask nor an address is asked for.
    let result: c_long = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            ptr::null_mut::<c_ulong>(),
            0 as c_ulong,
            ptr::null_mut::<u8>(),
            0 as c_ulong,
        )
    };
    result == 0 && mode != MPOL_DEFAULT && mode != MPOL_LOCAL
}

fn mask_of(node: u32) -> Option<[c_ulong; WORDS]> {
    let mut mask = [0; WORDS];
    *mask.get_mut((node / WORD_BITS) as usize)? = 1 << (node % WORD_BITS);
    Some(mask)
}

fn remedied(error: OsError) -> OsError {
    let remedy = match error.errno() {
        libc::EPERM => "give the container CAP_SYS_NICE, or start the process by numactl instead",
        libc::EINVAL => "name a node that the process may use (Mems_allowed_list in /proc/self/status)",
        libc::ENOSYS => "use a kernel with NUMA, or leave the node out",
        _ => return error,
    };
    error.with_remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::numa::Nodes;

    #[test]
    fn pages_come_from_the_node_that_is_preferred() {
        for node in Nodes::of_machine().with_memory() {
            let mapping = Mapping::anonymous(4 << 20).unwrap();
            match mapping.prefer_node(node) {
                // A sandbox, or a cpuset.
                Err(error) if [libc::EPERM, libc::ENOSYS, libc::EINVAL].contains(&error.errno()) => {
                    eprintln!("skipped: {error}");
                    continue;
                }
                preferred => preferred.unwrap(),
            }
            assert_eq!(mapping.preferred_node(), Some(node));
            mapping.populate().unwrap();
            for offset in [0, 4096, mapping.len() - 1] {
                assert_eq!(mapping.node_at(offset), Some(node), "{offset}");
            }
        }
    }

    #[test]
    fn memory_has_no_policy_before() {
        assert_eq!(Mapping::anonymous(4096).unwrap().preferred_node(), None);
    }

    #[test]
    fn nodes_that_do_not_exist_are_refused() {
        let mapping = Mapping::anonymous(4096).unwrap();
        for node in [1023, 1024, u32::MAX] {
            let error = mapping.prefer_node(node).unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("cannot place memory on node {node}: ")),
                "{error}"
            );
        }
    }

    #[test]
    fn masks_have_one_bit() {
        assert_eq!(mask_of(0).unwrap()[0], 1);
        assert_eq!(mask_of(65).unwrap()[..2], [0, 2]);
        assert_eq!(mask_of(1023).unwrap()[WORDS - 1], 1 << 63);
        assert_eq!(mask_of(1024), None);
    }
}
