//! Users, as the kernel names the peers of sockets and the owners of files.
//!
//! In a user namespace the kernel names all users that are not mapped there by one number, the overflow uid. Equality with that
//! number identifies nobody, neither a peer nor an owner.

use std::fs;

/// Overflow uid if /proc does not name another.
const OVERFLOW_UID: u32 = 65534;

/// Returns the effective uid of this process.
pub(crate) fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns true if this uid may stand for several users here: it is the overflow uid, and not every user is mapped into this
/// process's user namespace, or that is unknown.
pub(crate) fn is_ambiguous(uid: u32) -> bool {
    let overflow_uid = fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
    let map = || fs::read_to_string("/proc/self/uid_map").ok();
    decide(uid, overflow_uid.as_deref(), map)
}

fn decide(uid: u32, overflow_uid: Option<&str>, map: impl FnOnce() -> Option<String>) -> bool {
    let overflow_uid = overflow_uid.and_then(|text| text.trim().parse().ok()).unwrap_or(OVERFLOW_UID);
    uid == overflow_uid && !map().is_some_and(|map| maps_everyone(&map))
}

/// Returns true if this uid_map has every user in place, as outside of all user namespaces.
fn maps_everyone(map: &str) -> bool {
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "         0          0 4294967295\n";

    #[test]
    fn the_overflow_uid_is_ambiguous_unless_all_are_mapped() {
        let default = Some("65534\n");
        for (uid, overflow_uid, map, is_ambiguous) in [
            (65534, default, Some(WHOLE), false),
            (65534, default, Some(""), true),
            (65534, default, Some("         0       1000          1\n"), true),
            // a user who is mapped to this number shares it with those who are not mapped
            (65534, default, Some("     65534      65534          1\n"), true),
            (65534, default, Some("0 0 4294967294\n"), true),
            (65534, default, Some("0 0 1000\n1000 1000 4294966295\n"), true),
            (65534, default, Some("0 0 4294967295\n0 0 4294967295\n"), true),
            (65534, default, None, true),
            (65534, None, None, true),
            (65534, Some("x"), Some(""), true),
            (1000, default, Some(""), false),
            (0, default, None, false),
            (1000, Some("1000\n"), Some(""), true),
            (65534, Some("1000\n"), Some(""), false),
        ] {
            let decided = decide(uid, overflow_uid, || map.map(str::to_owned));
            assert_eq!(decided, is_ambiguous, "{uid} {overflow_uid:?} {map:?}");
        }
    }

    #[test]
    fn the_map_is_read_for_the_overflow_uid_only() {
        assert!(!decide(0, Some("65534"), || panic!("read")));
    }
}
