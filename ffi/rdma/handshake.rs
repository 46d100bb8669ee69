//! How two ends agree on a connection once it carries SENDs, before any memory of theirs can be written. wire.md 10.2.
//!
//! ```text
//! active                                        passive
//!   HELLO   {wishes, means}            ---->                      said again until it is answered
//!                                      <----    WELCOME {what was settled, means, region}
//!   GRANT   {region}                   ---->
//!                                      <----    READY {}
//!                     either may answer REFUSED {code, text} instead
//! ```

use super::arrival::{self, Means, Why};
use super::error::ConnectError;
use super::memory::Half;
use super::wire::{End, Wire};
use crate::budget::Budget;
use crate::copy;
use crate::os::clock::until;
use crate::os::monotonic_ns;
use crate::os::poll::poll;
use crate::packet::{FABRIC_AT, Kind, Packet, PacketError, REFUSED_LIMIT};
use crate::tuning::{Settled, Tuning};
use crate::verbs::{Access, Error, RemoteAddr, Rkey};

/// siw can lose the first message of a connection: the active side says it again.
const AGAIN_NS: u64 = 300_000_000;
/// Whoever asked for a connection and says nothing for so long has gone away meanwhile, which nobody tells on RoCE: others
/// may be waiting.
const FIRST_NS: u64 = 2_000_000_000;
/// The longest that is waited without a look at the caller's flag.
const SLICE_NS: u64 = 100_000_000;

// The fabric's part of a packet, from `FABRIC_AT` on.
const ORDER_AT: usize = FABRIC_AT;
const CRC_AT: usize = FABRIC_AT + 1;
const WHY_AT: usize = FABRIC_AT + 2;
const ADDR_AT: usize = FABRIC_AT + 4;
const RKEY_AT: usize = FABRIC_AT + 12;
const END_AT: usize = FABRIC_AT + 16;

/// What both ends agreed on.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) mine: Half,
    pub(super) image: Half,
    pub(super) there: RemoteAddr,
    pub(super) settled: Settled,
    pub(super) why: Why,
    pub(super) share: Budget,
}

/// Bounds a handshake.
pub(super) struct Patience<'a> {
    pub(super) deadline_ns: u64,
    pub(super) interrupted: &'a dyn Fn() -> bool,
}

/// The active side.
pub(super) fn connect(
    wire: &mut Wire,
    wishes: &Tuning,
    patience: &Patience<'_>,
) -> Result<Agreed, ConnectError> {
    let ours = means(wire, wishes);
    let mut hello = Packet::new(Kind::Hello);
    hello.set_tuning(wishes);
    set_means(&mut hello, ours);
    wire.send_packet(&hello)?;
    let welcome = receive(wire, Kind::Welcome, patience, true)?;
    let answered = (|| {
        let said = welcome.tuning()?;
        let mode = said.arrival.ok_or(PacketError::Malformed("WELCOME without an arrival mode"))?;
        let why = Why::from_number(welcome.0[WHY_AT]).ok_or(PacketError::Malformed("an unknown reason"))?;
        let theirs = means_of(&welcome, None)?;
        // The peer's own wish is not told; what was settled stands for it where it is our wish, too.
        let theirs = Means { wish: ours.wish.filter(|wish| *wish == mode), ..theirs };
        arrival::check(ours, theirs, mode).map_err(PacketError::Disagreement)?;
        let terms = arrival::terms(mode);
        let settled = Settled::from_tuning(&said, &terms).map_err(PacketError::Malformed)?;
        wishes.check(&settled, &terms).map_err(PacketError::Disagreement)?;
        let there = region(&welcome)?;
        let (share, mine, image) = memory(wire, &settled)?;
        Ok(Agreed { mine, image, there, settled, why, share })
    })();
    let agreed = told(wire, answered)?;
    let mut grant = Packet::new(Kind::Grant);
    set_region(&mut grant, &agreed.mine);
    wire.send_packet(&grant)?;
    receive(wire, Kind::Ready, patience, false)?;
    Ok(agreed)
}

/// The passive side.
pub(super) fn accept(
    wire: &mut Wire,
    wishes: &Tuning,
    landing_bytes_max: u32,
    patience: &Patience<'_>,
) -> Result<Agreed, ConnectError> {
    let ours = means(wire, wishes);
    let first = Patience { deadline_ns: patience.deadline_ns.min(monotonic_ns() + FIRST_NS), ..*patience };
    let hello = receive(wire, Kind::Hello, &first, false).map_err(|error| match error {
        ConnectError::TimedOut => ConnectError::Lost("before it said anything"),
        error => error,
    });
    let hello = told(wire, hello)?;
    let settled = (|| {
        let said = hello.tuning()?;
        let theirs = means_of(&hello, said.arrival)?;
        let (mode, why) = arrival::settle(ours, theirs).map_err(PacketError::Disagreement)?;
        let settled = arrival::without_mode(wishes)
            .settle(&arrival::without_mode(&said), &arrival::terms(mode))
            .map_err(PacketError::Disagreement)?;
        settled.allow_landing(landing_bytes_max).map_err(PacketError::Disagreement)?;
        let (share, mine, image) = memory(wire, &settled)?;
        Ok((share, mine, image, settled, why))
    })();
    let (share, mine, image, settled, why) = told(wire, settled)?;
    let mut welcome = Packet::new(Kind::Welcome);
    welcome.set_tuning(&settled.to_tuning());
    set_means(&mut welcome, ours);
    welcome.0[WHY_AT] = why as u8;
    set_region(&mut welcome, &mine);
    wire.send_packet(&welcome)?;
    let grant = receive(wire, Kind::Grant, patience, false).and_then(|grant| Ok(region(&grant)?));
    let there = told(wire, grant)?;
    wire.send_packet(&Packet::new(Kind::Ready))?;
    Ok(Agreed { mine, image, there, settled, why, share })
}

/// Registers both halves, once there is room for them, and for the mail, which the wire has registered to say all this.
fn memory(wire: &Wire, settled: &Settled) -> Result<(Budget, Half, Half), ConnectError> {
    let bytes = 2 * Half::bytes_for(settled.layout) + wire.mail_bytes();
    let share = Budget::take(bytes as u64).map_err(ConnectError::Budget)?;
    let mine = wire.register(settled.layout, Access::RemoteWrite)?;
    Ok((share, mine, wire.register(settled.layout, Access::Local)?))
}

fn means(wire: &Wire, wishes: &Tuning) -> Means {
    Means { keeps_order: wire.keeps_order(), has_fast_crc: copy::crc_is_fast(), wish: wishes.arrival }
}

fn set_means(packet: &mut Packet, means: Means) {
    packet.0[ORDER_AT] = u8::from(means.keeps_order);
    packet.0[CRC_AT] = u8::from(means.has_fast_crc);
}

fn means_of(packet: &Packet, wish: Option<superpipe_core::Arrival>) -> Result<Means, PacketError> {
    match (packet.0[ORDER_AT], packet.0[CRC_AT]) {
        (order @ 0..=1, crc @ 0..=1) => Ok(Means { keeps_order: order == 1, has_fast_crc: crc == 1, wish }),
        _ => Err(PacketError::Malformed("an unknown choice")),
    }
}

fn set_region(packet: &mut Packet, half: &Half) {
    packet.0[ADDR_AT..RKEY_AT].copy_from_slice(&half.mr.remote_addr().to_le_bytes());
    packet.0[RKEY_AT..END_AT].copy_from_slice(&half.mr.rkey().0.to_le_bytes());
}

/// The region that the peer names: a claim, which its own NIC checks.
fn region(packet: &Packet) -> Result<RemoteAddr, PacketError> {
    let (mut addr, mut rkey) = ([0; 8], [0; 4]);
    addr.copy_from_slice(&packet.0[ADDR_AT..RKEY_AT]);
    rkey.copy_from_slice(&packet.0[RKEY_AT..END_AT]);
    let (addr, rkey) = (u64::from_le_bytes(addr), Rkey(u32::from_le_bytes(rkey)));
    if addr.checked_add(1 << 31).is_none() || addr % 64 != 0 {
        return Err(PacketError::Malformed("a region that cannot be"));
    }
    Ok(RemoteAddr { addr, rkey })
}

/// Passes a result on; an error that the peer does not know of is told to it first.
fn told<T>(wire: &mut Wire, result: Result<T, ConnectError>) -> Result<T, ConnectError> {
    result.inspect_err(|error| {
        let (code, text) = match error {
            ConnectError::Packet(error) => (error.refusal(), error.to_string()),
            ConnectError::Budget(error) => (Some(REFUSED_LIMIT), error.text_for_the_peer()),
            ConnectError::Lost(_) | ConnectError::Interrupted | ConnectError::Wrong(_) => {
                (None, String::new())
            }
            ConnectError::Verbs(Error::Verb(error)) if error.is_limit() => {
                (Some(REFUSED_LIMIT), error.to_string())
            }
            ConnectError::Verbs(_)
            | ConnectError::NotFound(_)
            | ConnectError::Refused(_)
            | ConnectError::Nobody
            | ConnectError::TimedOut => (Some(0), error.to_string()),
        };
        let Some(code) = code else { return };
        if wire.send_packet(&Packet::refused(code, &text)).is_ok() {
            // Until the peer has it, or is gone. The connection ends in any case.
            let deadline_ns = monotonic_ns() + SLICE_NS;
            while wire.is_alive() && until(deadline_ns) > 0 {
                wire.poll();
                std::thread::sleep(core::time::Duration::from_millis(1));
            }
        }
    })
}

/// The next packet, of this kind. HELLO may come more than once.
fn receive(
    wire: &mut Wire,
    kind: Kind,
    patience: &Patience<'_>,
    repeat: bool,
) -> Result<Packet, ConnectError> {
    loop {
        let packet = next(wire, patience, repeat)?;
        match packet.kind()? {
            number if number == kind as u8 => return Ok(packet),
            number if number == Kind::Hello as u8 && kind == Kind::Grant => {}
            _ => return Err(PacketError::Malformed("a packet out of turn").into()),
        }
    }
}

/// Waits for a packet, asleep.
fn next(wire: &mut Wire, patience: &Patience<'_>, repeat: bool) -> Result<Packet, ConnectError> {
    let mut again_ns = monotonic_ns() + AGAIN_NS;
    loop {
        if let Some(packet) = wire.take_packet() {
            return Ok(packet);
        }
        if let End::Failed(error) = wire.end {
            return Err(Error::Verb(crate::os::OsError::new(
                libc::EIO,
                format!("handshake: {}", crate::verbs::WcStatus(error.status)),
            ))
            .into());
        }
        if wire.end != End::Not || !wire.is_alive() {
            // What it said before it went is still there.
            return match (wire.take_packet(), wire.end) {
                (Some(packet), _) => Ok(packet),
                (None, End::Wrong(wrong)) => Err(ConnectError::Wrong(wrong)),
                (None, _) => Err(ConnectError::Lost("in the handshake")),
            };
        }
        if (patience.interrupted)() {
            return Err(ConnectError::Interrupted);
        }
        let left = until(patience.deadline_ns);
        if left == 0 {
            return Err(ConnectError::TimedOut);
        }
        if repeat && until(again_ns) == 0 {
            wire.again()?;
            again_ns = monotonic_ns() + AGAIN_NS;
        }
        if wire.arm()? {
            continue;
        }
        let mut fds = wire.sleep_interests();
        poll(&mut fds, left.min(SLICE_NS)).map_err(Error::Verb)?;
        wire.take_events()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_survive_the_way_and_others_are_refused() {
        for (keeps_order, has_fast_crc) in [(false, false), (false, true), (true, false), (true, true)] {
            let means = Means { keeps_order, has_fast_crc, wish: None };
            let mut packet = Packet::new(Kind::Hello);
            set_means(&mut packet, means);
            assert_eq!(means_of(&packet, None), Ok(means));
            for at in [ORDER_AT, CRC_AT] {
                packet.0[at] = 2;
                assert_eq!(means_of(&packet, None), Err(PacketError::Malformed("an unknown choice")));
            }
        }
    }

    #[test]
    fn a_region_is_aligned_and_does_not_wrap() {
        let said = |addr: u64| {
            let mut packet = Packet::new(Kind::Grant);
            packet.0[ADDR_AT..RKEY_AT].copy_from_slice(&addr.to_le_bytes());
            packet.0[RKEY_AT..END_AT].copy_from_slice(&7_u32.to_le_bytes());
            region(&packet)
        };
        let end = u64::MAX - (1 << 31);
        for addr in [0, 64, end - 63] {
            assert_eq!(said(addr), Ok(RemoteAddr { addr, rkey: Rkey(7) }));
        }
        for addr in [1, 63, end + 1, u64::MAX - 63, u64::MAX] {
            assert_eq!(said(addr), Err(PacketError::Malformed("a region that cannot be")), "{addr:#x}");
        }
    }
}
