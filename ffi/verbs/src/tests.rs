//! The crate over libraries that record their calls and fail as scripted.

use super::sys::fake::{Posted, answer, begin, calls, rdmacm, script, verbs};
use super::sys::{ibv_send_flags, ibv_wc, ibv_wc_status, ibv_wr_opcode, rdma_cm_event_type};
use super::*;
use std::time::Instant;

const CONFIG: QpConfig = QpConfig { send_depth: 4, receive_depth: 4, inline_bytes: 64 };
const THERE: RemoteAddr = RemoteAddr { addr: 0x1000, rkey: Rkey(9) };

fn context() -> Context {
    script(|script| script.devices = vec!["fake0", "fake1"]);
    DeviceList::of(verbs()).unwrap().find("fake1").unwrap().open().unwrap()
}

fn region(pd: &Pd) -> Mr {
    Mr::register(pd, Pages::map(4096).unwrap(), Access::RemoteWrite).unwrap()
}

fn qp() -> (Qp, Cq, Mr) {
    let context = context();
    let pd = Pd::alloc(&context).unwrap();
    let cq = Cq::create(&context, 8, None).unwrap();
    (Qp::create(&pd, &cq, &cq, CONFIG).unwrap(), cq, region(&pd))
}

fn text<T>(result: Result<T, Error>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn nothing_is_destroyed_before_its_users() {
    begin();
    let context = context();
    let pd = Pd::alloc(&context).unwrap();
    let channel = CompChannel::create(&context).unwrap();
    let cq = Cq::create(&context, 8, Some(&channel)).unwrap();
    let mr = region(&pd);
    let qp = Qp::create(&pd, &cq, &cq, CONFIG).unwrap();
    calls();
    drop((context, channel, cq, pd));
    assert!(calls().is_empty(), "all of these have users");
    drop(qp);
    assert_eq!(calls(), ["ibv_destroy_qp", "ibv_destroy_cq", "ibv_destroy_comp_channel"]);
    drop(mr);
    assert_eq!(calls(), ["ibv_dereg_mr", "ibv_dealloc_pd", "ibv_close_device"]);
}

#[test]
fn a_cm_id_outlives_what_was_made_from_it() {
    begin();
    let channel = EventChannel::of(rdmacm(), verbs()).unwrap();
    let id = CmId::create(&channel).unwrap();
    let pd = Pd::alloc(&id.context().unwrap()).unwrap();
    let mr = region(&pd);
    calls();
    drop((channel, id, pd));
    assert!(calls().is_empty(), "all of these have users");
    drop(mr);
    let order = ["ibv_dereg_mr", "ibv_dealloc_pd", "rdma_destroy_id", "rdma_destroy_event_channel"];
    assert_eq!(calls(), order, "rdma_cm closes the device that it opened");
}

#[test]
fn memory_that_the_nic_may_still_have_stays_mapped() {
    begin();
    let is_mapped = |mr: Mr| {
        let (start, len) = (mr.as_ptr(), mr.len());
        drop(mr);
        // SAFETY: msync of a range that is not mapped answers ENOMEM; of one that is, it changes no byte.
        unsafe { libc::msync(start.as_ptr().cast(), len, libc::MS_ASYNC) == 0 }
    };
    let pd = Pd::alloc(&context()).unwrap();
    // Another test's thread may map there in between, but not every time.
    assert!((0..100).any(|_| !is_mapped(region(&pd))));
    answer("ibv_dereg_mr", libc::EBUSY);
    assert!((0..100).all(|_| is_mapped(region(&pd))));
}

#[test]
fn a_verb_that_fails_is_named_with_errno_and_remedy() {
    begin();
    let (mut qp, cq, _mr) = qp();
    let (context, pd) = (context(), Pd::alloc(&context()).unwrap());
    let id = CmId::create(&EventChannel::of(rdmacm(), verbs()).unwrap()).unwrap();
    answer("ibv_reg_mr", libc::ENOMEM);
    let message = text(Mr::register(&pd, Pages::map(64 << 20).unwrap(), Access::Local));
    assert!(
        message.starts_with("cannot register 64 MiB (ibv_reg_mr): cannot allocate memory; "),
        "{message}"
    );
    assert!(message.contains("RLIMIT_MEMLOCK"), "{message}");
    answer("ibv_open_device", libc::EACCES);
    let message = text(DeviceList::of(verbs()).unwrap().find("fake0").unwrap().open());
    assert!(
        message.starts_with("cannot open fake0 (ibv_open_device): permission denied; let this user"),
        "{message}"
    );
    answer("ibv_create_cq", libc::EINVAL);
    let message = text(Cq::create(&context, 70_000, None));
    assert!(
        message.starts_with("cannot make a completion queue of 70000 (ibv_create_cq): invalid argument; ask")
    );
    let message = text(Qp::create(&pd, &cq, &cq, CONFIG));
    assert_eq!(message, "a QP and its completion queue are of different devices");
    answer("ibv_create_qp", libc::EINVAL);
    let message = text(Qp::create(&Pd::alloc(cq.context()).unwrap(), &cq, &cq, CONFIG));
    assert!(
        message.starts_with(
            "cannot make a queue pair (4 to send, 4 to receive, 64 bytes inline) (ibv_create_qp)"
        )
    );
    answer("ibv_modify_qp", libc::EINVAL);
    let message = text(qp.modify(&id.qp_attr(QpState::ReadyToReceive).unwrap()));
    assert!(
        message.starts_with("cannot move a queue pair to RTR with MTU 1024 (ibv_modify_qp): invalid"),
        "{message}"
    );
    assert!(message.contains("an MTU that both have"), "{message}");
    answer("ibv_query_gid", libc::EIO);
    let message = text(context.gid(1, 0));
    assert!(message.starts_with("cannot query GID 0 of port 1 of fake1 (ibv_query_gid): "), "{message}");
    answer("ibv_alloc_pd", libc::ENOMEM);
    assert!(text(Pd::alloc(&context)).contains("(ibv_alloc_pd): cannot allocate memory"));
}

#[test]
fn a_host_without_rdma_gets_a_remedy() {
    begin();
    script(|script| script.devices.clear());
    assert_eq!(DeviceList::of(verbs()).unwrap().find("rxe0").err(), Some(Error::NoDevice));
    answer("ibv_get_device_list", libc::ENOSYS);
    assert_eq!(DeviceList::of(verbs()).err(), Some(Error::NoDevice));
    answer("ibv_get_device_list", libc::EMFILE);
    let message = text(DeviceList::of(verbs()));
    let message =
        message.strip_prefix("cannot list the RDMA devices (ibv_get_device_list): too many open files; ");
    assert!(message.unwrap().starts_with("raise the limit of open files (now "), "{message:?}");
    answer("rdma_create_event_channel", libc::ENOENT);
    let message = text(EventChannel::of(rdmacm(), verbs()));
    assert!(
        message.contains("(rdma_create_event_channel): no such file or directory; load the kernel's part")
    );
    assert!(message.contains("rdma link add rxe0 type rxe netdev eth0"), "{message}");
}

#[test]
fn a_batch_is_one_doorbell() {
    begin();
    let (mut qp, _cq, mr) = qp();
    assert_eq!((qp.number(), qp.granted().inline_bytes), (77, 80));
    let start = mr.remote_addr();
    let flags = SendFlags { signaled: true, inline: true };
    for _ in 0..2 {
        let mut batch = qp.batch();
        batch.write(1, mr.sge(64, 4032).unwrap(), THERE, SendFlags::default()).unwrap();
        batch.write_with_immediate(2, mr.sge(0, 8).unwrap(), THERE, 5, flags).unwrap();
        batch.send_nothing(3, SendFlags::SIGNALED).unwrap();
        batch.post().unwrap();
    }
    let both = ibv_send_flags::IBV_SEND_SIGNALED | ibv_send_flags::IBV_SEND_INLINE;
    let posted = |id, opcode, flags: u32, from: Vec<_>, to| {
        let lkeys = vec![mr.lkey().0; from.len()];
        let rkey = if to == 0 { 0 } else { THERE.rkey.0 };
        let immediate = if opcode == ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM { 5 } else { 0 };
        Posted { id, opcode, flags, from, lkeys, to, rkey, immediate }
    };
    let expected = vec![
        posted(1, ibv_wr_opcode::IBV_WR_RDMA_WRITE, 0, vec![(start + 64, 4032)], 0x1000),
        posted(2, ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM, both.0, vec![(start, 8)], 0x1000),
        posted(3, ibv_wr_opcode::IBV_WR_SEND, ibv_send_flags::IBV_SEND_SIGNALED.0, vec![], 0),
    ];
    assert_eq!(script(|script| script.posted.clone()), [expected.clone(), expected]);
}

#[test]
fn an_empty_or_dropped_batch_rings_nothing() {
    begin();
    let (mut qp, _cq, mr) = qp();
    qp.batch().post().unwrap();
    {
        let mut batch = qp.batch();
        for id in 0..4 {
            batch.send(id, mr.sge(0, 1).unwrap(), SendFlags::default()).unwrap();
        }
        assert_eq!(batch.send_nothing(4, SendFlags::default()), Err(BatchFull));
    }
    assert!(script(|script| script.posted.is_empty()));
}

#[test]
fn a_partly_posted_batch_is_reported_with_its_count() {
    begin();
    let (mut qp, _cq, mr) = qp();
    script(|script| script.taken = 2);
    for code in [libc::ENOMEM, -libc::ENOMEM] {
        answer("post_send", code);
        let mut batch = qp.batch();
        for id in 0..4 {
            batch.send(id, mr.sge(0, 1).unwrap(), SendFlags::default()).unwrap();
        }
        let error = batch.post().unwrap_err();
        assert_eq!(error.posted, 2);
        assert_eq!(
            error.to_string(),
            "cannot post work request 3 of 4 (ibv_post_send): cannot allocate memory; the queue is full: post again \
             after a completion"
        );
    }
    answer("post_recv", -libc::EINVAL);
    assert_eq!(text(qp.post_receive(1, None)), "cannot post a receive (ibv_post_recv): invalid argument");
}

#[test]
fn completions_come_as_the_device_wrote_them() {
    begin();
    let (_qp, cq, _mr) = qp();
    let wc =
        |wr_id, status| ibv_wc { wr_id, status: ibv_wc_status(status), vendor_err: 3, ..ibv_wc::default() };
    script(|script| script.completions = vec![wc(1, 0), wc(2, 12), wc(3, 99)]);
    let mut some = [Wc::default(); 2];
    assert_eq!(cq.poll(&mut some), Ok(2));
    assert_eq!((some[0].id(), some[0].result()), (1, Ok(())));
    assert_eq!(some[1].status(), WcStatus::RETRY_EXCEEDED);
    assert_eq!(cq.poll(&mut some), Ok(1));
    let error = some[0].result().unwrap_err();
    assert_eq!((error.status, error.vendor_err, some[0].status().name()), (WcStatus(99), 3, None));
    assert_eq!(cq.poll(&mut some), Ok(0));
    answer("poll_cq", -libc::EIO);
    assert_eq!(text(cq.poll(&mut some)), "cannot poll a completion queue (ibv_poll_cq): input/output error");
}

#[test]
fn completion_events_are_acknowledged_and_waiting_has_an_end() {
    begin();
    let context = context();
    let channel = CompChannel::create(&context).unwrap();
    let cq = Cq::create(&context, 8, Some(&channel)).unwrap();
    cq.request_notify().unwrap();
    calls();
    let event = channel.next_event(Instant::now()).unwrap();
    assert_eq!(calls(), ["ibv_get_cq_event", "ibv_ack_cq_events"]);
    assert!(!cq.is_source_of(event), "it is another queue's");
    answer("ibv_get_cq_event", libc::EAGAIN);
    assert_eq!(channel.next_event(Instant::now()), Err(Error::TimedOut));
    answer("ibv_get_cq_event", libc::EIO);
    assert!(text(channel.try_event()).contains("(ibv_get_cq_event): input/output error"));
}

#[test]
fn events_are_copied_acknowledged_and_made_errors() {
    begin();
    let channel = EventChannel::of(rdmacm(), verbs()).unwrap();
    script(|script| {
        script.events = vec![
            (rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST, 0),
            (rdma_cm_event_type::RDMA_CM_EVENT_REJECTED, 8),
            (rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED, 0),
        ];
        script.private_data = b"hello".to_vec();
    });
    calls();
    let request = channel.expect(CmEventKind::CONNECT_REQUEST, Instant::now()).unwrap();
    assert_eq!((request.id, &request.private_data[..]), (4711, &b"hello"[..]));
    assert_eq!(calls(), ["rdma_get_cm_event", "rdma_ack_cm_event"]);
    drop(request);
    assert_eq!(calls(), ["rdma_destroy_id"], "a request that nobody takes is refused");
    let message = text(channel.expect(CmEventKind::CONNECT_RESPONSE, Instant::now()));
    assert_eq!(message, "nobody listens there; start the receiver first");
    let message = text(channel.expect(CmEventKind::CONNECT_RESPONSE, Instant::now()));
    assert_eq!(message, "RDMA_CM_EVENT_ESTABLISHED came while RDMA_CM_EVENT_CONNECT_RESPONSE was due");
    assert!(channel.try_event().unwrap().is_none());
    assert_eq!(channel.next_event(Instant::now()).err(), Some(Error::TimedOut));
}

#[test]
fn connecting_passes_on_what_it_was_given() {
    begin();
    let mut id = CmId::create(&EventChannel::of(rdmacm(), verbs()).unwrap()).unwrap();
    id.set_ack_timeout(14).unwrap();
    id.set_type_of_service(32).unwrap();
    assert_eq!(script(|script| script.options.clone()), [(3, 14), (0, 32)]);
    let params = |private_data| ConnectParams { qp_number: 7, private_data, retries: 7, rnr_retries: 6 };
    id.connect(params(&[1; 56])).unwrap();
    id.accept(params(b"yes")).unwrap();
    assert_eq!(script(|script| script.params.clone()), [(7, vec![1; 56]), (7, b"yes".to_vec())]);
    calls();
    assert_eq!(id.connect(params(&[1; 57])), Err(Error::PrivateData { bytes: 57, max: 56 }));
    assert_eq!(id.accept(params(&[1; 300])), Err(Error::PrivateData { bytes: 300, max: 56 }));
    assert_eq!(id.reject(&[0; 57]), Err(Error::PrivateData { bytes: 57, max: 56 }));
    assert!(calls().is_empty());
    answer("rdma_connect", -1);
    // SAFETY: errno is the calling thread's own word.
    unsafe { *libc::__errno_location() = libc::ECONNREFUSED };
    let message = text(id.connect(params(b"")));
    assert_eq!(
        message,
        "cannot connect (rdma_connect): connection refused; nobody listens there; start the receiver first"
    );
}

#[test]
fn a_library_that_cannot_tell_promises_no_order() {
    begin();
    let (qp, _cq, _mr) = qp();
    assert!(!qp.writes_arrive_in_order());
}
