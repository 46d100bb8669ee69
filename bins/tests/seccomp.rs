//! A sandbox that refuses prlimit64. A program of its own, since only unsafe code can install the filter.

#[path = "tools/support/program.rs"]
mod program;

use core::time::Duration;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use program::program;

/// Makes prlimit64 fail with EPERM.
fn filter() {
    let mut code = [
        libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: u32::try_from(libc::SYS_prlimit64).unwrap() },
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::EPERM.cast_unsigned() },
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7FFF_0000 },
    ];
    let program = libc::sock_fprog { len: 4, filter: code.as_mut_ptr() };
    // SAFETY: the program lives during the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program), 0);
    }
}

#[test]
fn a_file_is_received_where_seccomp_refuses_prlimit() {
    let scratch = std::env::temp_dir().join(format!("superpipe-seccomp-{}", std::process::id()));
    fs::create_dir_all(&scratch).unwrap();
    let (address, out) = (format!("shm:{}", scratch.join("s").display()), scratch.join("out"));
    fs::write(scratch.join("in"), vec![7; 300_000]).unwrap();
    let mut receiver = Command::new(program("rrecv"));
    receiver.args(["--accept-timeout", "10s", "--listen", &address]).arg(&out);
    // SAFETY: the closure makes system calls only.
    unsafe {
        receiver.pre_exec(|| {
            filter();
            Ok(())
        })
    };
    let mut receiver = receiver.spawn().unwrap();
    thread::sleep(Duration::from_millis(100));
    let sent = Command::new(program("rsend")).arg(&address).arg(scratch.join("in")).status().unwrap();
    let received = receiver.wait().unwrap();
    let length = fs::metadata(&out).map(|it| it.len()).ok();
    let _ = fs::remove_dir_all(&scratch);
    assert_eq!((sent.code(), received.code(), length), (Some(0), Some(0), Some(300_000)));
}
