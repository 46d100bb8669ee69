//! Transfers over a device.

use crate::addresses;
use crate::counting::allocations;
use crate::end::{BYTES, End, deadline, pair, until};
use std::time::Instant;
use superpipe_verbs::{
    BatchFull, CmEventKind, DestinationMr, Memory, RemoteAddr, SendFlags, SourceMr, Transport, Wc, WcOpcode,
};

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed).to_le_bytes()[0]).collect()
}

fn all_succeeded(completions: &[Wc]) {
    for wc in completions {
        assert_eq!(wc.result(), Ok(()), "{wc:?}");
    }
}

fn transport(end: &End) -> Transport {
    end.id.context().unwrap().transport()
}

#[test]
fn a_batch_of_writes_and_a_send_arrive_whole() {
    for ip in addresses() {
        let (mut active, passive) = pair(ip);
        let bytes = pattern(BYTES / 2, 7);
        active.put(BYTES / 2, &bytes);
        let there = active.there(BYTES as u64 / 2);
        let more = active.there(BYTES as u64 / 2 + 65536);
        let mut batch = active.qp.batch();
        batch.write(1, active.mr.sge(BYTES / 2, 65536).unwrap(), there, SendFlags::default()).unwrap();
        batch.write(2, active.mr.sge(BYTES / 2 + 65536, 65536).unwrap(), more, SendFlags::SIGNALED).unwrap();
        batch.send(3, active.mr.sge(BYTES / 2, 100).unwrap(), SendFlags::SIGNALED).unwrap();
        batch.post().unwrap();
        let arrived = passive.completions(1);
        all_succeeded(&arrived);
        assert_eq!(
            (arrived[0].id(), arrived[0].opcode(), arrived[0].bytes()),
            (1000, WcOpcode::Receive, 100)
        );
        assert_eq!(passive.take(BYTES / 2, BYTES / 2), bytes);
        assert_eq!(passive.take(0, 100), bytes[..100]);
        let sent = active.completions(2);
        all_succeeded(&sent);
        assert_eq!(sent.iter().map(Wc::id).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(sent.iter().map(Wc::opcode).collect::<Vec<_>>(), [WcOpcode::Write, WcOpcode::Send]);
        assert!(!passive.qp.writes_arrive_in_order(), "the soft drivers promise nothing");
    }
}

#[test]
fn an_immediate_comes_with_its_write_where_the_device_has_it() {
    for ip in addresses() {
        let (mut active, passive) = pair(ip);
        let bytes = pattern(8192, 3);
        active.put(8192, &bytes);
        let there = active.there(8192);
        let mut batch = active.qp.batch();
        let from = active.mr.sge(8192, 8192).unwrap();
        batch.write_with_immediate(1, from, there, 0xDEAD_BEEF, SendFlags::SIGNALED).unwrap();
        let posted = batch.post();
        if transport(&active) == Transport::Iwarp {
            let error = posted.unwrap_err();
            assert_eq!(error.posted, 0);
            assert!(error.to_string().contains("(ibv_post_send): invalid argument"), "{error}");
            continue;
        }
        posted.unwrap();
        let arrived = passive.completions(1);
        all_succeeded(&arrived);
        assert_eq!(arrived[0].opcode(), WcOpcode::ReceiveImmediate);
        assert_eq!(arrived[0].immediate(), Some(0xDEAD_BEEF));
        assert_eq!(passive.take(8192, 8192), bytes);
        all_succeeded(&active.completions(1));
    }
}

#[test]
fn an_empty_send_proves_the_writes_before_it_both_ways() {
    for ip in addresses() {
        let (mut active, mut passive) = pair(ip);
        let is_iwarp = transport(&active) == Transport::Iwarp;
        for round in 0..20_usize {
            let (from, to) =
                if round % 2 == 0 { (&mut active, &mut passive) } else { (&mut passive, &mut active) };
            let bytes = pattern(4096, round);
            from.put(4096, &bytes);
            let there = from.there(8192);
            let mut batch = from.qp.batch();
            batch.write(0, from.mr.sge(4096, 4096).unwrap(), there, SendFlags::default()).unwrap();
            batch.send_nothing(1, SendFlags::SIGNALED).unwrap();
            batch.post().unwrap();
            let arrived = to.completions(1);
            all_succeeded(&from.completions(1));
            all_succeeded(&arrived);
            assert_eq!((arrived[0].bytes(), arrived[0].immediate()), (0, None));
            assert_eq!(to.take(8192, 4096), bytes);
            let place = if is_iwarp { to.mr.sge(0, 64) } else { None };
            to.qp.post_receive(round as u64, place).unwrap();
        }
    }
}

/// Memory that the process may not write.
static CONSTANT: [u8; 8192] = [0xA5; 8192];

#[test]
fn a_write_goes_from_read_only_to_borrowed_memory() {
    for ip in addresses() {
        let (mut active, passive) = pair(ip);
        let mut place = vec![1; 3 * 8192];
        let pd = active.pd.clone();
        let written = DestinationMr::scope(&passive.pd, &mut place[8192..2 * 8192], |mr| {
            let there = RemoteAddr { addr: mr.remote_addr(), rkey: mr.rkey() };
            SourceMr::scope(&pd, &CONSTANT, |mr| {
                let mut batch = active.qp.batch();
                batch.write(1, mr.sge(0, 8192).unwrap(), there, SendFlags::SIGNALED).unwrap();
                batch.send_nothing(2, SendFlags::SIGNALED).unwrap();
                batch.post().unwrap();
                all_succeeded(&passive.completions(1));
                all_succeeded(&active.completions(2));
            })
        });
        assert_eq!(written, Ok(Ok(())));
        assert_eq!(place[8192..2 * 8192], CONSTANT);
        assert!(place[..8192].iter().chain(&place[2 * 8192..]).all(|byte| *byte == 1));
    }
}

#[test]
fn memory_comes_back_from_its_region() {
    for ip in addresses() {
        let (mut active, passive) = pair(ip);
        active.put(0, b"back");
        let mut batch = active.qp.batch();
        batch.write(1, active.mr.sge(0, 4).unwrap(), active.peer, SendFlags::default()).unwrap();
        batch.send_nothing(2, SendFlags::SIGNALED).unwrap();
        batch.post().unwrap();
        all_succeeded(&passive.completions(1));
        all_succeeded(&active.completions(1));
        let memory = passive.mr.deregister().unwrap();
        active.put(0, b"late");
        let mut batch = active.qp.batch();
        batch.write(3, active.mr.sge(0, 4).unwrap(), active.peer, SendFlags::SIGNALED).unwrap();
        batch.post().unwrap();
        let ended = active.completions(1);
        if transport(&active) != Transport::Iwarp {
            // siw says success, and fails later.
            assert_eq!(ended[0].status().name(), Some("REM_ACCESS_ERR"));
        }
        drop((active, passive.qp));
        // SAFETY: the memory is mapped, and no device knows it any more.
        assert_eq!(unsafe { memory.as_ptr().cast::<[u8; 4]>().read() }, *b"back");
    }
}

#[test]
fn a_batch_has_the_room_that_was_asked_for() {
    for ip in addresses() {
        let (mut active, _passive) = pair(ip);
        let mut batch = active.qp.batch();
        for id in 0..16 {
            batch.send_nothing(id, SendFlags::default()).unwrap();
        }
        assert_eq!(batch.send_nothing(16, SendFlags::default()), Err(BatchFull));
        assert_eq!(batch.len(), 16);
        active.qp.batch().post().unwrap();
    }
}

#[test]
fn posting_and_polling_allocate_nothing() {
    for ip in addresses() {
        let (mut active, mut passive) = pair(ip);
        let there = active.there(0);
        let mut some = [Wc::default(); 4];
        let before = allocations();
        for id in 0..8 {
            passive.qp.post_receive(id, passive.mr.sge(0, 64)).unwrap();
        }
        for round in 0..8 {
            let mut batch = active.qp.batch();
            for part in 0..3 {
                let from = active.mr.sge(4096 * part, 4096).unwrap();
                batch.write(0, from, there, SendFlags::default()).unwrap();
            }
            batch.send_nothing(round, SendFlags::SIGNALED).unwrap();
            batch.post().unwrap();
            let (mut sent, mut arrived, deadline) = (0, 0, deadline());
            while sent < 1 || arrived < 1 {
                assert!(Instant::now() < deadline);
                sent += active.cq.poll(&mut some).unwrap();
                arrived += passive.cq.poll(&mut some).unwrap();
            }
        }
        assert_eq!(allocations() - before, 0, "{ip}");
    }
}

#[test]
fn a_disconnect_is_reported() {
    for ip in addresses() {
        let (mut active, mut passive) = pair(ip);
        active.id.disconnect().unwrap();
        for end in [&mut passive, &mut active] {
            let deadline = deadline();
            let event = until(|| end.channel.next_event(deadline)).unwrap();
            assert_eq!((event.kind, event.id), (CmEventKind::DISCONNECTED, end.id.number()));
            // InfiniBand waits for this; on iWARP there is nothing left to disconnect.
            let _ = end.id.disconnect();
        }
    }
}
