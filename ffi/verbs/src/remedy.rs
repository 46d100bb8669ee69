//! Remedies for verbs that failed.

use crate::bytes::Bytes;
use core::ffi::c_int;

/// Remedy of a host without an RDMA device.
pub(super) const SOFTWARE_DEVICE: &str = "Linux makes one of an Ethernet card; as root: modprobe rdma_rxe; rdma link add \
     rxe0 type rxe netdev eth0";

const LOAD_MODULES: &str = "load the kernel's part, as root: modprobe -a ib_uverbs rdma_ucm";
const GRANT_ACCESS: &str = "let this user read and write /dev/infiniband: join its group, or run as root";
const REDUCE_SIZES: &str = "ask for less: ibv_devinfo -v says what the device has";
const CHECK_PORTS: &str = "both ends need a port that is ACTIVE, a GID that reaches the other and an MTU that both have: ibv_devinfo \
     -v shows them";

/// Returns the remedy for a failure of `verb` with `errno`, if one is known.
pub(super) fn remedy(verb: &str, errno: c_int) -> Option<String> {
    let text = match (verb, errno) {
        (_, libc::EMFILE | libc::ENFILE) => return Some(descriptors(errno)),
        _ if is_limit(verb, errno) => return Some(memory(memlock())),
        (_, libc::EACCES | libc::EPERM) => GRANT_ACCESS,
        ("ibv_get_device_list" | "rdma_create_event_channel", libc::ENOSYS | libc::ENOENT | libc::ENODEV) => {
            return Some(format!("{LOAD_MODULES}; {SOFTWARE_DEVICE}"));
        }
        ("rdma_resolve_addr" | "rdma_bind_addr", libc::ENODEV) => {
            return Some(format!("no RDMA device has this address; {SOFTWARE_DEVICE}"));
        }
        ("rdma_resolve_route", libc::ENODEV) => {
            "no RDMA device leads to this address, nor to loopback: use one of an interface that has a device"
        }
        ("rdma_connect", libc::ECONNREFUSED) => "nobody listens there; start the receiver first",
        ("rdma_bind_addr", libc::EADDRNOTAVAIL) => "the address must be one of this host's",
        ("rdma_bind_addr" | "rdma_listen", libc::EADDRINUSE) => {
            "another process listens there: take another port"
        }
        ("ibv_create_cq" | "ibv_create_qp", libc::EINVAL | libc::ENOSYS) => REDUCE_SIZES,
        ("ibv_query_gid" | "_ibv_query_gid_ex", _) => "choose another GID index: ibv_devinfo -v lists them",
        ("ibv_modify_qp" | "rdma_init_qp_attr", libc::EINVAL | libc::ETIMEDOUT | libc::ENETUNREACH) => {
            CHECK_PORTS
        }
        ("ibv_post_send" | "ibv_post_recv", libc::ENOMEM) => {
            "the queue is full: post again after a completion"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Returns true if `verb` failed by a limit of open files or of pinned memory. A process with a limit of 0 bytes of pinned memory gets
/// EPERM.
pub(super) fn is_limit(verb: &str, errno: c_int) -> bool {
    match errno {
        libc::EMFILE | libc::ENFILE => true,
        libc::ENOMEM | libc::EAGAIN | libc::EPERM => {
            matches!(verb, "ibv_reg_mr" | "ibv_create_cq" | "ibv_create_qp")
        }
        _ => false,
    }
}

/// Remedy for pinned memory.
fn memory(limit: Option<u64>) -> String {
    match limit {
        Some(bytes) => {
            format!("raise RLIMIT_MEMLOCK (now {}): ulimit -l, or LimitMEMLOCK= of its service", Bytes(bytes))
        }
        None => "free memory: RLIMIT_MEMLOCK is unlimited, so that the machine or the device has no more"
            .to_owned(),
    }
}

/// Returns the bytes that this process may pin; none if there is no limit.
fn memlock() -> Option<u64> {
    soft_limit(Resource::PinnedBytes)
}

/// A resource that a process may use up to a limit.
enum Resource {
    PinnedBytes,
    OpenFiles,
}

/// Returns the soft limit of a resource (getrlimit(2)); none if there is none, or the kernel does not tell.
///
/// By libc: rustix relies on the call not failing, and a seccomp filter can make it fail.
fn soft_limit(resource: Resource) -> Option<u64> {
    // The type of these constants is another one for each libc.
    let resource = match resource {
        Resource::PinnedBytes => libc::RLIMIT_MEMLOCK,
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
    };
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is to a local.
    let refused = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (refused == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Remedy for open files, of this process or of the machine.
fn descriptors(errno: c_int) -> String {
    match (errno, soft_limit(Resource::OpenFiles)) {
        (libc::EMFILE, limit) => format!(
            "raise the limit of open files{}: ulimit -n, or LimitNOFILE= of its service",
            limit.map_or_else(String::new, |limit| format!(" (now {limit})"))
        ),
        _ => "the machine has no more open files: raise fs.file-max, as root, with sysctl".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_memory_has_a_limit_with_a_value() {
        assert_eq!(
            memory(Some(8 << 20)),
            "raise RLIMIT_MEMLOCK (now 8 MiB): ulimit -l, or LimitMEMLOCK= of its service"
        );
        assert!(memory(None).contains("RLIMIT_MEMLOCK is unlimited"));
        assert_eq!(remedy("ibv_reg_mr", libc::ENOMEM), Some(memory(memlock())));
    }

    #[test]
    fn each_cause_has_its_own() {
        let told = |verb, errno, word: &str| {
            let text = remedy(verb, errno).unwrap();
            assert!(text.contains(word), "{text}");
        };
        told("ibv_open_device", libc::EACCES, "/dev/infiniband");
        told("ibv_get_device_list", libc::ENOSYS, "rdma link add rxe0 type rxe netdev eth0");
        told("rdma_create_event_channel", libc::ENOENT, "modprobe -a ib_uverbs rdma_ucm");
        told("rdma_bind_addr", libc::EADDRINUSE, "another port");
        told("ibv_create_qp", libc::EINVAL, "ask for less");
        told("ibv_query_gid", libc::EIO, "GID index");
        told("ibv_modify_qp", libc::EINVAL, "MTU");
        told("ibv_open_device", libc::EMFILE, "ulimit -n");
        told("rdma_create_event_channel", libc::ENFILE, "fs.file-max");
        assert_eq!(remedy("ibv_dereg_mr", libc::EBUSY), None);
    }
}
