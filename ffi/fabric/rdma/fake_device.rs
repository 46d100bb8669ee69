//! The memory side of superpipe-verbs' fake device, for the tests of this directory.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use superpipe_verbs::fake::{self, Posted};

/// Makes the next poll find that the oldest receive got these bytes by a SEND.
pub(super) fn receive(bytes: &[u8]) {
    // SAFETY: these tests keep the memory of each receive until they end, and look at it after the completion.
    unsafe { fake::receive(bytes) };
}

/// Returns the bytes that the device would read now for this work request.
pub(super) fn gathered(posted: &Posted) -> Vec<u8> {
    // SAFETY: these tests keep what they post from until they end, and run in one thread.
    unsafe { fake::gathered(posted) }
}

/// Runs a test again in a process of its own that may pin 512 KiB, in which it returns true.
pub(super) fn with_half_a_mebibyte(test: &str) -> bool {
    const INSIDE: &str = "SUPERPIPE_TEST_INSIDE";
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    // Root's limit is none, unless it lost the right to pin more.
    let script = "ulimit -l 512; poor='setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock'
        if $poor true 2>/dev/null; then exec $poor \"$@\"; else exec \"$@\"; fi";
    let mut child = Command::new("bash");
    child.args(["-c", script, "bash"]).arg(env::current_exe().unwrap()).args([
        "--exact",
        test,
        "--nocapture",
    ]);
    let output = child.env(INSIDE, "1").output().unwrap();
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy);
    assert!(output.status.success() && said[0].contains("1 passed"), "{said:?}");
    false
}

/// Runs a test again in a process of its own, which must end by `attack`, because memory cannot be deregistered.
pub(super) fn aborts(test: &str, attack: impl FnOnce()) {
    const INSIDE: &str = "SUPERPIPE_TEST_ABORTS";
    const RETURNED: &str = "the attack has returned";
    if env::var_os(INSIDE).is_some() {
        attack();
        println!("{RETURNED}");
        return;
    }
    let script = "ulimit -c 0; exec \"$@\"";
    let mut child = Command::new("bash");
    child.args(["-c", script, "bash"]).arg(env::current_exe().unwrap()).args([
        "--exact",
        test,
        "--nocapture",
    ]);
    let output = child.env(INSIDE, "1").output().unwrap();
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said:?}");
    assert!(!said[0].contains(RETURNED) && said[1].contains("the process ends"), "{said:?}");
}
