//! Between connect and close nothing is allocated: on neither end, in no size class, by no protocol, from the first
//! message on.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::alloc::System;
use std::fs;
use std::io::{self, Read, Write};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use superpipe::metrics::{PublishOptions, Reader, publish};
use superpipe::{
    Address, Connection, Drive, ErrorKind, Listener, Options, PeerTrust, PollEvent, PollEvents, Poller,
    PollerOptions, Protocol, Reason, Received, RecvOperation, Registered, RegisteredBuf, SendOperation,
    TrustedBuf, TryRecv, TryRecvLoan, TryReserve, TrySend, Tuning,
};

struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

fn count() {
    if COUNTS.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: everything is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps what `alloc` asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps what `alloc_zeroed` asks for.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps what `realloc` asks for.
        unsafe { System.realloc(ptr, layout, bytes) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps what `dealloc` asks for.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const DEADLINE: Duration = Duration::from_secs(30);
const SIZES: [usize; 9] = [0, 8, 40, 41, 1000, 16 << 10, 70_000, 1 << 20, 5_000_001];

/// Both ends send and receive every size by every protocol, as messages and as streams.
fn exchange(connection: &mut Connection, first: bool, out: &[u8], back: &mut [u8]) {
    for protocol in Protocol::ALL {
        connection.set_protocol(protocol);
        for bytes in SIZES {
            for turn in [true, false] {
                if turn == first {
                    connection.send(7, &[&out[..bytes / 3], &out[bytes / 3..bytes]], DEADLINE).unwrap();
                    let mut stream = connection.open_stream(8, DEADLINE).unwrap();
                    stream.write_all(&out[..bytes]).unwrap();
                    stream.finish(DEADLINE).unwrap();
                } else {
                    let (head, tail) = back.split_at_mut(bytes / 2);
                    let received = connection.recv_into(&mut [head, tail], DEADLINE).unwrap();
                    assert_eq!((received.tag, received.bytes), (7, bytes));
                    assert!(back[..bytes] == out[..bytes]);
                    back[..bytes].fill(0);
                    let mut stream = connection.accept_stream(DEADLINE).unwrap();
                    stream.read_exact(&mut back[..bytes]).unwrap();
                    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
                    assert!(back[..bytes] == out[..bytes]);
                }
            }
        }
    }
}

/// The same by calls that never wait.
fn exchange_by_tries(connection: &mut Connection, first: bool, out: &[u8], back: &mut [u8]) {
    for bytes in SIZES {
        for turn in [true, false] {
            if turn == first {
                send_by_tries(connection, &[&out[..bytes / 3], &out[bytes / 3..bytes]]);
            } else {
                let (head, tail) = back.split_at_mut(bytes / 2);
                assert_eq!(receive_by_tries(connection, &mut [head, tail]), Received { tag: 7, bytes });
                assert!(back[..bytes] == out[..bytes]);
                back[..bytes].fill(0);
            }
        }
    }
}

fn send_by_tries(connection: &mut Connection, slices: &[&[u8]]) {
    loop {
        match connection.try_send(7, slices).unwrap() {
            TrySend::Sent => return,
            TrySend::Full => rest(connection),
            TrySend::TooLong => break,
        }
    }
    let mut send = SendOperation::new(7, slices.iter().map(|slice| slice.len()).sum());
    while connection.drive_send(&mut send, slices).unwrap() != Drive::Done(()) {
        rest(connection);
    }
}

fn receive_by_tries(connection: &mut Connection, slices: &mut [&mut [u8]]) -> Received {
    for _ in 0..3 {
        match connection.recv_into(slices, Duration::ZERO) {
            Ok(received) => return received,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout),
        }
    }
    loop {
        match connection.try_recv(slices).unwrap() {
            TryRecv::Received(received) => return received,
            TryRecv::Nothing => {
                connection.try_peek().unwrap();
                rest(connection);
            }
            TryRecv::Incomplete(_) => break,
            TryRecv::TooSmall(incoming) => panic!("{incoming:?}"),
        }
    }
    let mut receive = RecvOperation::new();
    loop {
        if let Drive::Done(received) = connection.drive_recv(&mut receive, slices).unwrap() {
            return received;
        }
        rest(connection);
    }
}

fn rest(connection: &mut Connection) {
    connection.progress();
    thread::yield_now();
}

/// Waits until all other threads of the process have begun, and wait for something. It comes before each count, since std itself
/// allocates in each new thread before the first code of that thread: it copies the thread's name for its handler of stack overflows.
/// A registration and a close make such threads ("superpipe-jobs", "superpipe-close"), and on a busy machine they begin so late that a
/// count which has begun meanwhile finds that copy. What any thread allocates during a count is counted.
fn await_begun_threads() {
    let end = Instant::now() + DEADLINE;
    loop {
        let found = other_threads();
        // Twice the same, so that no thread has run meanwhile.
        if let Ok(found) = &found
            && found.iter().all(|status| status.iter().any(|line| line.starts_with("State:\tS")))
            && other_threads().is_ok_and(|again| again == *found)
        {
            return;
        }
        assert!(Instant::now() < end, "a thread never rests: {found:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the number, the state and the count of waits of each thread but this one. Fails if a thread ends meanwhile.
fn other_threads() -> io::Result<Vec<Vec<String>>> {
    let own = fs::read_link("/proc/thread-self")?;
    let mut found = Vec::new();
    for thread in fs::read_dir("/proc/self/task")? {
        let thread = thread?;
        if Some(&*thread.file_name()) == own.file_name() {
            continue;
        }
        let status = fs::read_to_string(thread.path().join("status"))?;
        let is_asked = |line: &&str| {
            ["Pid:", "State:", "voluntary_ctxt_switches:"].iter().any(|name| line.starts_with(name))
        };
        found.push(status.lines().filter(is_asked).map(str::to_owned).collect());
    }
    Ok(found)
}

/// One test, so that nothing else runs while it counts.
#[test]
fn nothing_is_allocated_from_connect_to_close() {
    exchanges_allocate_nothing();
    tries_after_a_close_allocate_nothing();
    messages_out_of_registered_buffers_allocate_nothing();
    messages_into_trusted_buffers_allocate_nothing();
    a_poller_allocates_nothing();
    loans_allocate_nothing();
    publishing_allocates_nothing();
}

fn exchanges_allocate_nothing() {
    let path = std::env::temp_dir().join(format!("superpipe-no-alloc-{}.sock", std::process::id()));
    let address = Address::Shm(path);
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let out: Vec<u8> =
        (0..5_000_001u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect();
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut back = vec![0; out.len()];
            let mut connection = listener.accept(DEADLINE).unwrap();
            barrier.wait();
            exchange(&mut connection, false, &out, &mut back);
            exchange_by_tries(&mut connection, false, &out, &mut back);
            barrier.wait();
        });
        let mut back = vec![0; out.len()];
        let mut connection = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
        #[cfg(feature = "recorder")]
        connection.record(true);
        await_begun_threads();
        barrier.wait();
        COUNTS.store(true, Ordering::Relaxed);
        exchange(&mut connection, true, &out, &mut back);
        exchange_by_tries(&mut connection, true, &out, &mut back);
        COUNTS.store(false, Ordering::Relaxed);
        barrier.wait();
    });
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0);
    // The counter does count.
    COUNTS.store(true, Ordering::Relaxed);
    drop(core::hint::black_box(vec![1u8; 10]));
    COUNTS.store(false, Ordering::Relaxed);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 1);
}

/// A loop of tries may go on for as long as it likes after the peer has closed.
fn tries_after_a_close_allocate_nothing() {
    for reason in [Reason::DONE, Reason(7)] {
        let path = std::env::temp_dir().join(format!("superpipe-no-alloc-{}-tries.sock", std::process::id()));
        let address = Address::Shm(path);
        let mut listener = Listener::bind(&address, Options::default()).unwrap();
        let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap());
        let mut connection = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
        accepting.join().unwrap().close(reason, DEADLINE).unwrap();
        assert!(connection.recv_into(&mut [&mut [0; 8]], DEADLINE).is_err());
        await_begun_threads();
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        COUNTS.store(true, Ordering::Relaxed);
        let mut kinds = [[None; 3]; 100];
        for kinds in &mut kinds {
            *kinds = [
                connection.try_recv(&mut [&mut [0; 8]]).err().map(|error| error.kind()),
                connection.try_send(1, &[b"nobody"]).err().map(|error| error.kind()),
                connection.try_peek().err().map(|error| error.kind()),
            ];
        }
        COUNTS.store(false, Ordering::Relaxed);
        for (tries, kinds) in kinds.iter().enumerate() {
            assert_eq!(*kinds, [Some(ErrorKind::Closed(reason)); 3], "after {tries} of each");
        }
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0, "{reason:?}");
    }
}

/// Once a buffer is registered, which allocates.
fn messages_out_of_registered_buffers_allocate_nothing() {
    let path = std::env::temp_dir().join(format!("superpipe-no-alloc-{}-buffers.sock", std::process::id()));
    let address = Address::Shm(path);
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let tuning = Tuning { protocol: Some(Protocol::RegisterCached), ..Tuning::default() };
    let options = Options { tuning, ..Options::default() };
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let (registered, counted) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = listener.accept(DEADLINE).unwrap();
            let mut sink = RegisteredBuf::new(1 << 20).unwrap();
            assert_eq!(connection.recv_registered(&mut sink, DEADLINE).unwrap().bytes, 1);
            registered.wait();
            for number in 0..100 {
                connection.recv_registered(&mut sink, DEADLINE).unwrap();
                assert!(sink[0] == number && sink[99_999] == number);
            }
            counted.wait();
            assert_eq!(connection.counters().exposed_bytes_received, 50 * ((1 << 20) + 100_000));
        });
        let mut connection = Connection::connect(&address, options, DEADLINE).unwrap();
        let mut source = RegisteredBuf::new(1 << 20).unwrap();
        assert_eq!(connection.register(&source, DEADLINE).unwrap(), Registered::Ready);
        connection.send_registered(7, &source, 0..1, DEADLINE).unwrap();
        await_begun_threads();
        registered.wait();
        COUNTS.store(true, Ordering::Relaxed);
        for number in 0..100 {
            source.fill(number);
            let bytes = if number % 2 == 0 { 1 << 20 } else { 100_000 };
            connection.send_registered(7, &source, 0..bytes, DEADLINE).unwrap();
            connection.wait_unshared(&source, DEADLINE).unwrap();
        }
        COUNTS.store(false, Ordering::Relaxed);
        counted.wait();
    });
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}

/// Both ends of a few connections in one poller: messages of several sizes, sleeps and wake-ups.
fn a_poller_allocates_nothing() {
    let path = std::env::temp_dir().join(format!("superpipe-no-alloc-{}-poller.sock", std::process::id()));
    let mut poller =
        Poller::new(PollerOptions { quiet_after: Duration::ZERO, ..PollerOptions::default() }).unwrap();
    let address = Address::Shm(path);
    poller.listen(&address, Options::default()).unwrap();
    let mut events = PollEvents::with_capacity(8);
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.push(poller.connect(&address, Options::default(), DEADLINE).unwrap());
    }
    let until = Instant::now() + DEADLINE;
    let mut made = 0;
    while made < 6 {
        poller.poll(&mut events, until).unwrap();
        for event in &events {
            assert!(matches!(event, PollEvent::Connected { .. } | PollEvent::Accepted { .. }), "{event:?}");
            made += 1;
        }
    }
    await_begun_threads();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let mut room = vec![0; 64 << 10];
    COUNTS.store(true, Ordering::Relaxed);
    for round in 0..60_usize {
        let bytes = [8, 104, 3000, 64 << 10][round % 4];
        for key in &keys {
            let sent = poller.connection(*key).unwrap().try_send(1, &[&room[..bytes]]).unwrap();
            assert_eq!(sent, TrySend::Sent);
        }
        let mut answers = 0;
        while answers < keys.len() {
            assert!(Instant::now() < until);
            poller.poll(&mut events, until).unwrap();
            for event in &events {
                let PollEvent::Readable { connection: key } = event else { panic!("{event:?}") };
                let connection = poller.connection(key).unwrap();
                if let TryRecv::Received(received) = connection.try_recv(&mut [&mut room]).unwrap() {
                    assert_eq!(received.bytes, bytes);
                    if received.tag == 1 {
                        assert_eq!(connection.try_send(2, &[&room[..bytes]]).unwrap(), TrySend::Sent);
                    } else {
                        answers += 1;
                    }
                }
            }
        }
        // Everything falls asleep.
        poller.poll(&mut events, Duration::from_millis(2)).unwrap();
        assert!(events.is_empty());
        let _ = poller.arm();
    }
    COUNTS.store(false, Ordering::Relaxed);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}

/// Messages of several sizes that are built and read in place, with up to three loans held.
fn loans_allocate_nothing() {
    let path = std::env::temp_dir().join(format!("superpipe-no-alloc-{}-loans.sock", std::process::id()));
    let address = Address::Shm(path);
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap());
    let mut sender = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
    let mut receiver = accepting.join().unwrap();
    await_begun_threads();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let mut room = vec![0; 64 << 10];
    let mut held = [None, None, None];
    COUNTS.store(true, Ordering::Relaxed);
    for round in 0..300_usize {
        let (bytes, value) = ([0, 8, 104, 3000, 64 << 10][round % 5], round.to_le_bytes()[0]);
        room[..bytes].fill(value);
        let reserved = loop {
            receiver.progress();
            match sender.try_reserve(7, bytes).unwrap() {
                TryReserve::Reserved(reserved) => break reserved,
                TryReserve::Pending => _ = sender.progress(),
            }
        };
        sender.copy_into(&reserved, 0, &room[..bytes]).unwrap();
        sender.commit(reserved).unwrap();
        room[..bytes].fill(!value);
        let TryRecvLoan::Loan(loan) = receiver.try_recv_loan().unwrap() else { panic!("it is here") };
        receiver.copy_from_loan(&loan, 0, &mut room[..bytes]).unwrap();
        assert!(loan.bytes() == bytes && room[..bytes].iter().all(|byte| *byte == value));
        let spans = receiver.loan_spans(&loan).unwrap();
        assert_eq!(spans.map(|span| span.len()).sum::<usize>(), bytes);
        if let Some(older) = held[round % 3].replace(loan) {
            receiver.give_back(older).unwrap();
        }
    }
    COUNTS.store(false, Ordering::Relaxed);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}

/// Once both buffers are exposed, which allocates: messages that both ends copy, those that came before an offer, and tries.
fn messages_into_trusted_buffers_allocate_nothing() {
    const BYTES: usize = 300_000;
    const FIRST_COUNTED: u8 = 20;
    let path = std::env::temp_dir().join(format!("superpipe-no-alloc-{}-trusted.sock", std::process::id()));
    let address = Address::Shm(path);
    // SAFETY: the peer is this test.
    let peer_trust = unsafe { PeerTrust::declare() };
    let mut listener = Listener::bind(&address, Options { peer_trust, ..Options::default() }).unwrap();
    let tuning = Tuning { protocol: Some(Protocol::RegisterCached), ..Tuning::default() };
    let options = Options { tuning, ..Options::default() };
    let (exposed, counted) = (Barrier::new(2), Barrier::new(2));
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = listener.accept(DEADLINE).unwrap();
            let mut sink = TrustedBuf::new(BYTES).unwrap();
            let mut seen = vec![0; BYTES];
            for number in 0..100_u8 {
                if number == FIRST_COUNTED {
                    exposed.wait();
                }
                if number % 4 != 3 {
                    connection.offer(&mut sink).unwrap();
                }
                connection.send(1, &[&[number]], DEADLINE).unwrap();
                let received = if number % 2 == 0 {
                    connection.recv_trusted(&mut sink, DEADLINE).unwrap()
                } else {
                    try_recv_trusted(&mut connection, &mut sink)
                };
                assert_eq!(received, Received { tag: 7, bytes: BYTES });
                sink.read(0, &mut seen).unwrap();
                assert!(seen.iter().all(|byte| *byte == number));
            }
            counted.wait();
            let counters = connection.counters();
            assert!(
                counters.split_bytes_received > 20 * BYTES as u64 / 2,
                "some were copied by both ends: {counters:?}"
            );
        });
        let mut connection = Connection::connect(&address, options, DEADLINE).unwrap();
        let mut source = RegisteredBuf::new(BYTES).unwrap();
        assert_eq!(connection.register(&source, DEADLINE).unwrap(), Registered::Ready);
        for number in 0..100 {
            if number == FIRST_COUNTED {
                await_begun_threads();
                exposed.wait();
                COUNTS.store(true, Ordering::Relaxed);
            }
            let mut asked = [0];
            connection.recv_into(&mut [&mut asked], DEADLINE).unwrap();
            assert_eq!(asked, [number]);
            source.fill(number);
            connection.send_registered(7, &source, 0..BYTES, DEADLINE).unwrap();
            connection.wait_unshared(&source, DEADLINE).unwrap();
        }
        COUNTS.store(false, Ordering::Relaxed);
        counted.wait();
    });
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}

/// Receives by calls that never wait.
fn try_recv_trusted(connection: &mut Connection, sink: &mut TrustedBuf) -> Received {
    loop {
        match connection.recv_trusted(sink, Duration::ZERO) {
            Ok(received) => return received,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout),
        }
        rest(connection);
    }
}

/// Copies of counters, of both ends and of a poller, once they are in the page.
fn publishing_allocates_nothing() {
    let publisher = publish(PublishOptions::default()).unwrap();
    let path = std::env::temp_dir().join(format!("superpipe-no-alloc-{}-page.sock", std::process::id()));
    let address = Address::Shm(path);
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap());
    let mut one = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
    let other = accepting.join().unwrap();
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    let key = poller.adopt(other).map_err(|(_, error)| error).unwrap();
    let mut events = PollEvents::with_capacity(8);
    poller.poll(&mut events, Duration::ZERO).unwrap();
    let mut reader = Reader::open(std::process::id()).unwrap();
    let first = reader.read().unwrap();
    assert_eq!((first.connections.len(), first.pollers.len()), (2, 1));
    await_begun_threads();
    let (before, begun) = (ALLOCATIONS.load(Ordering::Relaxed), Instant::now());
    COUNTS.store(true, Ordering::Relaxed);
    // The poller copies its connections with their keepalives, each 200 ms.
    while begun.elapsed() < Duration::from_millis(500) {
        assert_eq!(one.try_send(1, &[b"hello"]).unwrap(), TrySend::Sent);
        poller.poll(&mut events, DEADLINE).unwrap();
        assert!(matches!(
            poller.connection(key).unwrap().try_recv(&mut [&mut [0; 8]]),
            Ok(TryRecv::Received(_))
        ));
        one.progress();
    }
    COUNTS.store(false, Ordering::Relaxed);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    let last = reader.read().unwrap();
    for (first, last) in first.connections.iter().zip(&last.connections) {
        assert!(last.copied_at_ns > first.copied_at_ns, "{last:?}");
    }
    assert!(last.pollers[0].copied_at_ns > first.pollers[0].copied_at_ns);
    drop(publisher);
}
