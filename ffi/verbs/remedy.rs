//! What to do about a verb that failed.

use crate::os::{Bytes, descriptors};
use core::ffi::c_int;
use core::mem::MaybeUninit;

/// How a host without an RDMA NIC gets a device.
pub(super) const MAKE_A_DEVICE: &str = "Linux makes one of an Ethernet card; as root: modprobe rdma_rxe; rdma link add \
     rxe0 type rxe netdev eth0";

const MODULES: &str = "load the kernel's part, as root: modprobe -a ib_uverbs rdma_ucm";
const PERMISSION: &str = "let this user read and write /dev/infiniband: join its group, or run as root";
const SMALLER: &str = "ask for less: ibv_devinfo -v says what the device has";
const PATH: &str = "both ends need a port that is ACTIVE, a GID that reaches the other and an MTU that both have: ibv_devinfo \
     -v shows them";

/// What the reader can do about `verb` having failed with `errno`, where something is known.
pub(super) fn remedy(verb: &str, errno: c_int) -> Option<String> {
    let text = match (verb, errno) {
        (_, libc::EMFILE | libc::ENFILE) => return descriptors::remedy(errno),
        _ if is_limit(verb, errno) => return Some(memory(memlock())),
        (_, libc::EACCES | libc::EPERM) => PERMISSION,
        ("ibv_get_device_list" | "rdma_create_event_channel", libc::ENOSYS | libc::ENOENT | libc::ENODEV) => {
            return Some(format!("{MODULES}; {MAKE_A_DEVICE}"));
        }
        ("rdma_resolve_addr" | "rdma_bind_addr", libc::ENODEV) => {
            return Some(format!("no RDMA device has this address; {MAKE_A_DEVICE}"));
        }
        ("rdma_resolve_route", libc::ENODEV) => {
            "no RDMA device leads to this address, nor to loopback: use one of an interface that has a device"
        }
        ("rdma_connect", libc::ECONNREFUSED) => "nobody listens there; start the receiver first",
        ("rdma_bind_addr", libc::EADDRNOTAVAIL) => "the address must be one of this host's",
        ("rdma_bind_addr" | "rdma_listen", libc::EADDRINUSE) => {
            "another process listens there: take another port"
        }
        ("ibv_create_cq" | "ibv_create_qp", libc::EINVAL | libc::ENOSYS) => SMALLER,
        ("ibv_query_gid" | "_ibv_query_gid_ex", _) => "choose another GID index: ibv_devinfo -v lists them",
        ("ibv_modify_qp" | "rdma_init_qp_attr", libc::EINVAL | libc::ETIMEDOUT | libc::ENETUNREACH) => PATH,
        ("ibv_post_send" | "ibv_post_recv", libc::ENOMEM) => {
            "the queue is full: post again after a completion"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Returns true if `verb` met a limit of open files, or of memory that is pinned. A process that may pin nothing at all, with a limit of 0,
/// is told EPERM.
pub(super) fn is_limit(verb: &str, errno: c_int) -> bool {
    match errno {
        libc::EMFILE | libc::ENFILE => true,
        libc::ENOMEM | libc::EAGAIN | libc::EPERM => {
            matches!(verb, "ibv_reg_mr" | "ibv_create_cq" | "ibv_create_qp")
        }
        _ => false,
    }
}

/// About pinned memory. `limit` is none where there is none.
fn memory(limit: Option<u64>) -> String {
    match limit {
        Some(bytes) => {
            format!("raise RLIMIT_MEMLOCK (now {}): ulimit -l, or LimitMEMLOCK= of its service", Bytes(bytes))
        }
        None => "free memory: RLIMIT_MEMLOCK is unlimited, so that the machine or the device has no more"
            .to_owned(),
    }
}

/// How much this process may pin.
fn memlock() -> Option<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: the pointer is to an rlimit of ours.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, limit.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: getrlimit has filled it: it answered 0.
    let limit = unsafe { limit.assume_init() };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
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
