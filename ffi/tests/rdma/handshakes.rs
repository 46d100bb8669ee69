//! Handshakes that succeed, and those that fail.

use crate::addresses;
use crate::end::{accept, deadline, listen, meet, options};
use std::thread;
use superpipe::fabric::rdma::{ConnectError, PacketError, RdmaDevice, RdmaOptions, connect};
use superpipe::{Arrival, Tuning};
use superpipe_verbs::Error;

#[test]
fn both_ends_see_the_same_connection() {
    for ip in addresses() {
        let (there, here) = meet(ip, Tuning::default(), Tuning { folds: Some(4), ..Tuning::default() });
        let (there, here) = (there.unwrap(), here.unwrap());
        assert_eq!((there.negotiated, there.device), (here.negotiated, here.device));
        assert_eq!(there.negotiated.config.folds, 4);
        assert_eq!((there.peer.ip(), here.peer.ip()), (ip, ip));
        assert!(there.share.bytes() > 1 << 20, "{}", there.share.bytes());
    }
}

#[test]
fn proposals_that_differ_are_refused_with_the_reason() {
    for ip in addresses() {
        let of = |folds| Tuning { folds: Some(folds), ..Tuning::default() };
        let (there, here) = meet(ip, of(2), of(3));
        let text = "the two ends disagree: folds is 3 at the listening end and 2 at the connecting end; set it at one end only";
        let here = here.err().unwrap();
        assert!(matches!(here, ConnectError::Packet(PacketError::Disagreement(_))), "{here:?}");
        assert_eq!(here.to_string(), text);
        assert_eq!(there.err().unwrap().to_string(), format!("the peer refused: {text}"));
    }
}

#[test]
fn unpromised_order_needs_flag_at_both_ends() {
    for ip in addresses() {
        let flag = Tuning { arrival: Some(Arrival::Flag), ..Tuning::default() };
        let (there, here) = meet(ip, flag, Tuning::default());
        assert!(matches!(here, Err(ConnectError::Packet(PacketError::Disagreement(_)))));
        let text = there.err().unwrap().to_string();
        assert!(text.contains("set flag at both ends"), "{text}");
    }
}

#[test]
fn nobody_listens() {
    for ip in addresses() {
        let (listener, port) = listen(ip);
        drop(listener);
        let error = connect(&ip.to_string(), port, &options(&Tuning::default()), deadline(), &|| false)
            .err()
            .unwrap();
        assert_eq!(error, ConnectError::Nobody);
        assert!(error.is_transient());
    }
}

#[test]
fn an_error_of_a_device_or_gid_lists_the_valid_ones() {
    for ip in addresses() {
        let through = |device| {
            let tuning = Tuning::default();
            let options = RdmaOptions { device, ..options(&tuning) };
            connect(&ip.to_string(), 1, &options, deadline(), &|| false).err().unwrap()
        };
        let error = through(RdmaDevice { name: Some("rxe99".parse().unwrap()), gid_index: None });
        assert!(matches!(error, ConnectError::Verbs(Error::NoSuchDevice { .. })), "{error}");
        let error = through(RdmaDevice { name: None, gid_index: Some(100_000) }).to_string();
        assert!(
            error.contains("has no GID at index 100000; choose of")
                || error.contains("iWARP, which has no GIDs"),
            "{error}"
        );
    }
}

#[test]
fn a_named_device_is_used() {
    for ip in addresses() {
        let (there, here) = meet(ip, Tuning::default(), Tuning::default());
        let device = there.unwrap().device;
        drop(here);
        let (mut listener, port) = listen(ip);
        thread::scope(|scope| {
            let there = scope.spawn(move || {
                let tuning = Tuning::default();
                let device = RdmaDevice { name: Some(device), gid_index: None };
                let options = RdmaOptions { device, ..options(&tuning) };
                connect(&ip.to_string(), port, &options, deadline(), &|| false).map(|met| met.device)
            });
            let here = accept(&mut listener, &Tuning::default());
            assert_eq!(there.join().unwrap(), Ok(device));
            assert!(here.is_ok());
        });
    }
}

#[test]
fn an_interrupt_ends_the_wait() {
    for ip in addresses() {
        // This listener never answers.
        let (_listener, port) = listen(ip);
        let error =
            connect(&ip.to_string(), port, &options(&Tuning::default()), deadline(), &|| true).err().unwrap();
        assert_eq!(error, ConnectError::Interrupted);
    }
}
