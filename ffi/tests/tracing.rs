//! Events of set-up and close, as a subscriber gets them; and none between.

use core::fmt::{Debug, Write};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use superpipe::{
    Address, Connection, ErrorKind, Key, Listener, Options, PollEvent, PollEvents, Poller, PollerOptions,
    Protocol, Reason, TryRecv, TrySend, Tuning,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, subscriber};

/// Ten times what anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// Events as text: level, message, and fields.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<String>>>);

impl Collector {
    fn take(&self) -> Vec<String> {
        core::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}{}", self.0);
        } else {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "superpipe"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        panic!("there are no spans")
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(format!("{} {}", event.metadata().level(), text.0));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("superpipe-tracing-{}-{name}.sock", std::process::id()))
}

/// Asserts that the events begin like this, in this order.
#[track_caller]
fn assert_events(events: &[String], expected: &[&str]) {
    let is_as_expected = events.len() == expected.len()
        && events.iter().zip(expected).all(|(event, begin)| event.starts_with(begin));
    assert!(is_as_expected, "{events:#?} are not {expected:#?}");
}

/// Both ends in one thread, so that its subscriber gets the events of both.
fn pair(poller: &mut Poller, address: &Address) -> [Key; 2] {
    poller.connect(address, Options::default(), DEADLINE).unwrap();
    let mut events = PollEvents::with_capacity(8);
    let (mut connected, mut accepted) = (None, None);
    loop {
        poller.poll(&mut events, DEADLINE).unwrap();
        for event in &events {
            match event {
                PollEvent::Connected { connection } => connected = Some(connection),
                PollEvent::Accepted { connection, .. } => accepted = Some(connection),
                other => panic!("{other:?}"),
            }
        }
        if let (Some(connected), Some(accepted)) = (connected, accepted) {
            return [connected, accepted];
        }
    }
}

#[test]
fn set_up_and_close_are_events_and_messages_are_none() {
    let collector = Collector::default();
    subscriber::with_default(collector.clone(), || {
        let address = Address::Shm(path("events"));
        let mut poller = Poller::new(PollerOptions::default()).unwrap();
        let listener = poller.listen(&address, Options::default()).unwrap();
        assert_events(&collector.take(), &[&format!("INFO listening address={address}")]);
        let keys = pair(&mut poller, &address);
        let mut events = collector.take();
        assert_events(&events[..1], &[&format!("DEBUG connecting address={address}")]);
        assert_events(&events[1..2], &[&format!("DEBUG client address={address}")]);
        // Either end may be ready first.
        let mut established = events.split_off(2);
        established.sort_by_key(|event| event.contains("role=\"accepted\""));
        let begin = "INFO established connection=";
        assert_events(&established, &[begin, begin]);
        for (event, role) in established.iter().zip(["connected", "accepted"]) {
            let description = poller.connection(keys[0]).unwrap().description();
            for field in [
                format!("role=\"{role}\""),
                "fabric=\"shm\" peer=Process(".to_owned(),
                "protocol=\"auto\" arrival=Flag".to_owned(),
                format!("c0_bytes={} folds={}", description.c0_bytes, description.folds),
                format!(
                    "block_bytes={} landing_bytes={}",
                    description.block_bytes, description.landing_bytes
                ),
                "landing=AtConnect".to_owned(),
            ] {
                assert!(event.contains(&field), "{event} lacks {field}");
            }
        }

        let [mut one, mut other] = keys.map(|key| poller.remove(key).unwrap());
        let (message, mut room) = (vec![7; 60_000], vec![0; 60_000]);
        for bytes in [0, 8, 104, 4096, 60_000] {
            for _ in 0..300 {
                assert_eq!(one.try_send(1, &[&message[..bytes]]).unwrap(), TrySend::Sent);
                let received = other.try_recv(&mut [&mut room]).unwrap();
                assert!(matches!(received, TryRecv::Received(received) if received.bytes == bytes));
                other.progress();
                assert_eq!(
                    other.recv_into(&mut [&mut room], Duration::ZERO).unwrap_err().kind(),
                    ErrorKind::Timeout
                );
            }
        }
        one.send(2, &[b"no"], DEADLINE).unwrap();
        assert!(other.reject(Reason(1)));
        assert_eq!(collector.take(), [""; 0]);

        one.close(Reason(5), DEADLINE).unwrap();
        assert_eq!(
            other.recv_into(&mut [&mut room], DEADLINE).unwrap_err().kind(),
            ErrorKind::Closed(Reason(5))
        );
        drop(other);
        let events = collector.take();
        assert_events(&events, &["INFO closed connection=", "INFO closed connection="]);
        for (event, fields) in [
            (&events[0], "why=\"closed-here\" transfers_sent=1501 transfers_received=0 bytes_sent="),
            (&events[1], "why=\"closed-by-peer\" transfers_sent=0 transfers_received=1501 bytes_sent=0"),
        ] {
            assert!(event.contains(fields), "{event} lacks {fields}");
        }
        poller.remove(listener);
    });
}

#[test]
fn a_peer_that_is_lost_is_a_warning() {
    let collector = Collector::default();
    subscriber::with_default(collector.clone(), || {
        let address = Address::Shm(path("lost"));
        // SAFETY: the child connects, and ends; it has only this thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let connected = Connection::connect(&address, Options::default(), DEADLINE);
            core::mem::forget(connected);
            // SAFETY: it ends the child at once, without a close.
            unsafe { libc::_exit(0) };
        }
        let mut listener = Listener::bind(&address, Options::default()).unwrap();
        let mut connection = listener.accept(DEADLINE).unwrap();
        assert_eq!(
            connection.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err().kind(),
            ErrorKind::PeerLost
        );
        collector.take();
        drop(connection);
        let events = collector.take();
        assert_events(&events, &["WARN closed connection="]);
        assert!(events[0].contains("why=\"peer-lost\""), "{events:?}");
        // SAFETY: the pointer is null, which waitpid takes for no place.
        assert_eq!(unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) }, child);
    });
}

#[test]
fn a_refusal_is_told_with_its_reason() {
    let collector = Collector::default();
    subscriber::with_default(collector.clone(), || {
        let nowhere = Address::Shm(path("nowhere"));
        assert!(Connection::connect(&nowhere, Options::default(), Duration::from_millis(1)).is_err());
        let connecting = format!("DEBUG connecting address={nowhere}");
        let refused = format!("WARN refused address={nowhere} kind=Connect reason=");
        assert_events(&collector.take(), &[&connecting, &refused]);

        // Both ends insist on a protocol.
        let address = Address::Shm(path("refused"));
        let insisting = |protocol| Options {
            tuning: Tuning { protocol: Some(protocol), ..Tuning::default() },
            ..Options::default()
        };
        let mut poller = Poller::new(PollerOptions::default()).unwrap();
        poller.listen(&address, insisting(Protocol::Eager)).unwrap();
        poller.connect(&address, insisting(Protocol::Copy), DEADLINE).unwrap();
        collector.take();
        let mut events = PollEvents::with_capacity(8);
        let mut seen = 0;
        while seen < 2 {
            poller.poll(&mut events, DEADLINE).unwrap();
            seen += events.len();
        }
        let told = collector.take();
        let refused: Vec<_> = told.iter().filter(|event| event.starts_with("WARN refused")).collect();
        assert_eq!(refused.len(), 2, "at either end: {told:#?}");
        for event in refused {
            assert!(event.contains("kind=Usage") && event.contains("eager"), "{event}");
        }
    });
}
