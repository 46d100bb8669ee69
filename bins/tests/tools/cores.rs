//! Cores of two ends on one host, each of which tells the other its own.

use crate::support::{BOUND, Scratch, rsend_hello};
use std::fs;
use superpipe::os::allowed_cores;

/// Returns two cores that this process may use. None if there is one only.
fn two_cores() -> Option<[String; 2]> {
    let cores: Vec<_> = allowed_cores().iter().map(|core| core.to_string()).collect();
    match &cores[..] {
        [first, .., last] => Some([first.clone(), last.clone()]),
        _ => {
            eprintln!("skipped: two ends need two cores");
            None
        }
    }
}

/// Moves a byte between ends with these cores, and returns what they said with -v.
fn said(cores: [&str; 2]) -> [String; 2] {
    let scratch = Scratch::new("cores");
    fs::write(scratch.data("in"), b"x").unwrap();
    let [sends, receives] = cores;
    let (sent, received) = scratch.pair(
        scratch.rsend(&["-v", "--core", sends, &scratch.address()]).arg(scratch.data("in")),
        scratch.rrecv(&["-v", "--core", receives]).arg(scratch.data("out")),
    );
    assert_eq!((sent.code, received.code), (0, 0), "{}{}", sent.said, received.said);
    [sent.said, received.said]
}

#[test]
fn an_end_that_may_choose_avoids_the_peers_core() {
    let Some(cores) = two_cores() else { return };
    for pinned in &cores {
        let beside = "of the peer\n";
        let [sent, received] = said(["auto", pinned]);
        assert!(
            sent.contains("pinned to core ") && sent.contains(&format!("core {pinned} {beside}")),
            "{sent}"
        );
        assert!(
            !sent.contains(&format!("pinned to core {pinned},")) && !received.contains("pinned to"),
            "{sent}"
        );
        let [sent, received] = said([pinned, "auto"]);
        assert!(received.contains(&format!("core {pinned} {beside}")), "{received}");
        assert!(
            !received.contains(&format!("pinned to core {pinned},")) && !sent.contains("pinned to"),
            "{received}"
        );
    }
}

#[test]
fn pinned_ends_hear_of_their_distance_at_most_once() {
    let Some([one, other]) = two_cores() else { return };
    // Both ends know the same, and near cores of one cluster are no news.
    let [sent, received] = said([&one, &other]);
    let told = |text: &str| text.matches(" of the peer are ").count();
    assert!(told(&sent) <= 1 && told(&received) == told(&sent), "{sent}{received}");
    let [sent, received] = said([&one, &one]);
    assert_eq!([told(&sent), told(&received)], [0, 0], "{sent}{received}");
}

#[test]
fn an_absurd_core_of_the_peer_changes_nothing() {
    let scratch = Scratch::new("absurd-core");
    let receiver = scratch.start_rrecv(scratch.rrecv(&["-v", "--core", "auto"]).arg(scratch.data("out")));
    let mut peer = scratch.connect();
    let mut hello = rsend_hello(1);
    hello[16..20].copy_from_slice(&(u32::MAX - 1).to_le_bytes());
    // 8 bytes in 4 ms, and in a picosecond between two cores of a cluster.
    hello[24..28].fill(0xFF);
    hello[28] = 1;
    peer.send(1, &[&hello], BOUND).unwrap();
    peer.send(3, &[&[0; 24]], BOUND).unwrap();
    receiver.until_it_goes_on("");
    let said = receiver.said();
    assert!(said.contains(", and the peer has core 4294967294\n"), "{said}");
    assert!(!said.contains(" of the peer are "), "{said}");
}
