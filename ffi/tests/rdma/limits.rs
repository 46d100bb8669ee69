//! Limits of the process, each reported by its name, and a port that the kernel chooses.

use crate::addresses;
use crate::api::{DEADLINE, address_of, listen};
use core::time::Duration;
use std::env;
use std::fs::File;
use std::process::Command;
use std::thread;
use superpipe::{Address, Connection, ErrorKind, Listener, Options};
use superpipe_verbs::DeviceList;

/// Deadline of a connection that fails.
const SOON: Duration = Duration::from_millis(300);
/// Limits are per process, so each of these tests runs this program again.
const INSIDE: &str = "SUPERPIPE_INSIDE";

/// Runs the test of this name again behind a shell command. Returns true in that process.
pub(crate) fn behind(first: &str, test: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let program = env::current_exe().unwrap();
    let line = format!("{first} \"$0\" --exact {test} --nocapture");
    let output = Command::new("bash").arg("-c").arg(line).arg(program).env(INSIDE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stdout));
    false
}

#[test]
fn a_lack_of_descriptors_is_reported_as_a_limit() {
    if addresses().is_empty() {
        return;
    }
    if !behind("ulimit -n 64; exec", "limits::a_lack_of_descriptors_is_reported_as_a_limit") {
        return;
    }
    // The libraries are loaded before they are used up, and no device is open.
    DeviceList::get().unwrap();
    let mut taken: Vec<File> = core::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    for free in 0..12 {
        for ip in addresses() {
            let nobody = Address::Rdma { host: ip.to_string(), port: 9 };
            let error = Connection::connect(&nobody, Options::default(), SOON).map(drop).unwrap_err();
            let is_limit = error.kind() == ErrorKind::Limit && error.to_string().contains("ulimit -n");
            let is_tried = matches!(error.kind(), ErrorKind::Connect | ErrorKind::Timeout)
                && !error.to_string().contains("no RDMA device");
            assert!(is_limit || free > 1 && is_tried, "{ip}: {free} free: {error:?}");
            let free_port = Address::Rdma { host: ip.to_string(), port: 0 };
            if let Err(error) = Listener::bind(&free_port, Options::default()) {
                let is_limit = error.kind() == ErrorKind::Limit && error.to_string().contains("ulimit -n");
                assert!(is_limit && free < 8, "{ip}: {free} free: {error:?}");
            }
        }
        taken.pop();
    }
}

#[test]
fn a_memlock_of_zero_is_reported_as_a_limit() {
    let poor = "ulimit -l 0; exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock";
    if !behind(poor, "limits::a_memlock_of_zero_is_reported_as_a_limit") {
        return;
    }
    for ip in addresses() {
        let listener = listen(ip, Options::default());
        let error =
            Connection::connect(&address_of(&listener), Options::default(), DEADLINE).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{ip}: {error}");
        assert!(error.to_string().contains("raise RLIMIT_MEMLOCK (now 0 bytes)"), "{ip}: {error}");
    }
}

#[test]
fn a_port_that_the_kernel_chose_is_the_same_for_every_address() {
    if addresses().is_empty() {
        return;
    }
    let mut listener =
        Listener::bind(&Address::Rdma { host: String::new(), port: 0 }, Options::default()).unwrap();
    let port = listener.rdma_addr().unwrap().port();
    let count = addresses().len();
    thread::scope(|scope| {
        let accepting =
            scope.spawn(move || (0..count).map(|_| listener.accept(DEADLINE).map(drop)).collect());
        for ip in addresses() {
            let address = Address::Rdma { host: ip.to_string(), port };
            let connected =
                Connection::connect(&address, Options::default(), Duration::from_secs(10)).map(drop);
            connected.unwrap_or_else(|error| panic!("{address}: {error}"));
        }
        let accepted: Result<Vec<()>, _> = accepting.join().unwrap();
        accepted.unwrap();
    });
}

#[test]
fn a_plain_address_has_one_port_on_both_fabrics() {
    if addresses().is_empty() {
        return;
    }
    let address = Address::HostPort { host: String::new(), port: 0 };
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let port = listener.rdma_addr().unwrap().port();
    thread::scope(|scope| {
        let accepting = scope.spawn(move || listener.accept(DEADLINE).map(|it| it.description().fabric));
        let near = Address::HostPort { host: "localhost".into(), port };
        drop(Connection::connect(&near, Options::default(), Duration::from_secs(10)).unwrap());
        assert_eq!(accepting.join().unwrap().unwrap(), "shm");
    });
}
