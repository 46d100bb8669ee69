//! The end of a connection, in every state of exposed memory.

use superpipe_core::driver::{Drive, RecvOperation};
use superpipe_core::{Arrival, Closed, ExposedState, Reason};

use super::{ARRIVALS, Two, payload};

#[test]
fn messages_that_were_sent_before_an_orderly_close_are_taken() {
    for arrival in ARRIVALS {
        let mut t = Two::new(arrival);
        let memory = payload(2_000_000, 1);
        let (exposed, _) = t.exposed(0, memory.clone());
        t.send(0, 1, (exposed, 0), &memory);
        t.send(0, 2, (exposed, 9), &memory[9..]);
        t.ends[0].close(&mut t.fabric, Reason::DONE);
        assert_eq!(t.state(0, exposed), ExposedState::Gone);
        assert_eq!(t.expose(0, memory.clone()).0, None);
        t.withdraw(0, exposed);
        t.settle();
        assert_eq!(t.fabric.exposed().mapped(1), 1);
        for (number, offset) in [(1, 0), (2, 9)] {
            assert!(t.is_shared(0, exposed), "the peer still reads it");
            let (received, bytes) = t.receive(1, memory.len()).unwrap();
            assert!(received.tag == number && bytes == memory[offset..]);
        }
        t.settle();
        assert!(!t.is_shared(0, exposed), "the acknowledgement comes after the close");
        assert_eq!(t.closed(1), Some(Closed::ByPeer(Reason::DONE)));
        assert_eq!(t.fabric.exposed().mapped(1), 1, "all memory goes with the connection");
    }
}

#[test]
fn nothing_is_delivered_after_a_close_with_a_reason() {
    for closer in 0..2 {
        let mut t = Two::new(Arrival::Flag);
        let memory = payload(3_000_000, 1);
        let (exposed, _) = t.exposed(0, memory.clone());
        t.send(0, 1, (exposed, 0), &memory);
        let (mut op, mut place) = (RecvOperation::new(), vec![0; memory.len()]);
        let driven = t.ends[1].drive_recv(&mut t.fabric, &mut op, &mut [&mut place]);
        assert_eq!((driven, op.taken()), (Drive::Moved, 1 << 20));
        t.ends[closer].close(&mut t.fabric, Reason(7));
        t.settle();
        assert_eq!(t.closed(closer), Some(Closed::Here(Reason(7))));
        assert_eq!(t.closed(1 - closer), Some(Closed::ByPeer(Reason(7))));
        for _ in 0..9 {
            let driven = t.ends[1].drive_recv(&mut t.fabric, &mut op, &mut [&mut place]);
            assert!(!matches!(driven, Drive::Moved | Drive::Done(Ok(_))), "{driven:?}");
        }
        assert_eq!(op.taken(), 1 << 20);
        assert!(t.is_shared(0, exposed), "the peer has not said that it is done");
        t.withdraw(0, exposed);
        t.settle();
        assert!(t.is_shared(0, exposed));
    }
}

/// Closes after a number of rounds since memory was exposed, whatever is under way then.
#[test]
fn a_close_may_come_while_memory_is_exposed_or_withdrawn() {
    for closer in 0..2 {
        for reason in [Reason::DONE, Reason(7)] {
            for rounds in 0..40 {
                let mut t = Two::new(Arrival::Flag);
                let memory = payload(3000, 1);
                let (first, _) = t.exposed(0, memory.clone());
                t.withdraw(0, first);
                let second = t.expose(0, memory.clone()).0.unwrap();
                for round in 0..rounds {
                    t.ends[usize::from(round % 3 == 0)].progress(&mut t.fabric);
                    if round == 20 {
                        t.withdraw(0, second);
                    }
                }
                t.ends[closer].close(&mut t.fabric, reason);
                t.settle();
                assert_eq!(t.closed(closer), Some(Closed::Here(reason)), "{rounds}");
                assert_eq!(t.closed(1 - closer), Some(Closed::ByPeer(reason)), "{rounds}");
                assert_eq!(t.state(0, second), ExposedState::Gone);
                assert!(
                    t.ends.iter_mut().all(|end| matches!(end.drive_close(&mut t.fabric), Drive::Done(_)))
                );
            }
        }
    }
}
