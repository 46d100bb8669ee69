//! The processes that publish.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::reader::Reader;
use crate::error::{Error, ErrorKind};
use crate::os::user::effective_uid;

/// Returns the numbers of this user's processes that publish their metrics, in ascending order.
///
/// It looks at the descriptors of each process of this user, which takes some milliseconds where they have many.
///
/// # Errors
/// `Os`: /proc cannot be read.
pub fn processes() -> Result<Vec<u32>, Error> {
    let listed = fs::read_dir("/proc").map_err(|error| {
        Error::new(
            ErrorKind::Os,
            format!("cannot list processes: /proc: {error}; mount it (mount -t proc proc /proc)"),
        )
    })?;
    let uid = effective_uid();
    let mut found: Vec<u32> = listed
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let is_own = entry.metadata().is_ok_and(|process| process.uid() == uid);
            // One that has ended meanwhile, or has a page that no reader knows, publishes nothing.
            (is_own && Reader::open(pid).is_ok()).then_some(pid)
        })
        .collect();
    found.sort_unstable();
    Ok(found)
}
