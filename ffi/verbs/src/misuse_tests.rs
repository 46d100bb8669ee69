//! Calls of the safe interface in an odd order, and in sandboxes. What may end by a signal runs in a process of its own.

use crate::library::Verbs;
use crate::sys::fake;
use crate::sys::{Rdmacm, ibv_qp_type, rdma_cm_id, rdma_event_channel, rdma_port_space};
use crate::{
    Access, CmId, ConnectParams, DestinationMr, DeviceList, EventChannel, LentMr, Pages, Pd, SourceMr,
};
use core::ffi::{c_int, c_void};
use core::panic::AssertUnwindSafe;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::os::unix::process::ExitStatusExt;
use std::panic::catch_unwind;
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, PoisonError, mpsc};
use std::{env, io, thread};

const ATTACK: &str = "SUPERPIPE_VERBS_ATTACK";

/// Runs the test of this name again in another process, where `is_attacking` is true.
fn apart(test: &str) -> ExitStatus {
    command(test).status().unwrap()
}

fn command(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", &format!("misuse_tests::{test}"), "--nocapture"]).env(ATTACK, test);
    command
}

fn is_attacking(test: &str) -> bool {
    env::var(ATTACK).is_ok_and(|attack| attack == test)
}

/// Makes an id as rdma_create_id of librdmacm does for a kernel that has RDMA: ucma_alloc_id of librdmacm/cma.c takes zeros
/// and sets these four. It has no device (`verbs`, and the private `cma_dev` behind the id) before it is bound or resolved.
unsafe extern "C" fn create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    cookie: *mut c_void,
    ps: rdma_port_space,
) -> c_int {
    // SAFETY: larger than librdmacm's struct cma_id_private, whose first field is the id; zero is a value of all of it.
    unsafe {
        let raw: *mut rdma_cm_id = libc::calloc(1, 1 << 16).cast();
        ((*raw).channel, (*raw).context, (*raw).ps) = (channel, cookie, ps);
        (*raw).qp_type = ibv_qp_type::IBV_QPT_RC;
        *id = raw;
    }
    0
}

/// The real librdmacm of this host, of which only what needs a device to exist is replaced: making and destroying.
fn real() -> Option<&'static Rdmacm> {
    // SAFETY: the symbols have the types of the headers.
    let mut cm = unsafe { Rdmacm::from_library(libloading::Library::new("librdmacm.so.1").ok()?).ok()? };
    let fake = fake::rdmacm();
    cm.rdma_create_event_channel = fake.rdma_create_event_channel;
    cm.rdma_destroy_event_channel = fake.rdma_destroy_event_channel;
    cm.rdma_destroy_id = fake.rdma_destroy_id;
    cm.rdma_create_id = create_id;
    Some(Box::leak(Box::new(cm)))
}

fn unresolved(attack: fn(&mut CmId)) {
    let Some(cm) = real() else { return eprintln!("NOT CHECKED: no librdmacm here") };
    let verbs: &'static Verbs = fake::verbs();
    let channel = EventChannel::of(cm, verbs).unwrap();
    attack(&mut CmId::create(&channel).unwrap());
}

fn assert_is_an_error(test: &str, attack: fn(&mut CmId)) {
    if is_attacking(test) {
        return unresolved(attack);
    }
    let status = apart(test);
    assert_eq!(status.signal(), None, "safe code ended by a signal: {status}");
    assert!(status.success(), "{status}");
}

const PARAMS: ConnectParams<'_> =
    ConnectParams { qp_number: 1, private_data: &[], retries: 7, rnr_retries: 7 };

#[test]
fn resolve_route_before_resolve_addr_is_an_error() {
    assert_is_an_error("resolve_route_before_resolve_addr_is_an_error", |id| {
        id.resolve_route(100).unwrap_err();
    });
}

#[test]
fn connect_before_resolve_addr_is_an_error() {
    assert_is_an_error("connect_before_resolve_addr_is_an_error", |id| {
        id.connect(PARAMS).unwrap_err();
    });
}

#[test]
fn accept_of_an_id_without_a_request_is_an_error() {
    assert_is_an_error("accept_of_an_id_without_a_request_is_an_error", |id| {
        id.accept(PARAMS).unwrap_err();
    });
}

/// What the kernel does in the middle of rdma_migrate_id: from the write on, events of the id come at the new channel.
static TARGET: Mutex<Option<EventChannel>> = Mutex::new(None);
static WAS_TAKEN_MEANWHILE: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn migrate(_: *mut rdma_cm_id, _: *mut rdma_event_channel) -> c_int {
    let target = TARGET.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap();
    let other = thread::spawn(move || {
        // rdma_get_cm_event: of a connect request it reads `channel` of the listening id, which the migrating thread writes.
        let _ = target.try_event();
        WAS_TAKEN_MEANWHILE.store(true, Ordering::SeqCst);
    });
    thread::sleep(Duration::from_millis(500));
    drop(other);
    c_int::from(WAS_TAKEN_MEANWHILE.load(Ordering::SeqCst)) * libc::EBUSY
}

/// librdmacm/cma.c: rdma_migrate_id first writes to the kernel, then sets `id->channel`; ucma_process_conn_req, of a thread that
/// takes events of the new channel in between, gives the new connection the old `id->channel`, which `migrate` frees.
#[test]
fn no_event_is_taken_while_an_id_migrates() {
    let mut cm = fake_cm();
    cm.rdma_migrate_id = migrate;
    let cm: &'static Rdmacm = Box::leak(Box::new(cm));
    let channel = EventChannel::of(cm, fake::verbs()).unwrap();
    let target = EventChannel::of(cm, fake::verbs()).unwrap();
    *TARGET.lock().unwrap_or_else(PoisonError::into_inner) = Some(target.clone());
    let mut id = CmId::create(&channel).unwrap();
    drop(channel); // the id has the last handle: `migrate` destroys it
    assert!(
        id.migrate(&target).is_ok(),
        "a thread took an event of the new channel in the middle of the call"
    );
}

fn fake_cm() -> Rdmacm {
    let fake = fake::rdmacm();
    // SAFETY: it is leaked and never dropped, and the copy is leaked, too.
    unsafe { core::ptr::read(fake) }
}

fn number(system_call: i64) -> u32 {
    u32::try_from(system_call).unwrap()
}

/// Makes PR_GET_AUXV fail, as before Linux 6.4, and the system call `refused` with EPERM, as a container may.
fn filter(refused: u32) {
    const PR_GET_AUXV: u32 = 0x4155_5856;
    let load = |at| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: at };
    let is = |k, jt, jf| libc::sock_filter { code: 0x15, jt, jf, k };
    let end = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let mut code = [
        load(0),
        is(refused, 5, 0),
        is(number(libc::SYS_prctl), 0, 3),
        load(16),
        is(PR_GET_AUXV, 0, 1),
        end(0x0005_0000 | libc::EINVAL.cast_unsigned()),
        end(0x7FFF_0000),
        end(0x0005_0000 | libc::EPERM.cast_unsigned()),
    ];
    let program = libc::sock_fprog { len: 8, filter: code.as_mut_ptr() };
    // SAFETY: the program lives during the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program), 0);
    }
}

#[test]
fn pages_are_mapped_before_linux_6_4_with_no_descriptor_left() {
    const TEST: &str = "pages_are_mapped_before_linux_6_4_with_no_descriptor_left";
    if is_attacking(TEST) {
        filter(u32::MAX);
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a local.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) };
        assert!(Pages::map(1).is_ok());
        return;
    }
    assert!(apart(TEST).success());
}

#[test]
fn an_error_is_told_where_seccomp_refuses_prlimit() {
    const TEST: &str = "an_error_is_told_where_seccomp_refuses_prlimit";
    if is_attacking(TEST) {
        filter(number(libc::SYS_prlimit64));
        fake::begin();
        fake::answer("rdma_create_event_channel", libc::EMFILE);
        let error = EventChannel::of(fake::rdmacm(), fake::verbs()).unwrap_err();
        eprintln!("{error}");
        return;
    }
    assert!(apart(TEST).success());
}

/// Runs the test again in a process where deregistration fails, and where `attack` must not return.
fn assert_aborts(test: &str, bytes: &str, attack: fn(&Pd)) {
    const RETURNED: &str = "the scope has returned";
    if is_attacking(test) {
        let no_core_dump = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a local.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core_dump) };
        // SAFETY: alarm takes an integer. A process that waits for a lock ends by it, and by another signal.
        unsafe { libc::alarm(10) };
        fake::begin();
        fake::script(|script| script.devices = vec!["fake0"]);
        let device = DeviceList::of(fake::verbs()).unwrap();
        let pd = Pd::alloc(&device.find("fake0").unwrap().open().unwrap()).unwrap();
        fake::answer("ibv_dereg_mr", libc::EBUSY);
        attack(&pd);
        println!("{RETURNED}");
        return;
    }
    let output = command(test).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!String::from_utf8(output.stdout).unwrap().contains(RETURNED), "{told}");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}: {told}", output.status);
    let reason = format!(
        "superpipe-verbs: cannot deregister {bytes} (ibv_dereg_mr): device or resource busy; the process ends, because the NIC may \
         still use this memory, which its owner gets back\n"
    );
    assert!(told.ends_with(&reason), "{told}");
}

#[test]
fn a_source_that_stays_registered_aborts() {
    assert_aborts("a_source_that_stays_registered_aborts", "2 KiB", |pd| {
        SourceMr::scope(pd, &[0; 2048], |_| ()).unwrap();
    });
}

#[test]
fn a_destination_that_stays_registered_aborts() {
    assert_aborts("a_destination_that_stays_registered_aborts", "1025 bytes", |pd| {
        DestinationMr::scope(pd, &mut [0; 1025], |_| ()).unwrap();
    });
}

#[test]
fn lent_memory_that_stays_registered_aborts() {
    assert_aborts("lent_memory_that_stays_registered_aborts", "1 KiB", |pd| {
        let mut memory = [0; 1024];
        // SAFETY: the array lives as long as the region.
        let mr =
            unsafe { LentMr::register(pd, NonNull::from(&mut memory).cast(), 1024, Access::RemoteWrite) };
        drop(mr.unwrap());
    });
}

#[test]
fn a_panic_while_memory_stays_registered_aborts() {
    assert_aborts("a_panic_while_memory_stays_registered_aborts", "1 KiB", |pd| {
        let attack = || DestinationMr::scope(pd, &mut [0; 1024], |_| panic!("on purpose"));
        let _ = catch_unwind(AssertUnwindSafe(attack));
    });
}

/// Another thread may hold the lock of stderr for as long as it likes: while a reader of the pipe is slow, or for good.
#[test]
fn the_abort_does_not_wait_for_the_lock_of_stderr() {
    assert_aborts("the_abort_does_not_wait_for_the_lock_of_stderr", "1 KiB", |pd| {
        let (held, is_held) = mpsc::channel();
        thread::spawn(move || {
            let _lock = io::stderr().lock();
            held.send(()).unwrap();
            loop {
                thread::park();
            }
        });
        is_held.recv().unwrap();
        SourceMr::scope(pd, &[0; 1024], |_| ()).unwrap();
    });
}
