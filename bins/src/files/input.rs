//! The input of rsend: a file, a pipe or standard input.
//!
//! rsend announces the length of a file to the receiver, and sends that many bytes: no more if the file grows meanwhile, and an
//! error if it shrinks. The length of a pipe is unknown, and is not announced.

use crate::exit::{Code, Failure};
use crate::files::descriptor::{is_dash, own_descriptor};
use crate::files::preserve::{Attributes, MODE};
use crate::os::inherited::duplicate;
use crate::shell::quoted;
use rustix::fs::{FileType, fstat, fstatvfs};
use std::fs::{self, File, Metadata};
use std::io::{self, Seek};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use superpipe::io::Source;

/// Standard input.
const STDIN: RawFd = 0;

/// An open source and its name.
#[derive(Debug)]
pub struct Input {
    /// source of the bytes
    pub source: Source,
    /// "standard input", or the path
    pub name: String,
    /// path of the file that the command names, unless that is a descriptor of this process
    path: Option<PathBuf>,
    /// the file, if its length was announced
    watched: Option<Watched>,
}

/// A file, with its state when it was opened.
#[derive(Debug)]
struct Watched {
    file: File,
    path: Option<PathBuf>,
    begin: Metadata,
    announced: u64,
}

impl Input {
    /// Opens FILE, or takes standard input.
    ///
    /// # Errors
    /// The input cannot be read, or is a directory.
    pub fn open(file: Option<&Path>) -> Result<Self, Failure> {
        let path = file.filter(|path| !is_dash(path));
        let name = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
        let own = path.and_then(own_descriptor);
        let is_directory = match path {
            Some(path) => path.is_dir(),
            None => {
                duplicate(STDIN).is_ok_and(|fd| File::from(fd).metadata().is_ok_and(|found| found.is_dir()))
            }
        };
        let source = match path {
            _ if is_directory => {
                let word = path.map_or_else(|| "DIR".to_owned(), |_| quoted(&name));
                let text = format!(
                    "{name} is a directory; send its contents with tar c {word} | rsend ADDR, and unpack them with rrecv | tar x"
                );
                return Err(Failure::new(Code::Usage, text));
            }
            Some(path) if own.is_none() => Source::open(path),
            // an inherited descriptor is read from its offset; opening its path would begin at 0
            _ => duplicate(own.unwrap_or(STDIN)).and_then(Source::new),
        };
        let watched = source.and_then(|source| Ok((Watched::new(&source, path)?, source)));
        let (watched, source) =
            watched.map_err(|error| Failure::local_io(format!("cannot read {name}"), &error))?;
        let path = path.filter(|_| own.is_none()).map(Path::to_owned);
        Ok(Self { source, name, path, watched })
    }

    /// Returns the path of the file, if the command names one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the attributes that --preserve sends.
    ///
    /// # Errors
    /// The input is not a regular file, or its attributes cannot be read.
    pub fn attributes(&self) -> Result<Attributes, Failure> {
        let found = fstat(&self.source).map_err(|error| {
            Failure::local_io(format!("cannot read the attributes of {}", self.name), &error.into())
        })?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            let text = format!("--preserve: {} is not a regular file", self.name);
            return Err(Failure::new(Code::Usage, text));
        }
        Ok(Attributes {
            mode: found.st_mode & MODE,
            seconds: found.st_mtime,
            nanoseconds: u32::try_from(found.st_mtime_nsec).unwrap_or(0),
            name: self.path().and_then(Path::file_name).unwrap_or_default().to_owned(),
        })
    }

    /// Returns the number of bytes that are announced to the receiver; `None` if the length is unknown.
    #[must_use]
    pub fn announced(&self) -> Option<u64> {
        self.watched.as_ref().map(|watched| watched.announced)
    }

    /// Checks, at the end of the source, that the announced bytes were sent.
    ///
    /// # Errors
    /// The source ended before them.
    pub fn check_end(&self, sent: u64) -> Result<(), Failure> {
        match self.announced() {
            Some(announced) if sent < announced => Err(Failure::new(
                Code::LocalIo,
                format!(
                    "{} shrank while it was sent: {announced} bytes were announced, and it ended after {sent}; \
                     send it again",
                    self.name
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Returns a remark for people at both ends, if the file has changed since it was opened.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let what = self.watched.as_ref()?.what_changed()?;
        Some(format!("{} {what}", self.name))
    }
}

impl Watched {
    /// Records the state of a source of known length. Some files report a length that they do not have: the last byte of a file
    /// in /sys, for instance, cannot be read.
    fn new(source: &Source, path: Option<&Path>) -> io::Result<Option<Self>> {
        let mut file = File::from(source.as_fd().try_clone_to_owned()?);
        let begin = file.metadata()?;
        // Files in /proc report a length of 0 but are not empty. A length of 0 is trusted only on a file system with blocks.
        let is_empty =
            || begin.is_file() && begin.len() == 0 && fstatvfs(&file).is_ok_and(|system| system.f_blocks > 0);
        let Some(announced) = source.size_hint().or_else(|| is_empty().then_some(0)) else { return Ok(None) };
        let is_there = match announced.checked_sub(1) {
            Some(last) => {
                let at = file.stream_position()? + last;
                matches!(file.read_at(&mut [0], at), Ok(1))
            }
            None => true,
        };
        if !is_there && file.metadata()?.len() != begin.len() {
            return Err(io::Error::other("its length is changing; try again"));
        }
        Ok(is_there.then(|| Self { file, path: path.map(Path::to_owned), begin, announced }))
    }

    fn what_changed(&self) -> Option<String> {
        let now = self.file.metadata().ok().filter(Metadata::is_file)?;
        let written = |data: &Metadata| (data.mtime(), data.mtime_nsec(), data.len());
        let identity = |data: &Metadata| (data.dev(), data.ino());
        if now.len() > self.begin.len() {
            let (begin, now) = (self.begin.len(), now.len());
            return Some(format!(
                "grew from {begin} to {now} bytes while it was sent; only the first {begin} bytes were sent"
            ));
        }
        if written(&now) != written(&self.begin) {
            return Some(
                "was written to while it was sent; the copy may mix old and new contents".to_owned(),
            );
        }
        match fs::metadata(self.path.as_deref()?) {
            Ok(named) if identity(&named) == identity(&self.begin) => None,
            Ok(_) => Some("was replaced while it was sent; the copy is of the old file".to_owned()),
            Err(_) => {
                Some("was removed or renamed while it was sent; the copy is of the original file".to_owned())
            }
        }
    }
}
