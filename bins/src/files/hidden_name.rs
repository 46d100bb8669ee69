//! Hidden names, `.NAME.superpipe-PID-NANOSECONDS`, of incomplete files.

use std::ffi::{OsStr, OsString};

/// Most bytes of a file's name that its hidden name repeats: a file name has at most 255 bytes.
const REPEATED_MAX: usize = 200;
/// Separator between the repeated name and the process id.
const MARK: &str = ".superpipe-";

/// Returns a new hidden name for the file that will be `name`.
pub fn hidden_name(name: &OsStr) -> OsString {
    let nanos = superpipe::os::monotonic_ns();
    format!("{}{}-{nanos:x}", prefix(name), std::process::id()).into()
}

/// Returns `.NAME.superpipe-`.
pub fn prefix(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let mut end = name.len().min(REPEATED_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!(".{}{MARK}", &name[..end])
}

/// Returns true if a name has the form of a hidden name. No file may keep such a name, because a later sweep would remove it.
#[must_use]
pub fn is_hidden_name(name: &[u8]) -> bool {
    let at = name.windows(MARK.len()).rposition(|part| part == MARK.as_bytes());
    at.is_some_and(|at| name.starts_with(b".") && is_hidden_name_of(name, &name[..at + MARK.len()]))
}

/// Returns true if a name is `prefix`, a process id, `-` and a time, as `hidden_name` writes them.
pub fn is_hidden_name_of(name: &[u8], prefix: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(prefix) else { return false };
    let mut parts = rest.splitn(2, |&byte| byte == b'-');
    let (Some(pid), Some(nanos)) = (parts.next(), parts.next()) else { return false };
    let is = |part: &[u8], digit: fn(&u8) -> bool, digits_max| {
        !part.is_empty() && part.len() <= digits_max && part.iter().all(digit)
    };
    is(pid, |byte| byte.is_ascii_digit(), 10)
        && is(nanos, |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'), 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_exact_form_are_hidden_names() {
        let prefix = prefix(OsStr::new("vic"));
        let ours = |name: &str| is_hidden_name_of(name.as_bytes(), prefix.as_bytes());
        assert!(ours(".vic.superpipe-123-1f") && ours(hidden_name(OsStr::new("vic")).to_str().unwrap()));
        for users in [
            ".vic.superpipe-notes.txt",
            ".vic.superpipe-",
            ".vic.superpipe-123",
            ".vic.superpipe-123-",
            ".vic.superpipe--1f",
            ".vic.superpipe-123-1F",
            ".vic.superpipe-123-1f.txt",
            ".vic.superpipe-123-1f-2",
            ".vic.superpipe-12x-1f",
            ".vic.superpipe-12345678901-1f",
            ".vic.superpipe-123-00112233445566778",
            ".vic2.superpipe-123-1f",
            "vic.superpipe-123-1f",
        ] {
            assert!(!ours(users), "{users}");
        }
        assert!(is_hidden_name(b".vic.superpipe-123-1f") && is_hidden_name(b"..superpipe-1-1.superpipe-2-2"));
        assert!(!is_hidden_name(b".vic.superpipe-notes.txt") && !is_hidden_name(b"vic.superpipe-123-1f"));
    }
}
