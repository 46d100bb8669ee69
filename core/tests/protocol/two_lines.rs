//! Messages of 41 to 104 bytes in the two lines of a slot. wire.md 3.2.

use superpipe_core::driver::{Drive, SendFailed, SendOperation, WaitStrategy};
use superpipe_core::{
    Arrival, Closed, Config, Driver, End, Endpoint, Failure, FlagPlace, INLINE_BYTES_MAX, Layout, Line,
    Nanos, Origin, ProtocolError, Pulled, Readable, Reason, RefusedSend, TWO_LINES_BYTES_MAX, TryRecv,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, Memory, Posted, Setup, TestFabric};

const APART: FlagPlace = FlagPlace::Apart { group_blocks: 2 };

fn layout(flags: FlagPlace) -> Layout {
    Layout { block_bytes: 256, block_count: 4, flags }
}

fn both<F: TestFabric>(flags: FlagPlace, arrival: Arrival) -> (F, [Endpoint<F>; 2]) {
    let fabric = F::new(&Setup { send_queue: 8, ..Setup::new(layout(flags), 1) });
    let config = Config { arrival, c0_bytes: 300, folds: 1, order_asserted: true, ..Config::default() };
    let ends = [0, 1]
        .map(|side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap());
    (fabric, ends)
}

fn apart() -> (Direct, [Endpoint<Direct>; 2]) {
    both(APART, Arrival::Flag)
}

fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| i.to_le_bytes()[0].wrapping_mul(7).wrapping_add(1)).collect()
}

/// Every length that takes two lines, one less and one more.
fn lengths() -> impl Iterator<Item = usize> {
    INLINE_BYTES_MAX..=TWO_LINES_BYTES_MAX + 1
}

#[test]
fn the_lines_are_those_of_wire_md() {
    for bytes in lengths() {
        let (mut fabric, [mut end, _]) = apart();
        let message = payload(bytes);
        end.try_send(&mut fabric, 9, &[&message]).unwrap();
        let [first, second] = [0, 64].map(|at| fabric.memories().line(Memory::landing(1), at));
        if bytes > TWO_LINES_BYTES_MAX {
            assert_eq!(first, wire::chunk(kind::RTS | kind::FIN | kind::LEFT, 9, 105, 105, 1, 1));
            continue;
        }
        let mut expected = wire::inline(9, &message[..INLINE_BYTES_MAX], 1);
        expected.0[0] = 7 | (bytes as u64) << 8;
        assert_eq!(first, expected);
        let flat: Vec<u8> = second.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(flat[..bytes - INLINE_BYTES_MAX], message[INLINE_BYTES_MAX..]);
        assert_eq!(end.counters().inline_sent, 1);
    }
}

#[test]
fn they_come_out_of_every_receiving_call() {
    for bytes in lengths() {
        let message = payload(bytes);
        for cuts in [vec![], vec![1], vec![39, 2], vec![40], vec![41], vec![60, 1, 1]] {
            let (mut fabric, [mut from, mut to]) = apart();
            // Each way in its turn, around the ring.
            for way in 0..12 {
                let (head, rest) = message.split_at(way * 9 % bytes);
                from.try_send(&mut fabric, 9, &[head, rest]).unwrap();
                let mut place = [0; 120];
                match way % 4 {
                    0 if cuts.is_empty() => {
                        let taken = to.try_recv(&mut fabric, &mut [&mut place], 1);
                        assert_eq!(taken, TryRecv::Taken { tag: 9, bytes });
                    }
                    1 if cuts.is_empty() => {
                        let taken = to.try_recv_complete(&mut fabric, &mut [&mut place]);
                        assert_eq!(taken, TryRecv::Taken { tag: 9, bytes });
                    }
                    2 => read_in_place(&mut fabric, &mut to, &mut place, way),
                    _ => pull(&mut fabric, &mut to, &mut place, &cuts),
                }
                assert_eq!(place[..bytes], message, "{way} {cuts:?}");
                for _ in 0..9 {
                    to.progress(&mut fabric);
                    fabric.step();
                    from.progress(&mut fabric);
                }
            }
        }
    }
}

/// Pulls into slices of these lengths, several in a call, and then the rest.
fn pull(fabric: &mut Direct, end: &mut Endpoint<Direct>, place: &mut [u8], cuts: &[usize]) {
    assert!(end.incoming(fabric).is_some());
    let mut at = 0;
    for pair in cuts.chunks(2) {
        let (first, rest) = place[at..].split_at_mut(pair[0]);
        let second = &mut rest[..pair.get(1).copied().unwrap_or(0)];
        let pulled = end.pull(fabric, &mut [first, second]);
        assert!(pulled.bytes == pair.iter().sum::<usize>() || pulled.end == End::Fin);
        at += pulled.bytes;
        if pulled.end == End::Fin {
            return;
        }
    }
    let Pulled { end, .. } = end.pull(fabric, &mut [&mut place[at..]]);
    assert_eq!(end, End::Fin);
}

/// Reads in place, `step` bytes at a time, or all at once.
fn read_in_place(fabric: &mut Direct, end: &mut Endpoint<Direct>, place: &mut [u8], step: usize) {
    assert!(end.incoming(fabric).is_some());
    let most = if step > 6 { u32::MAX } else { u32::try_from(step).unwrap() };
    let mut at = 0;
    loop {
        let Readable::Run(run) = end.readable(fabric, most) else { panic!("nothing at {at}") };
        for (from, bytes) in run.spans() {
            let run = fabric.memories().bytes(run.memory, from, bytes);
            place[at..][..run.len()].copy_from_slice(run);
            at += run.len();
        }
        if end.consume(fabric, run.bytes) == End::Fin {
            return;
        }
    }
}

#[test]
fn one_that_is_refused_or_does_not_fit_stays() {
    let (mut fabric, [mut from, mut to]) = apart();
    let message = payload(100);
    for _ in 0..4 {
        from.try_send(&mut fabric, 9, &[&message]).unwrap();
    }
    assert_eq!(from.try_send(&mut fabric, 9, &[&message]), Err(RefusedSend::NoCredit));
    let mut short = [0; 99];
    assert_eq!(to.try_recv(&mut fabric, &mut [&mut short], 1), TryRecv::Other);
    let mut place = [0; 100];
    assert_eq!(to.try_recv(&mut fabric, &mut [&mut place], 1), TryRecv::Taken { tag: 9, bytes: 100 });
    assert!(to.incoming(&mut fabric).is_some());
    assert!(to.reject(&mut fabric, Reason(5)));
    for _ in 0..20 {
        to.progress(&mut fabric);
        fabric.step();
        from.progress(&mut fabric);
    }
    assert_eq!(to.try_recv(&mut fabric, &mut [&mut place], 1), TryRecv::Taken { tag: 9, bytes: 100 });
    from.try_send(&mut fabric, 9, &[&message]).unwrap();
}

#[test]
fn one_may_end_a_lap() {
    let (mut fabric, [mut from, mut to]) = apart();
    from.set_window(Some(2 * 256));
    let message = payload(64);
    for _ in 0..9 {
        from.try_send(&mut fabric, 9, &[&message]).unwrap();
        let mut place = [0; 64];
        assert_eq!(to.try_recv(&mut fabric, &mut [&mut place], 1), TryRecv::Taken { tag: 9, bytes: 64 });
        assert_eq!(place[..], message);
        for _ in 0..9 {
            to.progress(&mut fabric);
            from.progress(&mut fabric);
        }
    }
}

/// What a slot line with an inline message of so many bytes makes of its receiver.
fn hostile<F: TestFabric>(flags: FlagPlace, arrival: Arrival, bytes: u64) -> Option<Closed> {
    let (mut fabric, [mut end, _]) = both::<F>(flags, arrival);
    let mut line = wire::inline(9, &payload(40), 1);
    line.0[0] = 7 | bytes << 8;
    let line: Line = if arrival == Arrival::CheckedFlag { wire::checked(line, 1) } else { line };
    fabric.forge(Memory::landing(0), layout(flags).line_at(0), &line);
    for _ in 0..200 {
        end.progress(&mut fabric);
        fabric.step();
        end.incoming(&mut fabric);
        end.try_recv(&mut fabric, &mut [&mut [0; 300]], 1);
    }
    end.closed()
}

#[test]
fn only_plain_flags_and_lines_apart_have_two() {
    let wrong = Some(Closed::Failed(Failure::Protocol(ProtocolError::InlineTooLong)));
    for bytes in [41, 104, 105, 255] {
        let is_legal = bytes < 105;
        let apart = hostile::<Direct>(APART, Arrival::Flag, bytes);
        assert_eq!(apart, if is_legal { None } else { wrong }, "{bytes}");
        assert_eq!(hostile::<Direct>(FlagPlace::Inside, Arrival::Flag, bytes), wrong);
        assert_eq!(hostile::<Posted>(FlagPlace::Inside, Arrival::Flag, bytes), wrong);
        // It cannot be told from one that has half arrived.
        assert_eq!(hostile::<Direct>(APART, Arrival::CheckedFlag, bytes), None);
        assert_eq!(hostile::<Posted>(FlagPlace::Inside, Arrival::CheckedFlag, bytes), None);
    }
    for (flags, arrival) in [(FlagPlace::Inside, Arrival::Flag), (APART, Arrival::CheckedFlag)] {
        let (mut fabric, [mut end, _]) = both::<Direct>(flags, arrival);
        end.try_send(&mut fabric, 9, &[&payload(64)]).unwrap();
        assert_eq!((end.counters().inline_sent, end.counters().chunks_sent), (0, 1));
    }
}

/// Slices with more bytes than the message was begun with are refused, also where they would fill both lines.
#[test]
fn longer_slices_are_not_cut_to_two_lines() {
    let bytes = payload(200);
    for said in [40, 41, 60, 103, 104, 105] {
        let (mut fabric, [sender, receiver]) = apart();
        let mut from = Driver::new(sender, 1, WaitStrategy::Sleep, u64::MAX, Nanos(0));
        let mut to = Driver::new(receiver, 2, WaitStrategy::Sleep, u64::MAX, Nanos(0));
        let mut send = SendOperation::new(7, said);
        let driven = from.drive_send(&mut fabric, &mut send, &[&bytes[..60], &bytes[60..]]);
        assert_eq!(driven, Drive::Done(Err(SendFailed::WrongLength)), "{said}");
        assert_eq!(to.try_recv(&mut fabric, &mut [&mut [0; 300]]), Ok(None), "{said}");
    }
}
