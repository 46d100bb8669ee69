//! The limit of open descriptors.

use super::error::OsError;
use super::limits::{Resource, soft_limit};
use std::fs::File;
use std::io;

/// Returns an error if a limit keeps this process from opening `count` more files.
pub(crate) fn lack_of_descriptors(count: usize) -> Option<OsError> {
    let opened: io::Result<Vec<File>> = (0..count).map(|_| File::open("/dev/null")).collect();
    let errno = opened.err()?.raw_os_error()?;
    let remedy = remedy(errno)?;
    Some(OsError::new(errno, "cannot open what a connection needs").with_remedy(remedy))
}

/// Returns the remedy for a call that failed for lack of descriptors.
pub(crate) fn remedy(errno: i32) -> Option<String> {
    match errno {
        libc::EMFILE => Some(format!(
            "raise the limit of open files (now {}): ulimit -n, or LimitNOFILE= of its service",
            limit().map_or_else(|| "unknown".to_owned(), |limit| limit.to_string())
        )),
        libc::ENFILE => {
            Some("the machine has no more open files: raise fs.file-max, as root, with sysctl".into())
        }
        _ => None,
    }
}

/// Returns the limit of open files of this process, which is also the limit of entries in a poll.
pub(crate) fn limit() -> Option<u64> {
    soft_limit(Resource::OpenFiles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_descriptors_is_one() {
        assert_eq!(lack_of_descriptors(4), None);
        let told = remedy(libc::EMFILE).unwrap();
        assert!(
            told.starts_with(&format!("raise the limit of open files (now {})", limit().unwrap())),
            "{told}"
        );
        assert!(remedy(libc::ENFILE).unwrap().contains("fs.file-max"));
        assert_eq!(remedy(libc::ENODEV), None);
    }
}
