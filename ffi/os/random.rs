//! Random bytes from the kernel: for nonces, and for pauses that differ between ends that begin at the same time.

use super::error::OsError;
use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns `N` bytes that nobody can predict. Waits, right after boot only, until the kernel's pool is ready.
///
/// # Errors
/// The kernel, or a seccomp filter, refuses getrandom.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], OsError> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let got = retry_on_intr(|| getrandom(&mut bytes[filled..], GetRandomFlags::empty()));
        filled += got.map_err(|errno| OsError::of(errno, "cannot get random bytes from the kernel"))?;
    }
    Ok(bytes)
}

/// Returns a random number below `limit`; 0 if the limit is 0 or the kernel gives no random bytes.
#[must_use]
pub fn random_below(limit: u64) -> u64 {
    let drawn = random_bytes().map_or(0, u64::from_ne_bytes);
    drawn.checked_rem(limit).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_stay_below_the_limit_and_differ() {
        assert_eq!((random_below(0), random_below(1)), (0, 0));
        let drawn: Vec<u64> = (0..64).map(|_| random_below(1 << 40)).collect();
        assert!(drawn.iter().all(|it| *it < 1 << 40) && drawn.iter().any(|it| *it != drawn[0]));
    }

    #[test]
    fn two_nonces_differ() {
        let (a, b) = (random_bytes::<16>().unwrap(), random_bytes::<16>().unwrap());
        assert_ne!(a, b);
        assert_ne!(a, [0; 16]);
    }

    #[test]
    fn every_byte_is_filled() {
        let mut seen = [0_u8; 300];
        for _ in 0..8 {
            for (seen, byte) in seen.iter_mut().zip(random_bytes::<300>().unwrap()) {
                *seen |= byte;
            }
        }
        assert!(seen.iter().all(|&byte| byte != 0));
        assert_eq!(random_bytes::<0>().unwrap(), []);
    }
}
