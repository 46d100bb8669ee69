//! Random bytes from the kernel, for nonces, and to keep those apart who begin at the same time.

use super::error::{OsError, retry};

/// `N` bytes that nobody can predict. Waits, right after boot only, until the kernel's pool is ready.
///
/// # Errors
/// Where the kernel, or a seccomp filter, refuses getrandom.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], OsError> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let rest = &mut bytes[filled..];
        // SAFETY: the pointer and length are those of `rest`, which is ours to write.
        let got = retry(|| unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) });
        match usize::try_from(got) {
            Ok(got) => filled += got,
            Err(_) => return Err(OsError::last("cannot get random bytes from the kernel")),
        }
    }
    Ok(bytes)
}

/// A random number below `limit`; 0 where the limit is, or the kernel gives none.
#[must_use]
pub fn random_below(limit: u64) -> u64 {
    let drawn = random_bytes().map_or(0, u64::from_ne_bytes);
    drawn.checked_rem(limit).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_stays_below_and_differs() {
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
