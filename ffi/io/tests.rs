//! Sources and sinks of every kind, and the checksums.

use super::*;
use std::fs;
use std::io::{PipeReader, PipeWriter, Read, Seek, SeekFrom, Write, pipe};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

fn span(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

/// Reads into two spans of `first` and `second` bytes.
fn read(source: &mut Source, first: usize, second: usize) -> io::Result<(ReadOutcome, Vec<u8>)> {
    let (mut head, mut tail) = (vec![0xEE; first], vec![0xEE; second]);
    let spans = [span(&mut head), span(&mut tail)];
    // SAFETY: both spans are of vectors that live, and that are not read before the call is over.
    let outcome = unsafe { source.read_spans(&spans) }?;
    head.append(&mut tail);
    head.truncate(if let ReadOutcome::Bytes(bytes) = outcome { bytes } else { 0 });
    Ok((outcome, head))
}

fn write(sink: &mut Sink, bytes: &[u8]) -> io::Result<WriteOutcome> {
    let mut copy = bytes.to_vec();
    let (head, tail) = copy.split_at_mut(bytes.len() / 3);
    let spans = [span(head), span(tail)];
    // SAFETY: both spans are of a vector that lives and is not written meanwhile.
    unsafe { sink.write_spans(&spans) }
}

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("superpipe-io-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_file_is_read_from_its_offset_to_its_end() {
    let dir = Dir::new("file");
    fs::write(dir.join("in"), b"0123456789").unwrap();
    let mut file = File::open(dir.join("in")).unwrap();
    file.seek(SeekFrom::Start(3)).unwrap();
    let mut source = Source::new(file.into()).unwrap();
    assert_eq!(source.size_hint(), Some(7));
    assert!(source.may_block() && source.interest().is_none());
    assert_eq!(read(&mut source, 2, 3).unwrap(), (ReadOutcome::Bytes(5), b"34567".to_vec()));
    assert_eq!(read(&mut source, 0, 0).unwrap().0, ReadOutcome::Bytes(0));
    assert_eq!(read(&mut source, 2, 3).unwrap(), (ReadOutcome::Bytes(2), b"89".to_vec()));
    assert_eq!(read(&mut source, 2, 3).unwrap().0, ReadOutcome::End);
}

#[test]
fn a_pipe_would_block_and_keeps_its_flags() {
    let (reader, mut writer): (PipeReader, PipeWriter) = pipe().unwrap();
    let kept = reader.try_clone().unwrap();
    let mut source = Source::new(reader.into()).unwrap();
    assert_eq!(source.access(), Access::NonBlocking);
    assert_eq!(read(&mut source, 4, 4).unwrap().0, ReadOutcome::WouldBlock);
    assert!(!crate::os::poll::poll_now(&mut [source.interest().unwrap()]));
    writer.write_all(b"hello").unwrap();
    assert!(crate::os::poll::poll_now(&mut [source.interest().unwrap()]));
    assert_eq!(read(&mut source, 2, 9).unwrap(), (ReadOutcome::Bytes(5), b"hello".to_vec()));
    // SAFETY: the descriptor is open; the call takes integers only.
    assert_eq!(unsafe { libc::fcntl(kept.as_raw_fd(), libc::F_GETFL) } & libc::O_NONBLOCK, 0);
    writer.write_all(b"!").unwrap();
    drop(writer);
    assert_eq!(read(&mut source, 2, 9).unwrap().0, ReadOutcome::Bytes(1));
    assert_eq!(read(&mut source, 2, 9).unwrap().0, ReadOutcome::End);
}

#[test]
fn a_pipe_without_writer_ends() {
    let (reader, mut writer) = pipe().unwrap();
    writer.write_all(b"x").unwrap();
    drop(writer);
    let mut source = Source::new(reader.into()).unwrap();
    assert_eq!(read(&mut source, 1, 1).unwrap().0, ReadOutcome::Bytes(1));
    assert_eq!(read(&mut source, 1, 1).unwrap().0, ReadOutcome::End);
}

#[test]
fn a_fifo_waits_for_its_first_writer_and_ends_with_the_last() {
    let dir = Dir::new("fifo");
    mkfifo(&dir.join("fifo"));
    let mut source = Source::open(&dir.join("fifo")).unwrap();
    assert_eq!(read(&mut source, 1, 1).unwrap().0, ReadOutcome::WouldBlock);
    let mut writer = OpenOptions::new().write(true).open(dir.join("fifo")).unwrap();
    assert_eq!(read(&mut source, 1, 1).unwrap().0, ReadOutcome::WouldBlock);
    writer.write_all(b"ab").unwrap();
    assert_eq!(read(&mut source, 1, 1).unwrap().0, ReadOutcome::Bytes(2));
    drop(writer);
    assert_eq!(read(&mut source, 1, 1).unwrap().0, ReadOutcome::End);
}

#[test]
fn a_full_pipe_would_block_and_one_without_reader_breaks() {
    for polled in [false, true] {
        let (mut reader, writer) = pipe().unwrap();
        let mut sink = Sink::new(writer.into()).unwrap();
        if polled {
            sink.force_polled();
        }
        let mut written = 0;
        while let WriteOutcome::Bytes(bytes) = write(&mut sink, &[7; 10_000]).unwrap() {
            written += bytes;
        }
        assert!(written >= 4096);
        let mut got = vec![0; written];
        reader.read_exact(&mut got).unwrap();
        assert!(got.iter().all(|&byte| byte == 7));
        assert!(matches!(write(&mut sink, b"again").unwrap(), WriteOutcome::Bytes(1..)));
        drop(reader);
        assert_eq!(write(&mut sink, b"more").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}

#[test]
fn sockets_neither_wait_nor_raise_signals() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let mut source = Source::new(near.try_clone().unwrap().into()).unwrap();
    let mut sink = Sink::new(near.into()).unwrap();
    assert_eq!(read(&mut source, 3, 3).unwrap().0, ReadOutcome::WouldBlock);
    far.write_all(b"abcd").unwrap();
    assert_eq!(read(&mut source, 3, 3).unwrap(), (ReadOutcome::Bytes(4), b"abcd".to_vec()));
    assert_eq!(write(&mut sink, b"xyz").unwrap(), WriteOutcome::Bytes(3));
    let mut got = [0; 3];
    far.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"xyz");
    drop(far);
    assert_eq!(read(&mut source, 3, 3).unwrap().0, ReadOutcome::End);
    assert_eq!(write(&mut sink, b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_descriptor_of_the_wrong_mode_is_refused_at_once() {
    let dir = Dir::new("wrong");
    let (reader, writer) = pipe().unwrap();
    assert_eq!(Source::new(writer.into()).unwrap_err().raw_os_error(), Some(libc::EBADF));
    assert_eq!(Sink::new(reader.into()).unwrap_err().raw_os_error(), Some(libc::EBADF));
    assert_eq!(Source::open(&dir.0).unwrap_err().raw_os_error(), Some(libc::EISDIR));
    assert!(Source::new(File::open(&dir.0).unwrap().into()).is_err());
    assert_eq!(Source::open(&dir.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_full_disk_is_an_error_and_a_device_is_read() {
    let mut sink = Sink::new(OpenOptions::new().write(true).open("/dev/full").unwrap().into()).unwrap();
    assert_eq!(write(&mut sink, b"x").unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    let mut source = Source::open(Path::new("/dev/zero")).unwrap();
    assert_eq!(source.size_hint(), None);
    assert_eq!(read(&mut source, 5, 7).unwrap(), (ReadOutcome::Bytes(12), vec![0; 12]));
    assert_eq!(read(&mut Source::open(Path::new("/dev/null")).unwrap(), 5, 7).unwrap().0, ReadOutcome::End);
}

#[test]
fn checksums_are_standard_and_independent_of_cuts() {
    let cases = [
        (DigestKind::None, 0),
        (DigestKind::Crc32c, 0xE306_9283),
        // CRC-64/NVME's check value in the catalogue of parametrised CRC algorithms
        (DigestKind::Crc64, 0xAE8B_1486_0A79_9888),
    ];
    for (kind, check) in cases {
        let mut digest = Digest::new(kind);
        digest.update(b"123456789");
        assert_eq!((digest.value(), digest.bytes(), digest.kind()), (check, 9, kind));
        let data: Vec<u8> = (0..3 * 4096 + 17_u32).map(|index| ((index * 7) >> 3).to_le_bytes()[0]).collect();
        let mut whole = Digest::new(kind);
        whole.update(&data);
        for cut in [0, 1, 63, 4095, 4096, 4097, 9000, data.len()] {
            let mut parts = Digest::new(kind);
            // SAFETY: both are parts of `data`, which lives and is not written.
            unsafe {
                parts.update_shared(data.as_ptr(), cut);
                parts.update_shared(data.as_ptr().add(cut), data.len() - cut);
            }
            assert_eq!((parts.value(), parts.bytes()), (whole.value(), whole.bytes()), "{kind} {cut}");
        }
    }
    assert!(DigestKind::None < DigestKind::Crc32c && DigestKind::Crc32c < DigestKind::Crc64);
}

#[test]
fn zeros_become_holes_if_requested() {
    use std::os::unix::fs::MetadataExt;
    let dir = Dir::new("holes");
    let mut file = File::create(dir.join("out")).unwrap();
    let mut data = vec![0; 4 << 20];
    data[..5].copy_from_slice(b"first");
    data[2 << 20..][..6].copy_from_slice(b"middle");
    let mut sink = Sink::new(file.try_clone().unwrap().into()).unwrap();
    sink.leave_holes();
    let mut written = 0;
    while written < data.len() {
        // of odd lengths, as blocks are
        let end = data.len().min(written + 3 * 16_376);
        match write(&mut sink, &data[written..end]).unwrap() {
            WriteOutcome::Bytes(bytes) => written += bytes,
            WriteOutcome::WouldBlock => unreachable!("a file never would"),
        }
    }
    let end = file.stream_position().unwrap();
    file.set_len(end).unwrap();
    assert_eq!(fs::read(dir.join("out")).unwrap(), data);
    let on_disk = file.metadata().unwrap().blocks() * 512;
    assert!(on_disk <= 256 << 10, "{on_disk} bytes of 4 MiB, most of which are zeros");
}
