//! Peers whose messages break the protocol, made with rdma_cm alone: the error names the rule.

use crate::api::{DEADLINE, listen};
use crate::devices;
use crate::foreign_peers::{next, params, private_data, resolved};
use core::net::SocketAddr;
use core::time::Duration;
use std::thread;
use std::time::Instant;
use superpipe::fabric::shm::handshake::VERSION;
use superpipe::{ErrorKind, Options};
use superpipe_verbs::{
    Access, CmEventKind, CmId, Cq, EventChannel, Mr, Pages, Pd, Qp, QpConfig, QpState, SendFlags,
};

const CONFIG: QpConfig = QpConfig { send_depth: 8, receive_depth: 8, inline_bytes: 0 };
const PACKET_BYTES: u32 = 192;
const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const GRANT: u8 = 3;
/// Offsets of the bytes to send, and of the place to receive.
const OUT: usize = 0;
const IN: usize = 4096;

/// A peer that sends arbitrary messages.
struct Hostile {
    qp: Qp,
    cq: Cq,
    mr: Mr,
    _id: CmId,
    _channel: EventChannel,
}

impl Hostile {
    fn connect(to: SocketAddr) -> Self {
        let (channel, mut id) = resolved(to);
        let context = id.context().unwrap();
        let pd = Pd::alloc(&context).unwrap();
        let cq = Cq::create(&context, 32, None).unwrap();
        let mr = Mr::register(&pd, Pages::map(8192).unwrap(), Access::Local).unwrap();
        let mut qp = Qp::create(&pd, &cq, &cq, CONFIG).unwrap();
        qp.modify(&id.qp_attr(QpState::Init).unwrap()).unwrap();
        for (slot, at) in (0..4).zip((IN..).step_by(256)) {
            qp.post_receive(slot, mr.sge(at, 256)).unwrap();
        }
        id.connect(params(&qp, &private_data(VERSION))).unwrap();
        let event = next(&channel);
        if event.kind == CmEventKind::CONNECT_RESPONSE {
            for state in [QpState::Init, QpState::ReadyToReceive, QpState::ReadyToSend] {
                qp.modify(&id.qp_attr(state).unwrap()).unwrap();
            }
            id.establish().unwrap();
        } else {
            assert_eq!(event.kind, CmEventKind::ESTABLISHED);
        }
        Self { qp, cq, mr, _id: id, _channel: channel }
    }

    fn send(&mut self, bytes: &[u8], length: u32) {
        assert!(self.try_send(bytes, length));
    }

    /// Returns false if the connection has ended.
    fn try_send(&mut self, bytes: &[u8], length: u32) -> bool {
        // SAFETY: the region has room for it, and nobody else writes there.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.mr.as_ptr().as_ptr().add(OUT), bytes.len());
        }
        let mut batch = self.qp.batch();
        batch.send(100, self.mr.sge(OUT, length).unwrap(), SendFlags::SIGNALED).unwrap();
        batch.post().is_ok()
    }

    fn packet(&mut self, kind: u8) {
        let mut packet = private_data(VERSION);
        packet[10] = kind;
        packet.resize(PACKET_BYTES as usize, 0);
        self.send(&packet, PACKET_BYTES);
    }

    /// Waits for the first packet, which is of this kind, and repeats HELLO meanwhile.
    fn expect_packet(&mut self, kind: u8) {
        let until = Instant::now() + DEADLINE;
        let mut again = Instant::now() + Duration::from_millis(300);
        loop {
            let mut wcs = [superpipe_verbs::Wc::default(); 4];
            let count = self.cq.poll(&mut wcs).unwrap();
            if wcs[..count].iter().any(|wc| wc.id() == 0 && wc.result().is_ok()) {
                // SAFETY: it was received, and is inside the region.
                let received = unsafe { *self.mr.as_ptr().as_ptr().add(IN + 10) };
                assert_eq!(received, kind);
                return;
            }
            assert!(Instant::now() < until, "nothing came");
            if Instant::now() > again {
                self.packet(HELLO);
                again = Instant::now() + Duration::from_millis(300);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Checks that a listener reports this rule for such a client.
fn check_violation(hostile: impl Fn(SocketAddr) -> Hostile + Send + Copy, rule: &str) {
    for ip in devices() {
        let mut listener = listen(ip, Options::default());
        let to = listener.rdma_addr().unwrap();
        thread::scope(|scope| {
            let at_work = scope.spawn(move || hostile(to));
            let error = listener.accept(DEADLINE).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol, "{ip}: {error}");
            assert!(error.to_string().contains(rule), "{ip}: {error}");
            drop(at_work.join().unwrap());
        });
    }
}

fn after_handshake(to: SocketAddr) -> Hostile {
    let mut hostile = Hostile::connect(to);
    hostile.packet(HELLO);
    hostile.expect_packet(WELCOME);
    hostile.packet(GRANT);
    hostile
}

const TOO_LONG: &str = "a message that its receive cannot take (wire.md 10.3)";

#[test]
fn a_too_long_message_is_a_violation_in_the_handshake() {
    check_violation(
        |to| {
            let mut hostile = Hostile::connect(to);
            // siw can lose the first one; a second one follows, unless the connection has ended.
            for _ in 0..3 {
                hostile.try_send(&[], 300);
                thread::sleep(Duration::from_millis(300));
            }
            hostile
        },
        TOO_LONG,
    );
}

#[test]
fn a_too_long_message_is_a_violation_later() {
    check_violation(
        |to| {
            let mut hostile = after_handshake(to);
            hostile.send(&[], 300);
            hostile
        },
        TOO_LONG,
    );
}

#[test]
fn an_unknown_message_is_a_violation() {
    check_violation(
        |to| {
            let mut hostile = after_handshake(to);
            hostile.send(&[0xFF; 7], 7);
            hostile
        },
        "an unknown message (wire.md 10.3)",
    );
}
