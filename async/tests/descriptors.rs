//! A listener in a process without descriptors, served by the loop of README.md.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::fs::File;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use superpipe_tokio::{Address, Listener, Options};

const CHILD: &str = "SUPERPIPE_DESCRIPTORS_CHILD";
const NAME: &str = "a_listener_without_descriptors_leaves_time_to_others";

/// README.md: `let Ok(mut connection) = listener.accept().await else { continue };`
#[test]
fn a_listener_without_descriptors_leaves_time_to_others() {
    if std::env::var_os(CHILD).is_none() {
        let child = Command::new("timeout")
            .args(["10", "sh", "-c", "ulimit -n 200; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args([NAME, "--nocapture"])
            .env(CHILD, "1")
            .status()
            .unwrap();
        assert!(child.success(), "the accept loop never let the other task run: {child}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let path = std::env::temp_dir().join(format!("superpipe-descriptors-{}.sock", std::process::id()));
        let mut listener = Listener::bind(&Address::Shm(path.clone()), Options::default()).unwrap();
        let errors = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&errors);
        let begin = Instant::now();
        tokio::spawn(async move {
            loop {
                let Err(error) = listener.accept().await.map(drop) else { continue };
                let nth = count.fetch_add(1, Ordering::Relaxed) + 1;
                if nth == 1 || nth.is_multiple_of(100_000) {
                    eprintln!("{nth} errors after {:?}: {error}", begin.elapsed());
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        // A client, and other work of the process that holds all descriptors for 1 s.
        let socket = socket_of(&path);
        let mut held = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            held.push(file);
        }
        let _client = socket;
        tokio::time::sleep(Duration::from_millis(1000)).await;
        drop(held);
        let errors = errors.load(Ordering::Relaxed);
        assert!(errors < 1000, "{errors} errors in 1 s");
    });
}

/// Has somebody connect, in another process.
fn socket_of(path: &std::path::Path) -> std::process::Child {
    let script = "import socket,sys,time\ntime.sleep(0.05)\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\ns.connect(sys.argv[1])\ntime.sleep(5)";
    Command::new("python3").args(["-c", script]).arg(path).spawn().unwrap()
}
