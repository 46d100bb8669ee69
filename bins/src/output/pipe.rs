//! Pipes that are opened and written with patience: a reader is waited for, but not for ever, and signals are looked at
//! meanwhile.
//!
//! A descriptor of others must not be made non-blocking: the flag belongs to the open file description, which they share. So a
//! pipe is polled before each write, and each write is so short that a pipe with room takes it without waiting.

use crate::exit::{Code, Failure};
use crate::quantity::shown;
use crate::session::LAST_WORDS;
use crate::signals::Signals;
use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::Instant;
use superpipe::os::poll::{PollFd, poll_now};

/// Time for the reader of a report to come, or to read on.
const READER_PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two tries while there is no reader or no room, and between two looks at the signals.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes that a pipe which is ready takes without waiting: PIPE_BUF.
const PIECE_BYTES: usize = 4096;

/// Time for a reader to open a FIFO, and the remedy that is told when it has passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    time: Duration,
    remedy: &'static str,
}

impl Patience {
    /// For the reader of a report.
    pub(crate) const REPORT: Self = Self { time: READER_PATIENCE, remedy: "start its reader first" };

    /// `--accept-timeout`, for the reader of what is received.
    pub(crate) const fn to_accept(time: Duration) -> Self {
        Self { time, remedy: "see --accept-timeout" }
    }
}

/// Opens a file for writing, by these options and without blocking. A FIFO that no process reads is tried again until one does.
/// `doing` begins the text of a failure: "cannot write to x".
///
/// # Errors
/// When it cannot be opened, no reader comes in time, or a signal does.
pub(crate) fn open(
    path: &Path,
    options: &mut OpenOptions,
    doing: &str,
    patience: Patience,
    signals: &Signals,
) -> Result<File, Failure> {
    options.write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let begin = Instant::now();
    loop {
        let error = match options.open(path) {
            Ok(file) => return Ok(file),
            Err(error) => error,
        };
        let is_fifo = || fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
        if error.raw_os_error() != Some(libc::ENXIO) || !is_fifo() {
            return Err(Failure::local_io(doing, &error));
        }
        if let Some(failure) = signals.failure() {
            return Err(failure);
        }
        if begin.elapsed() >= patience.time {
            let Patience { time, remedy } = patience;
            return Err(unread(
                doing,
                format!("no process opened the pipe for reading within {}; {remedy}", shown(time)),
            ));
        }
        thread::sleep(LOOK);
    }
}

/// Writes all of these bytes. A pipe that is full is waited for as long as its reader goes on within 10 s, and a terminal that
/// was stopped until it goes on; once a signal came, either for [`LAST_WORDS`] altogether. `doing` begins the text of a failure.
///
/// # Errors
/// When the file does not take them, or the reader of a pipe does not.
pub(crate) fn write(
    file: &mut File,
    mut bytes: &[u8],
    doing: &str,
    signals: &Signals,
) -> Result<(), Failure> {
    let is_patient = file.is_terminal();
    let (mut moved_at, mut signaled_at) = (Instant::now(), None);
    while !bytes.is_empty() {
        match write_some(file, bytes) {
            Ok(0) => return Err(Failure::local_io(doing, &ErrorKind::WriteZero.into())),
            Ok(written) => (bytes, moved_at) = (&bytes[written..], Instant::now()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if signals.failure().is_some() {
                    if signaled_at.get_or_insert_with(Instant::now).elapsed() >= LAST_WORDS {
                        let text = format!(
                            "its reader did not read all of it within {} of the signal",
                            shown(LAST_WORDS)
                        );
                        return Err(unread(doing, text));
                    }
                } else if !is_patient && moved_at.elapsed() >= READER_PATIENCE {
                    return Err(unread(
                        doing,
                        format!("its reader read nothing within {}", shown(READER_PATIENCE)),
                    ));
                }
                thread::sleep(LOOK);
            }
            Err(error) => return Err(Failure::local_io(doing, &error)),
        }
    }
    Ok(())
}

/// Writes as much as there is room for now.
fn write_some(file: &mut File, bytes: &[u8]) -> io::Result<usize> {
    if !poll_now(&mut [PollFd::new(file.as_fd(), libc::POLLOUT)]) {
        return Err(ErrorKind::WouldBlock.into());
    }
    file.write(&bytes[..bytes.len().min(PIECE_BYTES)])
}

fn unread(doing: &str, why: String) -> Failure {
    Failure::new(Code::LocalIo, format!("{doing}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_getfl};
    use std::io::{Read, pipe};
    use std::os::fd::OwnedFd;

    #[test]
    fn a_pipe_takes_more_than_it_holds_and_stays_one_that_blocks() {
        let signals = Signals::install("test").unwrap();
        let (mut reader, writer) = pipe().unwrap();
        let mut file = File::from(OwnedFd::from(writer));
        let sent: Vec<u8> = (0..300_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let expected = sent.clone();
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            let mut got = Vec::new();
            reader.read_to_end(&mut got).unwrap();
            assert!(got == expected);
        });
        write(&mut file, &sent, "cannot write to x", &signals).unwrap();
        assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
        drop(file);
        reading.join().unwrap();
    }

    #[test]
    fn a_pipe_whose_reader_is_gone_is_told_at_once() {
        let signals = Signals::install("test").unwrap();
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let failure =
            write(&mut OwnedFd::from(writer).into(), b"x", "cannot write to x", &signals).unwrap_err();
        assert_eq!((failure.code, failure.text.as_str()), (Code::LocalIo, "cannot write to x: broken pipe"));
    }
}
