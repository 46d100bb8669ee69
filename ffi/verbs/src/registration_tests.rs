//! Registration and deregistration, of memory that a region owns and of memory that it borrows.

use super::sys::fake::{Region, answer, begin, calls, execute, gathered, script, verbs, write_from_peer};
use super::sys::ibv_qp_state;
use super::*;
use core::mem::MaybeUninit;
use core::panic::AssertUnwindSafe;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::panic::catch_unwind;
use std::sync::Arc;

const THERE: RemoteAddr = RemoteAddr { addr: 0x1000, rkey: Rkey(9) };
/// IBV_WC_LOC_PROT_ERR
const LOCAL_PROTECTION: WcStatus = WcStatus(4);
/// IBV_WC_REM_ACCESS_ERR
const REMOTE_ACCESS: WcStatus = WcStatus(10);

fn pd() -> Pd {
    begin();
    script(|script| script.devices = vec!["fake0"]);
    let pd = Pd::alloc(&DeviceList::of(verbs()).unwrap().find("fake0").unwrap().open().unwrap()).unwrap();
    calls();
    pd
}

fn qp(pd: &Pd) -> (Qp, Cq) {
    let cq = Cq::create(pd.context(), 8, None).unwrap();
    let config = QpConfig { send_depth: 4, receive_depth: 4, inline_bytes: 0 };
    let qp = Qp::create(pd, &cq, &cq, config).unwrap();
    calls();
    (qp, cq)
}

fn region(pd: &Pd, access: Access) -> Mr {
    Mr::register(pd, Pages::map(4096).unwrap(), access).unwrap()
}

/// Returns start, length and flags of the only region.
fn registered() -> (u64, u64, i32) {
    let Region { start, bytes, access, .. } = script(|script| match script.regions[..] {
        [region] => region,
        ref regions => panic!("{regions:?}"),
    });
    (start, bytes, access)
}

fn address(bytes: *const u8) -> u64 {
    bytes.addr() as u64
}

fn post(qp: &mut Qp, from: Sge<'_>) {
    let mut batch = qp.batch();
    batch.write(1, from, THERE, SendFlags::SIGNALED).unwrap();
    batch.post().unwrap();
}

/// Returns the status of the work request that was posted, if the device comes to it now.
fn executed(cq: &Cq) -> WcStatus {
    let posted = script(|script| script.posted[0][0].clone());
    execute(&posted);
    let mut done = [Wc::default()];
    assert_eq!(cq.poll(&mut done), Ok(1));
    assert_eq!(done[0].id(), 1);
    done[0].status()
}

/// Writes as the peer, to this place of a region.
fn peer_writes(addr: u64, rkey: Rkey, bytes: &[u8]) -> WcStatus {
    // SAFETY: these tests keep the memory of their destinations until they end, and look at it after the write.
    unsafe { write_from_peer(RemoteAddr { addr, rkey }, bytes) }
}

#[test]
fn access_is_the_flags_of_ibv_reg_mr() {
    let pd = pd();
    for (access, flags) in [(Access::LocalRead, 0), (Access::Local, 1), (Access::RemoteWrite, 3)] {
        let mr = region(&pd, access);
        assert_eq!(registered(), (mr.remote_addr(), 4096, flags), "{access:?}");
    }
}

#[test]
fn a_scope_registers_and_deregisters_the_slice() {
    let pd = pd();
    let bytes = [7; 100];
    let seen = SourceMr::scope(&pd, &bytes[10..], |mr| {
        assert_eq!(calls(), ["ibv_reg_mr"]);
        assert!(mr.sge(0, 90).is_some() && mr.sge(1, 90).is_none(), "{mr:?}");
        (mr.len(), registered())
    });
    assert_eq!(seen, Ok((90, (address(&bytes[10]), 90, 0))));
    assert_eq!(calls(), ["ibv_dereg_mr"]);

    let mut bytes = [7; 100];
    let start = address(&bytes[10]);
    let seen = DestinationMr::scope(&pd, &mut bytes[10..], |mr| {
        assert_eq!(calls(), ["ibv_reg_mr"]);
        assert_eq!(Some(mr.rkey().0), script(|script| script.regions.first().map(|region| region.key)));
        (mr.len(), mr.remote_addr(), registered())
    });
    assert_eq!(seen, Ok((90, start, (start, 90, 3))));
    assert_eq!(calls(), ["ibv_dereg_mr"]);
    assert!(script(|script| script.regions.is_empty()));
}

#[test]
fn a_scope_whose_closure_panics_deregisters() {
    let pd = pd();
    let source = AssertUnwindSafe(|| SourceMr::scope(&pd, &[1], |_| panic!("on purpose")));
    assert_eq!(catch_unwind(source).unwrap_err().downcast_ref(), Some(&"on purpose"));
    assert_eq!(calls(), ["ibv_reg_mr", "ibv_dereg_mr"]);
    let destination = AssertUnwindSafe(|| DestinationMr::scope(&pd, &mut [1], |_| panic!("on purpose")));
    assert_eq!(catch_unwind(destination).unwrap_err().downcast_ref(), Some(&"on purpose"));
    assert_eq!(calls(), ["ibv_reg_mr", "ibv_dereg_mr"]);
}

#[test]
fn a_scope_that_cannot_register_calls_nothing() {
    let pd = pd();
    let empty = "cannot register 0 bytes (ibv_reg_mr): invalid argument";
    let errors = || {
        [
            SourceMr::scope(&pd, &[], |_| panic!("called")).unwrap_err(),
            DestinationMr::scope(&pd, &mut [], |_| panic!("called")).unwrap_err(),
            DestinationMr::scope_uninit(&pd, &mut [], |_| panic!("called")).unwrap_err(),
        ]
    };
    assert!(errors().iter().all(|error| error.to_string() == empty));
    assert!(calls().is_empty());
    answer("ibv_reg_mr", libc::ENOMEM);
    let error = SourceMr::scope(&pd, &[0; 2048], |_| panic!("called")).unwrap_err();
    assert!(matches!(error, Error::Limit(_)), "{error}");
    let error = error.to_string();
    assert!(error.starts_with("cannot register 2 KiB (ibv_reg_mr): cannot allocate memory; "), "{error}");
    assert_eq!(calls(), ["ibv_reg_mr"]);
}

#[test]
fn the_nic_reads_a_source_where_it_is() {
    let pd = pd();
    let (mut qp, cq) = qp(&pd);
    static CONSTANT: [u8; 6] = *b"source";
    SourceMr::scope(&pd, &CONSTANT, |mr| {
        post(&mut qp, mr.sge(1, 4).unwrap());
        let posted = script(|script| script.posted[0][0].clone());
        // SAFETY: the slice is borrowed, and nobody writes it.
        assert_eq!(unsafe { gathered(&posted) }, b"ourc");
        assert_eq!(executed(&cq), WcStatus::SUCCESS);
    })
    .unwrap();
}

#[test]
fn the_peer_writes_a_destination_in_its_scope_only() {
    let pd = pd();
    let mut bytes = *b"........";
    let place = DestinationMr::scope(&pd, &mut bytes[2..6], |mr| {
        assert_eq!(peer_writes(mr.remote_addr() + 1, mr.rkey(), b"new"), WcStatus::SUCCESS);
        assert_eq!(peer_writes(mr.remote_addr() + 2, mr.rkey(), b"too"), REMOTE_ACCESS, "beyond its end");
        (mr.remote_addr(), mr.rkey())
    });
    let (addr, rkey) = place.unwrap();
    assert_eq!(peer_writes(addr, rkey, b"late"), REMOTE_ACCESS);
    assert_eq!(&bytes, b"...new..");
}

#[test]
fn the_peer_fills_memory_that_was_never_written() {
    let pd = pd();
    let mut bytes = [MaybeUninit::uninit(); 5];
    let written =
        DestinationMr::scope_uninit(&pd, &mut bytes, |mr| peer_writes(mr.remote_addr(), mr.rkey(), b"peer!"));
    assert_eq!(written, Ok(WcStatus::SUCCESS));
    // SAFETY: the peer has written all of it.
    assert_eq!(&bytes.map(|byte| unsafe { byte.assume_init() }), b"peer!");
}

#[test]
fn a_source_is_written_by_nobody() {
    let pd = pd();
    let (mut qp, _cq) = qp(&pd);
    let bytes = [0; 64];
    let into_source = SourceMr::scope(&pd, &bytes, |mr| {
        let key = script(|script| script.regions[0].key);
        assert_eq!(peer_writes(address(&raw const bytes[0]), Rkey(key), b"new"), REMOTE_ACCESS);
        qp.post_receive(1, mr.sge(0, 64))
    });
    let refused = Error::Mismatch("a receive is posted into memory that was registered to be read only");
    assert_eq!(into_source, Ok(Err(refused.clone())));
    let read_only = region(&pd, Access::LocalRead);
    assert_eq!(qp.post_receive(2, read_only.sge(0, 64)), Err(refused));
    for access in [Access::Local, Access::RemoteWrite] {
        qp.post_receive(3, region(&pd, access).sge(0, 64)).unwrap();
    }
    let receives = script(|script| script.receives.iter().map(|&(id, ..)| id).collect::<Vec<_>>());
    assert_eq!(receives, [3, 3]);
    assert_eq!(bytes, [0; 64]);
}

#[test]
fn a_work_request_that_outlives_its_scope_fails() {
    let pd = pd();
    let (mut qp, cq) = qp(&pd);
    let bytes = [1; 64];
    SourceMr::scope(&pd, &bytes, |mr| post(&mut qp, mr.sge(0, 64).unwrap())).unwrap();
    assert_eq!(calls(), ["ibv_reg_mr", "post_send", "ibv_dereg_mr"]);
    // Registered anew, and by another key.
    SourceMr::scope(&pd, &bytes, |_| assert_eq!(executed(&cq), LOCAL_PROTECTION)).unwrap();
}

#[test]
fn a_qp_that_is_failed_in_the_scope_flushes() {
    let pd = pd();
    let (mut qp, cq) = qp(&pd);
    let failed = SourceMr::scope(&pd, &[1; 64], |mr| {
        post(&mut qp, mr.sge(0, 64).unwrap());
        qp.fail()
    });
    assert_eq!(failed, Ok(Ok(())));
    assert_eq!(calls(), ["ibv_reg_mr", "post_send", "ibv_modify_qp", "ibv_dereg_mr"]);
    assert_eq!(script(|script| script.states.clone()), [ibv_qp_state::IBV_QPS_ERR]);
    assert_eq!(executed(&cq), WcStatus::FLUSHED);
}

#[test]
fn scopes_nest_and_are_shared_between_threads() {
    let pd = pd();
    let (near, mut far) = ([1; 64], [2; 64]);
    let lengths = SourceMr::scope(&pd, &near, |source| {
        let nested = DestinationMr::scope(&pd, &mut far, |destination| {
            assert_eq!(script(|script| script.regions.len()), 2);
            std::thread::scope(|scope| {
                let other = scope.spawn(|| (source.len(), source.sge(0, 64).is_some(), destination.len()));
                other.join().unwrap()
            })
        });
        assert_eq!(script(|script| script.regions.len()), 1);
        nested
    });
    assert_eq!(lengths, Ok(Ok((64, true, 64))));
    assert_eq!(calls(), ["ibv_reg_mr", "ibv_reg_mr", "ibv_dereg_mr", "ibv_dereg_mr"]);
}

#[test]
fn deregister_gives_the_memory_back() {
    let pd = pd();
    let mr = region(&pd, Access::RemoteWrite);
    let (addr, rkey) = (mr.remote_addr(), mr.rkey());
    assert_eq!(peer_writes(addr, rkey, b"kept"), WcStatus::SUCCESS);
    drop(pd);
    calls();
    let memory = mr.deregister().unwrap();
    assert_eq!(
        calls(),
        ["ibv_dereg_mr", "ibv_dealloc_pd", "ibv_close_device"],
        "the region was the last user"
    );
    assert_eq!(peer_writes(addr, rkey, b"late"), REMOTE_ACCESS);
    assert_eq!((address(memory.as_ptr().as_ptr()), memory.len()), (addr, 4096));
    // SAFETY: the memory is mapped, and no device knows it any more.
    assert_eq!(unsafe { memory.as_ptr().cast::<[u8; 4]>().read() }, *b"kept");
    drop(memory);
    assert!(calls().is_empty());
}

#[test]
fn a_deregistration_that_fails_keeps_the_memory() {
    let pd = pd();
    let is_released = Arc::new(AtomicBool::new(false));
    let memory = Noted { pages: Pages::map(4096).unwrap(), is_released: Arc::clone(&is_released) };
    let mr = Mr::register(&pd, memory, Access::RemoteWrite).unwrap();
    calls();
    answer("ibv_dereg_mr", libc::EBUSY);
    let (error, mr) = mr.deregister().unwrap_err();
    assert_eq!(error.to_string(), "cannot deregister 4 KiB (ibv_dereg_mr): device or resource busy");
    assert_eq!(peer_writes(mr.remote_addr(), mr.rkey(), b"still"), WcStatus::SUCCESS);
    // SAFETY: the memory is mapped, and no write is under way.
    assert_eq!(unsafe { mr.as_ptr().cast::<[u8; 5]>().read() }, *b"still");
    assert!(mr.sge(0, 4096).is_some());

    answer("ibv_dereg_mr", 0);
    let memory = mr.deregister().unwrap();
    assert_eq!(calls(), ["ibv_dereg_mr", "ibv_dereg_mr"]);
    assert!(!is_released.load(Ordering::Relaxed));
    drop(memory);
    assert!(is_released.load(Ordering::Relaxed));
}

#[test]
fn a_region_dropped_after_a_failed_deregister_leaks() {
    let pd = pd();
    let is_released = Arc::new(AtomicBool::new(false));
    let region = || {
        let memory = Noted { pages: Pages::map(4096).unwrap(), is_released: Arc::clone(&is_released) };
        Mr::register(&pd, memory, Access::Local).unwrap()
    };
    answer("ibv_dereg_mr", -libc::EBUSY);
    let (_, mr) = region().deregister().unwrap_err();
    calls();
    drop(mr);
    assert_eq!(calls(), ["ibv_dereg_mr"], "it is tried once more");
    assert!(!is_released.load(Ordering::Relaxed));

    let (_, mr) = region().deregister().unwrap_err();
    answer("ibv_dereg_mr", 0);
    drop(mr);
    assert!(is_released.load(Ordering::Relaxed), "the device has given it up after all");
}

/// Pages that note their release.
#[derive(Debug)]
struct Noted {
    pages: Pages,
    is_released: Arc<AtomicBool>,
}

// SAFETY: 1. to 3. As `Pages`.
unsafe impl Memory for Noted {
    fn as_ptr(&self) -> NonNull<u8> {
        self.pages.as_ptr()
    }

    fn len(&self) -> usize {
        self.pages.len()
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.is_released.store(true, Ordering::Relaxed);
    }
}

#[test]
fn lent_memory_is_deregistered_once_by_drop_or_call() {
    let pd = pd();
    let mut bytes = [7; 100];
    let start = NonNull::from(&mut bytes).cast();
    for is_dropped in [true, false] {
        // SAFETY: the array lives as long as the region, and nobody looks at it meanwhile.
        let mr = unsafe { LentMr::register(&pd, start, 100, Access::RemoteWrite) }.unwrap();
        assert_eq!(registered(), (address(start.as_ptr()), 100, 3));
        assert_eq!((mr.len(), mr.remote_addr()), (100, address(start.as_ptr())));
        assert!(mr.sge(0, 100).is_some() && mr.sge(1, 100).is_none(), "{mr:?}");
        assert_eq!(peer_writes(mr.remote_addr(), mr.rkey(), &[9]), WcStatus::SUCCESS);
        if is_dropped {
            drop(mr)
        } else {
            mr.deregister().unwrap()
        }
        assert_eq!(calls(), ["ibv_reg_mr", "ibv_dereg_mr"]);
    }
    assert_eq!(bytes[..2], [9, 7]);
}

#[test]
fn lent_memory_that_stays_registered_comes_back() {
    let pd = pd();
    let bytes = [7; 100];
    // SAFETY: the array lives as long as the region, whose NIC reads it.
    let mr = unsafe { LentMr::register(&pd, NonNull::from(&bytes).cast(), 100, Access::LocalRead) }.unwrap();
    answer("ibv_dereg_mr", libc::EBUSY);
    let (error, mr) = mr.deregister().unwrap_err();
    assert!(error.to_string().contains("cannot deregister 100 bytes"), "{error}");
    assert!(mr.sge(0, 100).is_some());
    answer("ibv_dereg_mr", 0);
    calls();
    drop(mr);
    assert_eq!(calls(), ["ibv_dereg_mr"]);
    answer("ibv_reg_mr", libc::ENOMEM);
    // SAFETY: nothing is registered.
    let refused = unsafe { LentMr::register(&pd, NonNull::from(&bytes).cast(), 100, Access::LocalRead) };
    assert!(refused.is_err());
    // SAFETY: nothing is registered.
    assert!(unsafe { LentMr::register(&pd, NonNull::from(&bytes).cast(), 0, Access::LocalRead) }.is_err());
}
