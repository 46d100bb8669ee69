//! Check that the arguments of one command name different files. Two that name the same file are rejected before anything is
//! opened: the tool would mix the data of the two.

use crate::exit::{Code, Failure};
use crate::files::descriptor::{is_dash, own_descriptor};
use crate::files::links::{links, parent};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// A file, and the argument that names it.
#[derive(Debug, Clone, Copy)]
pub struct NamedFile<'a> {
    /// The argument: "FILE", "--json"
    argument: &'static str,
    location: Location<'a>,
    is_written: bool,
    /// True for a table or messages: lines for people, which may be interleaved
    is_for_people: bool,
}

#[derive(Debug, Clone, Copy)]
enum Location<'a> {
    Path(&'a Path),
    /// 0, 1 or 2
    Standard(RawFd),
}

/// Identity of an existing file, or of the name at which a file will be created.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Identity {
    Node {
        dev: u64,
        ino: u64,
    },
    /// A block device, which may have several nodes
    Block {
        rdev: u64,
    },
    Coming {
        dev: u64,
        ino: u64,
        name: OsString,
    },
}

/// Properties of a named file.
#[derive(Debug)]
struct Found {
    /// None if it may be shared, or cannot be inspected
    identity: Option<Identity>,
    /// True for a socket, whose input and output are separate
    is_socket: bool,
    /// The descriptor that the argument names
    number: Option<RawFd>,
}

impl<'a> NamedFile<'a> {
    /// Creates the entry of a file that is read; `-` is standard input.
    #[must_use]
    pub fn read(argument: &'static str, path: &'a Path) -> Self {
        Self { argument, location: Location::of(path, 0), is_written: false, is_for_people: false }
    }

    /// Creates the entry of a file that is written; `-` is the descriptor `standard`.
    #[must_use]
    pub fn written(argument: &'static str, path: &'a Path, standard: RawFd) -> Self {
        Self { argument, location: Location::of(path, standard), is_written: true, is_for_people: false }
    }

    /// Creates the entry of the table on standard output.
    #[must_use]
    pub const fn table() -> Self {
        Self { argument: "the table", location: Location::Standard(1), is_written: true, is_for_people: true }
    }

    /// Creates the entry of the messages on standard error.
    #[must_use]
    pub const fn messages() -> Self {
        Self { argument: "messages", location: Location::Standard(2), is_written: true, is_for_people: true }
    }

    fn description(&self) -> String {
        let Self { argument, location, .. } = self;
        match location {
            Location::Path(path) => format!("{argument} ({})", path.display()),
            Location::Standard(0) => format!("{argument} (standard input)"),
            Location::Standard(1) => format!("{argument} (standard output)"),
            Location::Standard(_) => format!("{argument} (standard error)"),
        }
    }

    fn found(&self) -> Found {
        let (metadata, number) = match self.location {
            Location::Path(path) => (fs::metadata(path), own_descriptor(path)),
            Location::Standard(fd) => (standard(fd), Some(fd)),
        };
        let identity = match (&metadata, self.location) {
            (Ok(metadata), _) => Identity::of(metadata),
            (Err(error), Location::Path(path)) if error.kind() == io::ErrorKind::NotFound => {
                Identity::coming(path)
            }
            _ => None,
        };
        let is_socket = metadata.is_ok_and(|metadata| metadata.file_type().is_socket());
        Found { identity, is_socket, number }
    }
}

impl<'a> Location<'a> {
    fn of(path: &'a Path, standard: RawFd) -> Self {
        if is_dash(path) { Self::Standard(standard) } else { Self::Path(path) }
    }
}

impl Identity {
    /// Returns the identity of a file; None for a character device (/dev/null, a terminal), which can be shared without loss.
    fn of(metadata: &Metadata) -> Option<Self> {
        let kind = metadata.file_type();
        if kind.is_char_device() {
            None
        } else if kind.is_block_device() {
            Some(Self::Block { rdev: metadata.rdev() })
        } else {
            Some(Self::Node { dev: metadata.dev(), ino: metadata.ino() })
        }
    }

    /// Returns the place where opening this path creates a file, links followed.
    fn coming(path: &Path) -> Option<Self> {
        let last = links(path).last()?;
        let directory = fs::metadata(parent(&last)).ok()?;
        Some(Self::Coming { dev: directory.dev(), ino: directory.ino(), name: last.file_name()?.to_owned() })
    }
}

/// Checks that no two arguments name the same file, if one of the two is written.
///
/// # Errors
/// The first two that do.
pub fn check(named: &[NamedFile<'_>]) -> Result<(), Failure> {
    let all: Vec<_> = named.iter().map(|named| (named, named.found())).collect();
    for (index, (one, found)) in all.iter().enumerate() {
        for (other, found_other) in &all[..index] {
            if are_in_conflict((one, found), (other, found_other)) {
                let remedy = if one.is_for_people {
                    "redirect the messages: 2> FILE"
                } else {
                    "name a different file for each"
                };
                let text =
                    format!("{} and {} are the same file; {remedy}", other.description(), one.description());
                return Err(Failure::new(Code::Usage, text));
            }
        }
    }
    Ok(())
}

/// Checks that data do not go to a terminal by mistake: `file` is FILE, and `-` asks for standard output.
///
/// # Errors
/// Standard output is a terminal, and there is no FILE.
pub fn check_terminal(file: Option<&Path>) -> Result<(), Failure> {
    if file.is_some() || !io::stdout().is_terminal() {
        return Ok(());
    }
    let text = "standard output is a terminal; use rrecv FILE or rrecv | tar x, or rrecv - to write data to \
                the terminal";
    Err(Failure::new(Code::Usage, text))
}

/// Returns true if two arguments name the same file and must not share it.
fn are_in_conflict(
    (one, found): (&NamedFile<'_>, &Found),
    (other, found_other): (&NamedFile<'_>, &Found),
) -> bool {
    let are_written = one.is_written && other.is_written;
    if one.is_for_people && other.is_for_people || !are_written && (one.is_for_people || other.is_for_people)
    {
        return false;
    }
    // the lines of the two would be interleaved, on a terminal as well
    if are_written && found.number.is_some() && found.number == found_other.number {
        return true;
    }
    let is_harmless = !(one.is_written || other.is_written) || (found.is_socket && !are_written);
    !is_harmless && found.identity.is_some() && found.identity == found_other.identity
}

/// Returns the metadata of a standard stream.
fn standard(fd: RawFd) -> io::Result<Metadata> {
    let owned = match fd {
        0 => io::stdin().as_fd().try_clone_to_owned(),
        1 => io::stdout().as_fd().try_clone_to_owned(),
        _ => io::stderr().as_fd().try_clone_to_owned(),
    };
    File::from(owned?).metadata()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn read_and_written(one: &Path, other: &Path) -> Result<(), Failure> {
        check(&[NamedFile::read("FILE", one), NamedFile::written("--json", other, 2)])
    }

    fn both_written(one: &Path, other: &Path) -> Result<(), Failure> {
        check(&[NamedFile::written("--csv", one, 1), NamedFile::written("--json", other, 1)])
    }

    #[test]
    fn one_file_has_many_names() {
        let dir = Scratch::new("files-names");
        fs::create_dir(dir.join("sub")).unwrap();
        fs::write(dir.join("file"), "x").unwrap();
        fs::hard_link(dir.join("file"), dir.join("hard")).unwrap();
        symlink("file", dir.join("soft")).unwrap();
        symlink("new", dir.join("dangling")).unwrap();
        symlink("sub", dir.join("way")).unwrap();
        for (one, other) in [
            ("file", "file"),
            ("file", "./file"),
            ("file", "sub/../file"),
            ("file", "hard"),
            ("soft", "hard"),
            ("new", "new"),
            ("new", "sub/..//new"),
            ("new", "dangling"),
            ("sub/new", "way/new"),
        ] {
            let failure = both_written(&dir.join(one), &dir.join(other)).unwrap_err();
            assert_eq!(failure.code, Code::Usage);
            assert!(failure.text.contains("--csv (") && failure.text.contains("--json ("), "{failure}");
            assert!(read_and_written(&dir.join(one), &dir.join(other)).is_err(), "{one} {other}");
            let path = dir.join(one);
            let read = NamedFile::read("FILE", &path);
            assert_eq!(check(&[read, read]), Ok(()));
        }
        for (one, other) in [("file", "new"), ("new", "sub/new"), ("none/x", "none/x"), ("new", "New")] {
            assert_eq!(both_written(&dir.join(one), &dir.join(other)), Ok(()), "{one} {other}");
        }
    }

    #[test]
    fn files_without_contents_may_be_shared() {
        let dir = Scratch::new("files-shared");
        let null = Path::new("/dev/null");
        assert_eq!(both_written(null, null), Ok(()));
        assert_eq!(read_and_written(null, null), Ok(()));
        let socket = dir.join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(read_and_written(&socket, &socket), Ok(()));
        assert!(both_written(&socket, &socket).is_err());
    }

    #[test]
    fn one_stream_is_not_shared() {
        let (dash, out) = (Path::new("-"), Path::new("/dev/stdout"));
        for (one, other) in [(dash, dash), (dash, out), (out, out)] {
            let failure = both_written(one, other).unwrap_err();
            assert!(failure.text.contains("the same file"), "{failure}");
        }
        let streams =
            [NamedFile::read("FILE", dash), NamedFile::written("--json", Path::new("/dev/null"), 2)];
        assert_eq!(check(&streams), Ok(()));
    }
}
