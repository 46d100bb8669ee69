//! Opening and writing of pipes with a time limit for the reader, and with checks for signals meanwhile.
//!
//! An inherited descriptor must not be made non-blocking: the flag belongs to the open file description, which other processes
//! share. So a pipe is polled before each write, and each write is so short that a pipe with room accepts it without blocking.

use crate::exit::{Code, Failure};
use crate::quantity::format_duration;
use crate::signals::Signals;
use crate::timeouts::REPORT_TIMEOUT;
use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::Instant;
use superpipe::os::poll::{PollFd, poll_now};

/// Time in which the reader of a report must open the pipe, and in which any reader must continue to read: enough for a person to
/// start the reader by hand.
const READER_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two attempts while there is no reader or no room, and between two checks for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes that a pipe which is ready accepts without blocking: PIPE_BUF.
const PIECE_BYTES: usize = 4096;

/// Time in which a reader must open a FIFO, and the remedy that the failure names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReaderTimeout {
    time: Duration,
    remedy: &'static str,
}

impl ReaderTimeout {
    /// The timeout for the reader of a report.
    pub(crate) const REPORT: Self = Self { time: READER_TIMEOUT, remedy: "start its reader first" };

    /// Creates the timeout for the reader of received data: `--accept-timeout`.
    pub(crate) const fn to_accept(time: Duration) -> Self {
        Self { time, remedy: "see --accept-timeout" }
    }
}

/// Opens a file for writing, with these options and without blocking. Retries a FIFO until a process reads it. `doing` begins the
/// text of a failure: "cannot write to x".
///
/// # Errors
/// The file cannot be opened, no reader opens the FIFO in time, or a signal arrived.
pub(crate) fn open(
    path: &Path,
    options: &mut OpenOptions,
    doing: &str,
    timeout: ReaderTimeout,
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
        if begin.elapsed() >= timeout.time {
            let ReaderTimeout { time, remedy } = timeout;
            return Err(unread(
                doing,
                format!("no process opened the pipe for reading within {}; {remedy}", format_duration(time)),
            ));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Writes all of these bytes. Waits while a pipe is full, as long as its reader never pauses for 10 s, and while a terminal is
/// stopped; after a signal, for [`REPORT_TIMEOUT`] in total. `doing` begins the text of a failure.
///
/// # Errors
/// The file rejects the bytes, or the reader of a pipe stops reading.
pub(crate) fn write(
    file: &mut File,
    mut bytes: &[u8],
    doing: &str,
    signals: &Signals,
) -> Result<(), Failure> {
    let is_terminal = file.is_terminal();
    let (mut moved_at, mut signaled_at) = (Instant::now(), None);
    while !bytes.is_empty() {
        match write_some(&*file, bytes) {
            Ok(0) => return Err(Failure::local_io(doing, &ErrorKind::WriteZero.into())),
            Ok(written) => (bytes, moved_at) = (&bytes[written..], Instant::now()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if signals.failure().is_some() {
                    if signaled_at.get_or_insert_with(Instant::now).elapsed() >= REPORT_TIMEOUT {
                        let text = format!(
                            "its reader did not read all data within {} after the signal",
                            format_duration(REPORT_TIMEOUT)
                        );
                        return Err(unread(doing, text));
                    }
                } else if !is_terminal && moved_at.elapsed() >= READER_TIMEOUT {
                    return Err(unread(
                        doing,
                        format!("its reader read nothing within {}", format_duration(READER_TIMEOUT)),
                    ));
                }
                thread::sleep(POLL_INTERVAL);
            }
            Err(error) => return Err(Failure::local_io(doing, &error)),
        }
    }
    Ok(())
}

/// Writes a piece, of `PIPE_BUF` bytes at most, if there is room.
///
/// # Errors
/// `WouldBlock` if there is no room; or the file rejects the bytes.
pub(crate) fn write_some<W: Write + AsFd>(mut to: W, bytes: &[u8]) -> io::Result<usize> {
    if !poll_now(&mut [PollFd::new(to.as_fd(), libc::POLLOUT)]) {
        return Err(ErrorKind::WouldBlock.into());
    }
    to.write(&bytes[..bytes.len().min(PIECE_BYTES)])
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
    fn a_long_write_is_complete_and_leaves_the_pipe_blocking() {
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
    fn a_pipe_whose_reader_is_gone_fails_at_once() {
        let signals = Signals::install("test").unwrap();
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let failure =
            write(&mut OwnedFd::from(writer).into(), b"x", "cannot write to x", &signals).unwrap_err();
        assert_eq!((failure.code, failure.text.as_str()), (Code::LocalIo, "cannot write to x: broken pipe"));
    }
}
