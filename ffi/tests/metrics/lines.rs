//! Lines of connections: what is in them, when they are copied, and for how long they are there.

use core::time::Duration;
use std::thread;

use superpipe::metrics::{OpenMetrics, PublishOptions, Role, State, publish};
use superpipe::{Counters, ErrorKind, Peer, Reason};

use super::support::{COPY_PERIOD, DEADLINE, pair, publish_now, read_own, read_pair, turn, until};

/// Returns what a line has to say of these counters, keepalives left out.
fn expected(counters: &Counters) -> Vec<(&'static str, u64)> {
    vec![
        ("transfers_sent", counters.transfers_sent),
        ("transfers_received", counters.transfers_received),
        ("inline_sent", counters.inline_sent),
        ("inline_received", counters.inline_received),
        ("bytes_sent", counters.bytes_sent),
        ("bytes_received", counters.bytes_received),
        ("remote_bytes_sent", counters.remote_bytes_sent),
        ("remote_bytes_received", counters.remote_bytes_received),
        ("exposed_bytes_sent", counters.exposed_bytes_sent),
        ("exposed_bytes_received", counters.exposed_bytes_received),
        ("split_bytes_sent", counters.split_bytes_sent),
        ("split_bytes_received", counters.split_bytes_received),
        ("remote_writes", counters.remote_writes),
        ("credit_waits", counters.credit_waits),
        ("cts_waits", counters.cts_waits),
        ("queue_full", counters.sq_full),
        ("growths_asked", counters.growths_asked),
        ("growths_refused", counters.growths_refused),
        ("growths", counters.growths),
        ("refusals", counters.refusals.iter().sum()),
        ("shrinks", counters.shrinks),
        ("cancels_sent", counters.cancels_sent),
        ("cancels_received", counters.cancels_received),
        ("rejects_sent", counters.rejects_sent),
        ("rejects_received", counters.rejects_received),
        ("registrations_hit", counters.registrations_hit),
        ("registrations_missed", counters.registrations_missed),
        ("registrations_failed", counters.registrations_failed),
    ]
}

#[test]
fn a_line_has_what_its_connection_counts_at_either_end() {
    let _turn = turn();
    let _publisher = publish_now();
    let (mut one, mut other) = pair("counts");
    let (message, mut room) = (vec![7; 300_000], vec![0; 300_000]);
    thread::scope(|scope| {
        scope.spawn(|| {
            for bytes in [8, 1000, 300_000] {
                one.send(1, &[&message[..bytes]], DEADLINE).unwrap();
            }
        });
        for bytes in [8, 1000, 300_000] {
            assert_eq!(other.recv_into(&mut [&mut room], DEADLINE).unwrap().bytes, bytes);
        }
    });
    other.send(2, &[&message[..40]], DEADLINE).unwrap();
    one.recv_into(&mut [&mut room], DEADLINE).unwrap();
    one.send(3, &[b"no"], DEADLINE).unwrap();
    until("the message can be rejected", || other.reject(Reason(9)));
    until("the rejection is told", || {
        other.progress();
        one.progress();
        one.poll_event().is_some()
    });

    let [connected, accepted] = read_pair([&mut one, &mut other]);
    let [sent, received] = [connected.counts, accepted.counts];
    assert_eq!((sent.transfers_sent, received.transfers_received), (4, 4));
    assert_eq!((sent.transfers_received, received.transfers_sent), (1, 1));
    assert_eq!((sent.bytes_sent, received.bytes_received), (301_000, 301_000), "lines have none");
    assert_eq!((sent.inline_sent, sent.inline_received), (2, 1));
    assert_eq!((received.rejects_sent, sent.rejects_received), (1, 1));
    for (line, connection) in [(connected, &mut one), (accepted, &mut other)] {
        let counters = connection.counters();
        // Copied at the same time as these: nothing has moved since, but for keepalives.
        let named = line.counts.named().filter(|(name, _)| !name.contains("keepalives"));
        assert_eq!(named.collect::<Vec<_>>(), expected(&counters));
        let description = connection.description();
        assert_eq!((line.fabric, line.protocol), (description.fabric, description.protocol));
        assert_eq!(line.provisioned_bytes, description.provisioned_bytes);
        assert_eq!(line.landing_max_bytes, u64::from(description.landing_bytes));
        assert_eq!((line.peer, line.state), (connection.peer(), State::Open));
        assert!(matches!(line.peer, Peer::Process(cred) if cred.pid == std::process::id()));
        assert!(line.made_at_ns <= line.active_at_ns && line.active_at_ns <= line.copied_at_ns);
    }
}

#[test]
fn connections_of_before_appear_and_those_that_end_leave_sums() {
    let _turn = turn();
    let (mut one, mut other) = pair("before");
    one.send(1, &[&[7; 1000]], DEADLINE).unwrap();
    other.recv_into(&mut [&mut [0; 1000]], DEADLINE).unwrap();
    let publisher = publish_now();
    assert_eq!(read_own().connections, []);
    let [connected, accepted] = read_pair([&mut one, &mut other]);
    assert_eq!((connected.counts.bytes_sent, accepted.counts.bytes_received), (1000, 1000));
    let process = read_own().process;
    assert_eq!((process.connections_made, process.connections_ended), (2, 0));
    assert!(process.shared_bytes() > 0 && process.shared_max_bytes == 1 << 30);

    one.close(Reason::DONE, DEADLINE).unwrap();
    thread::sleep(COPY_PERIOD);
    while other.progress() {}
    assert_eq!(
        other.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err().kind(),
        ErrorKind::Closed(Reason::DONE)
    );
    thread::sleep(COPY_PERIOD);
    other.progress();
    let left = read_own();
    let [line] = &left.connections[..] else { panic!("{:?}", left.connections) };
    assert_eq!(line.state, State::ClosedByPeer);
    drop(other);
    let after = read_own();
    assert_eq!(after.connections, []);
    let process = after.process;
    assert_eq!((process.connections_made, process.connections_ended), (2, 2));
    assert_eq!((process.ended_transfers_sent, process.ended_transfers_received), (1, 1));
    assert_eq!((process.ended_bytes_sent, process.ended_bytes_received), (1000, 1000));
    assert_eq!(process.shared_bytes(), 0);
    drop(publisher);
}

#[test]
fn a_page_that_is_full_counts_the_rest_and_lists_them_later() {
    let _turn = turn();
    let _publisher = publish(PublishOptions { connections_max: 1 }).unwrap();
    let (one, other) = pair("full");
    let full = read_own();
    let [listed] = &full.connections[..] else { panic!("{full:?}") };
    assert_eq!(full.process.connections_unlisted, 1);
    // Either may have been the first.
    let [listed, mut other] = if listed.role == Role::Connected { [one, other] } else { [other, one] };
    drop(listed);
    assert_eq!(read_own().connections, []);
    thread::sleep(COPY_PERIOD);
    other.progress();
    let listed = read_own();
    assert_eq!((listed.connections.len(), listed.process.connections_unlisted), (1, 0));
    drop(other);
    let process = read_own().process;
    assert_eq!(
        (process.connections_made, process.connections_ended, process.connections_unlisted),
        (2, 2, 0)
    );
}

#[test]
fn one_that_ends_without_a_line_is_not_counted_as_unlisted() {
    let _turn = turn();
    let _publisher = publish(PublishOptions { connections_max: 1 }).unwrap();
    let (one, other) = pair("unlisted");
    let full = read_own();
    let [listed] = &full.connections[..] else { panic!("{full:?}") };
    let [listed, unlisted] = if listed.role == Role::Connected { [one, other] } else { [other, one] };
    drop(unlisted);
    let process = read_own().process;
    assert_eq!((process.connections_ended, process.connections_unlisted), (1, 0));
    drop(listed);
}

/// Waits that end at once look at no clock, and would leave the line as it is.
#[test]
fn a_line_is_copied_though_every_wait_ends_at_once() {
    let _turn = turn();
    let _publisher = publish_now();
    let (mut one, mut other) = pair("waits");
    until("all is acknowledged", || {
        while other.progress() {}
        one.flush(Duration::from_millis(5)).is_ok()
    });
    let [before, _] = read_pair([&mut one, &mut other]);
    thread::sleep(COPY_PERIOD);
    for _ in 0..256 {
        one.flush(DEADLINE).unwrap();
    }
    let after = read_own().connections.into_iter().find(|line| line.number == before.number).unwrap();
    assert!(after.copied_at_ns > before.copied_at_ns);
}

#[test]
fn nothing_is_copied_twice_within_the_period() {
    let _turn = turn();
    let _publisher = publish_now();
    let (mut one, mut other) = pair("period");
    let [own, _] = read_pair([&mut one, &mut other]);
    let mut times = std::collections::BTreeSet::new();
    let end = std::time::Instant::now() + DEADLINE;
    while times.len() < 4 {
        assert!(std::time::Instant::now() < end, "{times:?}");
        one.progress();
        let lines = read_own().connections;
        times.extend(lines.iter().filter(|line| line.number == own.number).map(|line| line.copied_at_ns));
    }
    let times: Vec<_> = times.into_iter().collect();
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap >= 100_000_000), "{gaps:?}");
}

#[test]
fn halves_and_streams_are_in_the_line_of_their_connection() {
    let _turn = turn();
    let _publisher = publish_now();
    let (one, mut other) = pair("halves");
    let (mut sending, receiving) = one.split();
    let mut stream = sending.open_stream(5, DEADLINE).unwrap();
    std::io::Write::write_all(&mut stream, &[7; 5000]).unwrap();
    stream.finish(DEADLINE).unwrap();
    let mut read = Vec::new();
    std::io::Read::read_to_end(&mut other.accept_stream(DEADLINE).unwrap(), &mut read).unwrap();
    assert_eq!(read, [7; 5000]);
    let mut one = sending.reunite(receiving).unwrap();
    let [connected, accepted] = read_pair([&mut one, &mut other]);
    assert_eq!((connected.counts.transfers_sent, connected.counts.bytes_sent), (1, 5000));
    assert_eq!((accepted.counts.transfers_received, accepted.counts.bytes_received), (1, 5000));
}

#[test]
fn the_text_for_collectors_has_the_lines() {
    let _turn = turn();
    let _publisher = publish_now();
    let (_one, _other) = pair("text");
    let snapshot = read_own();
    let [first, _] = snapshot.connections[..] else { panic!("{snapshot:?}") };
    let text = OpenMetrics(core::slice::from_ref(&snapshot)).to_string();
    let sample = format!(
        "superpipe_sent_bytes_total{{pid=\"{}\",program=\"{}\",connection=\"{}\"}} 0",
        std::process::id(),
        snapshot.program,
        first.number
    );
    assert!(text.lines().any(|line| line == sample), "{sample} is not in\n{text}");
}
