//! Reserved words that are not zero and equal: each is refused, whatever the others are. wire.md 3.2, 5.

use superpipe_core::driver::WaitStrategy;
use superpipe_core::{
    Arrival, Closed, Config, Driver, Endpoint, Failure, FlagPlace, Header, Layout, Line, Nanos, Origin,
    ProtocolError,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, Memory, Posted, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };
const WRONG: Closed = Closed::Failed(Failure::Protocol(ProtocolError::ReservedNotZero));

/// The line with these words, each of them changed alike.
fn with(mut line: Line, words: [usize; 2], value: u64) -> Line {
    words.into_iter().for_each(|word| line.0[word] ^= value);
    line
}

#[test]
fn of_a_header_none_hides_another() {
    let next = wire::chunk(0, 0, 0, 100, 1, 2);
    let cancel = wire::cancel(1, 66, 2);
    let message = wire::chunk(kind::RTS | kind::FIN, 7, 100, 100, 1, 1);
    for (line, pairs) in [
        (next, &[[1, 2], [5, 6]][..]),
        (message, &[[5, 6]]),
        (cancel, &[[2, 3], [2, 5], [2, 6], [3, 5], [3, 6], [5, 6], [0, 2], [0, 3], [0, 5], [0, 6]]),
    ] {
        assert!(Header::parse(&line).is_ok());
        for words in pairs {
            // Above the bits of kinds, of word 0.
            let parsed = Header::parse(&with(line, *words, 1 << 20));
            assert_eq!(parsed, Err(ProtocolError::ReservedNotZero), "{words:?}");
        }
    }
}

/// An end whose peer is this test.
fn end<F: TestFabric>() -> (F, Driver<F>) {
    let fabric = F::new(&Setup::new(LAYOUT, 1));
    let config = Config { arrival: Arrival::Flag, c0_bytes: 600, order_asserted: true, ..Config::default() };
    let endpoint = Endpoint::new(&fabric, fabric.attachment(0), config, Origin::default()).unwrap();
    (fabric, Driver::new(endpoint, 1, WaitStrategy::Sleep, 1_000_000_000, Nanos(0)))
}

fn of_a_message_that_goes_the_short_way<F: TestFabric>() {
    let message = wire::chunk(kind::RTS | kind::FIN, 7, 100, 100, 1, 1);
    let (mut fabric, mut driver) = end::<F>();
    fabric.forge(Memory::landing(0), LAYOUT.line_at(0), &with(message, [5, 6], 9));
    assert_eq!(driver.try_recv(&mut fabric, &mut [&mut [0; 100]]), Ok(None));
    assert_eq!(driver.endpoint().closed(), Some(WRONG));
}

fn of_a_control_message<F: TestFabric>() {
    for words in [[4, 5], [5, 6], [4, 6]] {
        let (mut fabric, mut driver) = end::<F>();
        let close = with(wire::close(0, 0, 1), words, 9);
        fabric.forge(Memory::control_page(0), wire::mailbox(0), &close);
        for _ in 0..9 {
            driver.progress(&mut fabric);
            driver.endpoint_mut().poll_acknowledgements(&mut fabric);
        }
        assert_eq!(driver.endpoint().closed(), Some(WRONG), "{words:?}");
    }
}

#[test]
fn none_hides_another_over_direct_store() {
    of_a_message_that_goes_the_short_way::<Direct>();
    of_a_control_message::<Direct>();
}

#[test]
fn none_hides_another_over_posted_writes() {
    of_a_message_that_goes_the_short_way::<Posted>();
    of_a_control_message::<Posted>();
}
