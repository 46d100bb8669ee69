//! Pinning: each process stays on its own core.

use core::mem;
use core::str::FromStr;

use crate::failure::Failure;

/// Two different cores: the measuring process's and the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// where the measuring process runs
    pub client: usize,
    /// where the other process runs
    pub server: usize,
}

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(|part| part.trim().parse::<usize>()).collect::<Result<Vec<_>, _>>();
        match parts.as_deref() {
            Ok(&[client, server]) if client != server => Ok(Self { client, server }),
            Ok(_) | Err(_) => Err(format!("'{text}' is not two different core numbers, such as 0,1")),
        }
    }
}

/// Keeps the calling thread on `core`.
///
/// # Errors
/// [`Failure::Usage`] if the core does not exist or is not allowed to this process.
pub fn pin_to(core: usize) -> Result<(), Failure> {
    if core >= size_of::<libc::cpu_set_t>() * 8 {
        return Err(Failure::Usage(format!("core {core} is beyond what the kernel's set can name")));
    }
    // SAFETY: a cpu_set_t is an array of integers, for which zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `core` is inside the set, checked above.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: `set` lives through the call and has the size named; 0 is the calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } {
        0 => Ok(()),
        _ => Err(Failure::Usage(format!(
            "core {core} does not exist or is not allowed: see /proc/self/status"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::Cores;

    #[test]
    fn cores_are_two_different_numbers() {
        assert_eq!("3, 1".parse(), Ok(Cores { client: 3, server: 1 }));
        for wrong in ["", "0", "1,1", "0,1,2", "a,b", "0,-1"] {
            assert!(wrong.parse::<Cores>().is_err(), "{wrong}");
        }
    }
}
