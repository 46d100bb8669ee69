//! The provision protocol: small buffers that are regions of their own, left, and released. wire.md 4.7, 10.3.

use super::*;
use superpipe_core::{Protocol, small_layout};

const SMALL_BYTES: u32 = 1024;
/// Less than the threshold, and more.
const FEW: usize = 700;
const MANY: usize = 5000;

impl Pair {
    fn provision(arrival: Arrival) -> Self {
        let config = Config {
            arrival,
            protocol: Protocol::Provision,
            small_buffer_bytes: SMALL_BYTES,
            threshold_bytes: 904,
            order_asserted: true,
            ..Config::default()
        };
        Self::with(
            LinkTerms { small: Some(small_layout(SMALL_BYTES)), ..terms(arrival, Some(LARGEST)) },
            config,
            arrival == Arrival::Notify,
        )
    }

    /// Returns the regions that are the small buffer of an end and its image of the peer's, as long as they are registered.
    fn small(&self, side: usize) -> [Option<Region>; 2] {
        let at_device = |at: u64| {
            self.sides[side]
                .device
                .regions
                .iter()
                .find(|region| region.holds(at, SMALL_BYTES.into()))
                .copied()
        };
        let attached = self.link(side).memory.growth.as_ref().unwrap().small(small_layout(SMALL_BYTES));
        attached.map_or([None; 2], |(landing, image)| {
            [landing.memory, image.memory.span]
                .map(|span| at_device(span.at(0, 1).expose_provenance() as u64))
        })
    }
}

#[test]
fn small_buffers_are_regions_apart_from_the_control_page() {
    let pair = Pair::provision(Arrival::Flag);
    for side in [0, 1] {
        let [mine, image] = pair.small(side).map(Option::unwrap);
        assert_eq!((mine.bytes, image.bytes), (4096, 4096));
        assert_eq!((mine.access, image.access), (3, 1), "the peer writes the buffer, and no image");
        let page = &pair.link(side).memory.mine.mr;
        assert!(!mine.holds(page.remote_addr(), 1) && mine.key != page.rkey().0);
    }
}

#[test]
fn a_small_buffer_goes_at_both_ends_once_it_was_left() {
    for arrival in MODES {
        let mut pair = Pair::provision(arrival);
        let first = pair.regions();
        let [there, image] = [pair.small(1)[0].unwrap(), pair.small(0)[1].unwrap()];
        pair.carry(0, 1, &payload(FEW));
        pair.carry(0, 2, &payload(40));
        assert_eq!(pair.regions(), first, "{arrival:?}: it goes through the small buffer");
        assert_eq!(pair.sides[0].driver.counters().moves, 0);
        pair.carry(0, 3, &payload(MANY));
        pair.quiesce();
        assert_eq!(pair.regions(), first, "{arrival:?}: a larger one each, and a small one less");
        assert!(!pair.sides[1].device.regions.contains(&there), "{arrival:?}: the owner's");
        assert!(!pair.sides[0].device.regions.contains(&image), "{arrival:?}: the image");
        assert!(pair.small(0)[0].is_none(), "neither is used again");
        // A late write meets no memory.
        let to = RemoteAddr { addr: there.start, rkey: Rkey(there.key) };
        pair.on(1, |_, _| {
            // SAFETY: the key is that of no region.
            assert_ne!(unsafe { write_from_peer(to, &[7; 8]) }, WcStatus::SUCCESS);
        });
        // The other direction goes on in its small buffer.
        pair.carry(1, 4, &payload(FEW));
        assert_eq!(pair.sides[1].driver.counters().moves, 0);
        pair.carry(1, 5, &payload(MANY));
        pair.quiesce();
        // The base takes its place.
        pair.shrink();
        for side in [0, 1] {
            pair.carry(side, 6, &payload(FEW));
        }
        pair.quiesce();
        assert_eq!(pair.regions(), first.map(|count| count - 2), "{arrival:?}: control pages and messages");
        for side in [0, 1] {
            pair.carry(side, 7, &payload(MANY));
        }
        assert!(pair.are_open());
    }
}

/// Claims 2, 6 and 18, in the log of the devices: registered before GROWN, written after; deregistered after RETIRED.
#[test]
fn the_device_registers_the_larger_before_it_loses_the_small() {
    let mut pair = Pair::provision(Arrival::Flag);
    pair.carry(0, 1, &payload(FEW));
    for side in [0, 1] {
        pair.on(side, |_, _| calls());
    }
    pair.carry(0, 2, &payload(MANY));
    pair.quiesce();
    for side in [0, 1] {
        let registrations: List<_> =
            pair.on(side, |_, _| calls()).into_iter().filter(|call| call.ends_with("_mr")).collect();
        assert_eq!(registrations, ["ibv_reg_mr", "ibv_dereg_mr"], "{side}");
    }
}

#[test]
fn writes_into_a_small_buffer_are_named_by_their_offset() {
    // Over iWARP in notify mode: the signal, the place, the write.
    let mut pair = Pair::provision(Arrival::Notify);
    let message = payload(60);
    pair.on(0, |driver, fabric| {
        driver.try_send(fabric, 1, &[&message]).unwrap();
        driver.progress(fabric);
        let sends: List<_> = script(|script| script.posted.clone())
            .concat()
            .iter()
            .map(gathered)
            .filter(|sent| sent.len() > 8)
            .collect();
        let [sent] = &sends[..] else { panic!("{sends:?}") };
        let place = u32::from_le_bytes(sent[4..8].try_into().unwrap());
        assert!((1 << 30..(1 << 30) + SMALL_BYTES).contains(&place), "{place:#x}: wire.md 10.3");
    });
    let mut place = [0; 60];
    let received = pair.on(1, |driver, fabric| driver.try_recv(fabric, &mut [&mut place]).unwrap());
    assert_eq!((received.map(|it| it.bytes), place.to_vec()), (Some(60), message));
}

#[test]
fn a_device_that_keeps_a_small_buffer_fails_no_message() {
    for side in [0, 1] {
        let mut pair = Pair::provision(Arrival::Notify);
        pair.on(side, |_, _| answer("ibv_dereg_mr", libc::EBUSY));
        for bytes in [FEW, MANY, 20_000, FEW] {
            pair.carry(0, 1, &payload(bytes));
            pair.carry(1, 2, &payload(bytes));
        }
        pair.quiesce();
        assert!(pair.are_open(), "{side}");
    }
}

#[test]
fn a_link_that_is_dropped_gives_its_small_buffers_back() {
    for is_used in [false, true] {
        let mut pair = Pair::provision(Arrival::Notify);
        if is_used {
            pair.carry(0, 1, &payload(MANY));
        }
        for Side { driver, mut device, .. } in pair.sides {
            device.calls.clear();
            script(|script| swap(script, &mut device));
            drop(driver);
            assert!(script(|script| script.regions.is_empty()));
            let calls = calls();
            let first = |name| calls.iter().position(|call| *call == name);
            assert!(first("ibv_destroy_qp") < first("ibv_dereg_mr"), "{calls:?}");
        }
    }
}
