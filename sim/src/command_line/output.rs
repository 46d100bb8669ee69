//! Atomic output files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes a temporary file, and renames it to `path` once it is complete. Writes directly to what is not a regular file, such as a pipe.
///
/// # Errors
/// If the file cannot be written. Then the old file stays, and no temporary file is left.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return fs::write(path, text);
    }
    let Some(name) = path.file_name() else {
        return Err(io::Error::other("it has no name; name a file"));
    };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    let hidden = path.with_file_name(hidden);
    let written =
        File::create_new(&hidden)?.write_all(text.as_bytes()).and_then(|()| fs::rename(&hidden, path));
    if written.is_err() {
        // The error of the write is reported, not this one.
        let _ = fs::remove_file(&hidden);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::write;
    use std::fs;

    #[test]
    fn a_file_is_written_completely_or_not_at_all() {
        let directory = std::env::temp_dir().join(format!("superpipe-sim-output-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let file = directory.join("file");
        write(&file, "old").unwrap();
        write(&file, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing else is left");
        assert!(write(&directory, "a directory").is_err());
        assert!(write(&directory.join("missing/file"), "nowhere").is_err());
        assert!(write("/".as_ref(), "no name").is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
