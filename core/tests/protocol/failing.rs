//! A connection that failed sends nothing more than its CLOSE: not what was ready before, and not what is asked for later.

use superpipe_core::{
    Closed, Config, Endpoint, Failure, FlagPlace, Layout, Length, Line, Origin, ProtocolError, Reason,
    RefusedSend, WcError,
};
use superpipe_testkit::{Memory, Posted, Setup, TestFabric, wire};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };
/// A control message of no kind that there is.
const UNKNOWN: Line = Line([99, 0, 0, 0, 0, 0, 0, 1]);
const ROUNDS: usize = 500;

fn end<F: TestFabric>(send_queue: usize) -> (F, Endpoint<F>) {
    let fabric = F::new(&Setup { send_queue, ..Setup::new(LAYOUT, 1) });
    let end = Endpoint::new(&fabric, fabric.attachment(0), Config::default(), Origin::default()).unwrap();
    (fabric, end)
}

fn settle<F: TestFabric>(fabric: &mut F, end: &mut Endpoint<F>) {
    for _ in 0..ROUNDS {
        end.progress(fabric);
        fabric.step();
    }
}

/// Nothing came to the peer from this block on.
fn is_untouched<F: TestFabric>(fabric: &F, block: u32) -> bool {
    let from = block * LAYOUT.block_bytes;
    fabric.memories().bytes(Memory::landing(1), from, LAYOUT.bytes() - from).iter().all(|byte| *byte == 0)
}

/// The CLOSE, and nothing behind it.
fn close_came<F: TestFabric>(fabric: &F) -> bool {
    let said = |slot| fabric.memories().line(Memory::control_page(1), wire::mailbox(slot));
    (said(0).0[0], said(0).0[3]) == (3, u64::from(Reason::PROTOCOL.0)) && said(1) == Line::default()
}

#[test]
fn a_chunk_that_waits_is_not_posted_after_a_broken_rule() {
    let (mut fabric, mut end) = end::<Posted>(1);
    end.send_keepalive(&mut fabric);
    let id = end.start(1, Length::Stream).unwrap();
    assert_eq!(end.push(&mut fabric, id, &[&[7; 100]]), Ok(100));
    assert!(!end.is_flushed(), "the send queue is full");
    fabric.forge(Memory::control_page(0), wire::mailbox(0), &UNKNOWN);
    end.progress(&mut fabric);
    assert_eq!(end.closed(), Some(Closed::Failed(Failure::Protocol(ProtocolError::UnknownControl))));
    settle(&mut fabric, &mut end);
    assert!(is_untouched(&fabric, 0), "the chunk came after all");
    assert!(close_came(&fabric) && end.is_flushed());
}

/// Closing waits until the device owns nothing.
#[test]
fn a_chunk_that_was_never_posted_is_not_awaited() {
    let (mut fabric, mut end) = end::<Posted>(1);
    end.send_keepalive(&mut fabric);
    let id = end.start(1, Length::Stream).unwrap();
    assert_eq!(end.push(&mut fabric, id, &[&[7; 100]]), Ok(100));
    fabric.forge(Memory::control_page(0), wire::mailbox(0), &UNKNOWN);
    settle(&mut fabric, &mut end);
    end.close(&mut fabric, Reason::DONE);
    settle(&mut fabric, &mut end);
    assert!(end.is_flushed() && end.is_quiescent());
}

#[test]
fn a_chunk_that_waits_is_not_posted_after_a_failed_write() {
    let (mut fabric, mut end) = end::<Posted>(1);
    let error = WcError { status: 12, vendor_err: 0 };
    fabric.fail_next(0, error);
    let id = end.start(1, Length::Stream).unwrap();
    for _ in 0..2 {
        assert_eq!(end.push(&mut fabric, id, &[&[7; 100]]), Ok(100));
    }
    assert!(!end.is_flushed(), "the send queue is full");
    settle(&mut fabric, &mut end);
    assert_eq!(end.closed(), Some(Closed::Failed(Failure::Device(error))));
    assert!(is_untouched(&fabric, 1), "the chunk came after all");
    assert!(close_came(&fabric) && end.is_flushed());
}

fn every_sending_call_is_refused<F: TestFabric>() {
    let (mut fabric, mut end) = end::<F>(2);
    let id = end.start(1, Length::Stream).unwrap();
    assert_eq!(end.push(&mut fabric, id, &[&[7; 100]]), Ok(100));
    settle(&mut fabric, &mut end);
    assert_eq!(end.reserve(&mut fabric, id, 100).map(|it| it.bytes()), Ok(100));
    fabric.forge(Memory::control_page(0), wire::mailbox(0), &UNKNOWN);
    settle(&mut fabric, &mut end);
    let failed = Some(Closed::Failed(Failure::Protocol(ProtocolError::UnknownControl)));
    assert_eq!(end.closed(), failed);
    assert!(close_came(&fabric), "{}", F::NAME);
    let writes = fabric.write_counts(0).writes;
    let closed = Err(RefusedSend::Closed);
    assert_eq!(end.commit(&mut fabric, id, 100), closed, "{}", F::NAME);
    assert_eq!(end.push(&mut fabric, id, &[&[7; 100]]), Err(RefusedSend::Closed), "{}", F::NAME);
    assert_eq!(end.push(&mut fabric, id, &[]), Err(RefusedSend::Closed), "{}", F::NAME);
    assert_eq!(end.reserve(&mut fabric, id, 9).map(|it| it.bytes()), Err(RefusedSend::Closed), "{}", F::NAME);
    assert_eq!(end.finish(&mut fabric, id), closed, "{}", F::NAME);
    assert_eq!(end.start(1, Length::Stream), Err(RefusedSend::Closed), "{}", F::NAME);
    for bytes in [0, 8, 100, 600] {
        let sent = end.try_send(&mut fabric, 1, &[&vec![7; bytes]]);
        assert_eq!(sent, Err(RefusedSend::Closed), "{}", F::NAME);
    }
    // Closing says nothing more, and changes nothing.
    end.close(&mut fabric, Reason(5));
    settle(&mut fabric, &mut end);
    assert_eq!((end.closed(), fabric.write_counts(0).writes), (failed, writes), "{}", F::NAME);
    assert!(is_untouched(&fabric, 1), "{}", F::NAME);
}

#[test]
fn every_sending_call_is_refused_after_a_failure() {
    every_sending_call_is_refused::<superpipe_testkit::Direct>();
    every_sending_call_is_refused::<Posted>();
}

fn first_failure_is_told<F: TestFabric>() {
    let (mut fabric, mut end) = end::<F>(2);
    fabric.forge(Memory::control_page(0), wire::mailbox(0), &UNKNOWN);
    settle(&mut fabric, &mut end);
    let second = Line([1, 0, 1, 0, 0, 0, 0, 2]); // a CTS that names a chunk
    fabric.forge(Memory::control_page(0), wire::mailbox(1), &second);
    settle(&mut fabric, &mut end);
    let first = Closed::Failed(Failure::Protocol(ProtocolError::UnknownControl));
    assert_eq!(end.closed(), Some(first), "{}", F::NAME);
    assert!(close_came(&fabric), "{}", F::NAME);
}

#[test]
fn the_first_failure_is_reported() {
    first_failure_is_told::<superpipe_testkit::Direct>();
    first_failure_is_told::<Posted>();
}
