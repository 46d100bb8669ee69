//! Ports of the kernel's choice that others have at another address.

use super::*;
use superpipe_verbs::fake::{begin, channel, script};

/// Listens at both wildcards while others have the first `taken` ports that the kernel gives, of IPv6. Each attempt takes two: one
/// for the search for a device that has the address.
fn beside(taken: u16) -> Result<Listener, ConnectError> {
    begin();
    script(|script| {
        script.bound =
            (0..taken).map(|at| SocketAddr::from(([0xFD00, 0, 0, 0, 0, 0, 0, 1], 41_000 + 2 * at))).collect();
        script.free_ports = (41_000..42_000).collect();
    });
    let addresses = ["0.0.0.0:0", "[::]:0"].map(|it| it.parse().unwrap());
    Listener::of(channel(), &addresses, RdmaDevice::default())
}

#[test]
fn the_count_of_tried_ports_is_bounded() {
    for taken in 0..PORT_ATTEMPTS {
        let taken = u16::try_from(taken).unwrap();
        let port = beside(taken).unwrap().local_addr().unwrap().port();
        assert_eq!(port, 41_000 + 2 * taken);
    }
    let error = beside(u16::try_from(PORT_ATTEMPTS).unwrap()).unwrap_err();
    assert!(is_taken(&error), "{error}");
}
