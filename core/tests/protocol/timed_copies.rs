//! Copies that a sender wishes to be timed. wire.md 4.12.

use superpipe_core::{
    Closed, Config, CopyKernel, Endpoint, Failure, FlagPlace, Layout, Line, Origin, ProtocolError, TryRecv,
    control_page,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, Memory, Posted, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };
const MESSAGE: u64 = kind::RTS | kind::FIN | kind::LEFT;

fn one<F: TestFabric>() -> (F, Endpoint<F>) {
    let fabric = F::new(&Setup { send_queue: 8, ..Setup::new(LAYOUT, 1) });
    let end = Endpoint::new(&fabric, fabric.attachment(0), Config::default(), Origin::default()).unwrap();
    (fabric, end)
}

fn timed(mut line: Line) -> Line {
    line.0[0] |= kind::TIMED;
    line
}

/// Lets the end look for what is in its ring, by every call that looks.
fn look<F: TestFabric>(fabric: &mut F, end: &mut Endpoint<F>) -> Option<Closed> {
    let mut place = [0; 1000];
    for _ in 0..20 {
        let _ = end.try_recv(fabric, &mut [&mut place], 1);
        let _ = end.pull(fabric, &mut [&mut place]);
        end.progress(fabric);
        fabric.step();
    }
    end.closed()
}

#[test]
fn a_timing_is_refused_where_there_is_nothing_to_time() {
    let refused = Some(Closed::Failed(Failure::Protocol(ProtocolError::ReservedNotZero)));
    for (what, line) in [
        ("a line", wire::inline(9, b"hello", 1)),
        ("an empty message", wire::chunk(MESSAGE, 9, 0, 0, 1, 1)),
        (
            "an end of remote writes",
            wire::chunk(kind::RTS | kind::WANT_CTS | kind::REMOTE | kind::LEFT, 9, 500, 0, 1, 1),
        ),
    ] {
        let (mut fabric, mut end) = one::<Direct>();
        fabric.forge(Memory::landing(0), LAYOUT.line_at(0), &timed(line));
        assert_eq!(look(&mut fabric, &mut end), refused, "{what}");
    }
    let (mut fabric, mut end) = one::<Direct>();
    fabric.forge(
        Memory::landing(0),
        LAYOUT.line_at(0),
        &wire::chunk(kind::RTS | kind::STREAM | kind::LEFT, 9, 0, 50, 1, 1),
    );
    fabric.forge(Memory::landing(0), LAYOUT.line_at(1), &timed(wire::cancel(1, 5, 2)));
    assert_eq!(look(&mut fabric, &mut end), refused, "CANCEL");
    let (mut fabric, mut end) = one::<Posted>();
    fabric.forge(Memory::landing(0), LAYOUT.line_at(0), &timed(wire::chunk(MESSAGE, 9, 100, 100, 1, 1)));
    assert_eq!(look(&mut fabric, &mut end), refused, "posted writes");
}

/// The bytes are the same with each kernel, by each call, whether the message is taken in one piece or in several.
#[test]
fn a_timed_message_arrives_by_every_call() {
    for bytes in [1_u64, 100, 192] {
        for slices in [1, 3] {
            for is_fast in [false, true] {
                let (mut fabric, mut end) = one::<Direct>();
                end.pin_copies(Some(CopyKernel::Streaming), Some(CopyKernel::Fetching));
                let line = timed(wire::chunk(MESSAGE, 9, bytes, bytes, 1, 1));
                fabric.forge(Memory::landing(0), LAYOUT.line_at(0), &line);
                let mut place = [1; 192];
                let (first, rest) = place.split_at_mut(if slices == 1 { 192 } else { 7 });
                let to: &mut [&mut [u8]] = &mut [first, rest];
                let to = if slices == 1 { &mut to[..1] } else { to };
                if is_fast {
                    let taken = end.try_recv(&mut fabric, to, 1);
                    if slices == 1 {
                        assert_eq!(taken, TryRecv::Taken { tag: 9, bytes: usize::try_from(bytes).unwrap() });
                        continue;
                    }
                }
                assert_eq!(end.pull(&mut fabric, to).bytes as u64, bytes);
                assert_eq!(end.counters().copies_timed[1], u64::from(slices == 1 || bytes == 1));
            }
        }
    }
}

/// Word 6 names the chunk, and says how long the copy took. This fabric's clock advances by 100 ns each time that it is read.
#[test]
fn an_acknowledgement_names_the_chunk_that_was_timed() {
    let (mut fabric, mut end) = one::<Direct>();
    let line = |fabric: &Direct| fabric.memories().line(Memory::control_page(1), control_page::ACK);
    fabric.forge(Memory::landing(0), LAYOUT.line_at(0), &wire::chunk(MESSAGE, 9, 100, 100, 1, 1));
    fabric.forge(Memory::landing(0), LAYOUT.line_at(1), &timed(wire::chunk(MESSAGE, 9, 100, 100, 2, 2)));
    let mut place = [0; 192];
    assert_eq!(end.try_recv(&mut fabric, &mut [&mut place], 1), TryRecv::Taken { tag: 9, bytes: 100 });
    assert_eq!((line(&fabric).0[0], line(&fabric).0[6]), (1, 0));
    assert_eq!(end.try_recv(&mut fabric, &mut [&mut place], 1), TryRecv::Taken { tag: 9, bytes: 100 });
    let acknowledged = line(&fabric);
    assert_eq!((acknowledged.0[0], acknowledged.0[6]), (2, 100 << 32 | 2));
}
