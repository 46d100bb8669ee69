//! The packets of a handshake, the same on every fabric. wire.md 6.1, 10.2.

use super::VERSION;
use super::arrival::{ArrivalCaps, ArrivalReason};
use super::config::{FabricKind, RemoteRegion, RemoteRegions};
use super::error::PacketError;
use super::text::{TEXT_BYTES, Text};
use super::tuning::{LandingMode, Tuning};
use crate::nanos::Nanos;
use crate::{Arrival, FirstChunk, Protocol};

/// Bytes of a packet.
pub const PACKET_BYTES: usize = 192;

/// First bytes of every packet of superpipe.
const MAGIC: [u8; 8] = *b"SUPRPIPE";
const HEAD_BYTES: usize = 10;

const NS_PER_MS: u64 = 1_000_000;

const KIND_AT: usize = 10;
const CODE_AT: usize = 11;
const FENCED_AT: usize = 12;
const TUNING_AT: usize = 13;
/// Offset of a fabric's own part, which ends where the text begins.
const FABRIC_AT: usize = 28;
/// Offset in WELCOME of the process that serves the connection, on shared memory.
const PID_AT: usize = FABRIC_AT;
const ORDER_AT: usize = FABRIC_AT;
const CRC_AT: usize = FABRIC_AT + 1;
const REASON_AT: usize = FABRIC_AT + 2;
const ADDR_AT: usize = FABRIC_AT + 4;
const RKEY_AT: usize = FABRIC_AT + 12;
/// Offset of the landing mode, behind what either fabric has of its own.
const LANDING_AT: usize = FABRIC_AT + 16;
/// Offset of the number of receives.
const RECEIVES_AT: usize = LANDING_AT + 1;
/// Offsets of the values of the provision protocol.
const SMALL_BUFFER_AT: usize = LANDING_AT + 2;
const THRESHOLD_AT: usize = SMALL_BUFFER_AT + 2;
/// Offset of the blocks of a group, on shared memory.
const GROUP_AT: usize = THRESHOLD_AT + 2;
/// Where the values of both ends end, behind a reserved byte.
const TUNING_END: usize = GROUP_AT + 2;
/// Offsets of the region of the small buffer, over RDMA.
const SMALL_ADDR_AT: usize = TUNING_END;
const SMALL_RKEY_AT: usize = SMALL_ADDR_AT + 8;
const TEXT_AT: usize = PACKET_BYTES - TEXT_BYTES;
/// Offsets of the refinements of the superpipeline in HELLO and WELCOME, which have no text.
const C0_AT: usize = TEXT_AT;
const GROWTH_AT: usize = C0_AT + 4;
const FIRST_CHUNK_AT: usize = GROWTH_AT + 2;
const SUB_BLOCKS_AT: usize = FIRST_CHUNK_AT + 1;
const TRIPLE_BUFFER_AT: usize = SUB_BLOCKS_AT + 1;
const REFINEMENTS_END: usize = TRIPLE_BUFFER_AT + 1;
/// Offset of the idle timeout in HELLO and WELCOME, behind three reserved bytes.
const IDLE_TIMEOUT_AT: usize = REFINEMENTS_END + 3;
const IDLE_TIMEOUT_END: usize = IDLE_TIMEOUT_AT + 4;

/// Kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Proposal and capabilities of the active end.
    Hello = 1,
    /// Negotiated values, and the memory of the passive end.
    Welcome = 2,
    /// Memory of the active end.
    Grant = 3,
    /// The passive end has the active end's memory.
    Ready = 4,
    /// No connection, with the reason.
    Refused = 5,
}

/// Writes the head of a packet: magic and version.
pub fn write_head(bytes: &mut [u8; HEAD_BYTES]) {
    let [magic @ .., low, high] = bytes;
    *magic = MAGIC;
    [*low, *high] = VERSION.to_le_bytes();
}

/// Checks the head of a packet, whose format is the same in all versions.
///
/// # Errors
/// The packet is not one of superpipe, or of another version.
pub fn check_head(bytes: &[u8]) -> Result<(), PacketError> {
    match bytes.first_chunk::<HEAD_BYTES>() {
        Some([magic @ .., low, high]) if *magic == MAGIC => match u16::from_le_bytes([*low, *high]) {
            VERSION => Ok(()),
            theirs => Err(PacketError::Version { theirs }),
        },
        _ => Err(PacketError::Garbage),
    }
}

/// A packet: magic (8), version (2), kind (1), code (1), membarrier (1), protocol, arrival, folds (1 each), block_bytes,
/// landing_bytes, chunk_bytes (4 each), the fabric's own part (16), landing, receives (1 each), small buffer, threshold (2 each), group
/// (1), reserved (1), region of the small buffer (12), and the text, or C0 (4), growth (2), first chunk, sub-blocks and triple buffering (1 each), reserved (3), idle timeout (4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet(pub [u8; PACKET_BYTES]);

impl Packet {
    /// Makes a packet of this kind in which all else is zero.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        let mut packet = Self::empty();
        if let Some(head) = packet.0.first_chunk_mut() {
            write_head(head);
        }
        packet.0[KIND_AT] = kind as u8;
        packet
    }

    /// Makes a packet of zeros, to be filled by a receive.
    #[must_use]
    pub const fn empty() -> Self {
        Self([0; PACKET_BYTES])
    }

    /// Makes a REFUSED.
    #[must_use]
    pub fn refused(code: u8, text: &Text) -> Self {
        let mut packet = Self::new(Kind::Refused);
        packet.0[CODE_AT] = code;
        packet.set(TEXT_AT, text.to_bytes());
        packet
    }

    /// Returns the kind as a number. REFUSED is an error.
    ///
    /// # Errors
    /// The packet is not one of superpipe, of another version, or REFUSED.
    pub fn kind(&self) -> Result<u8, PacketError> {
        check_head(&self.0)?;
        match self.0[KIND_AT] {
            kind if kind == Kind::Refused as u8 => {
                let text = Text::received(self.get(TEXT_AT));
                Err(PacketError::Refused { code: self.0[CODE_AT], text })
            }
            kind => Ok(kind),
        }
    }

    /// Checks that bytes which this kind does not use are zero: code and text belong to REFUSED, tuning to HELLO and WELCOME.
    pub(super) fn check_reserved(&self, kind: Kind, fabric: &FabricKind) -> Result<(), PacketError> {
        let is_direct = matches!(fabric, FabricKind::Direct { .. });
        let says_much = matches!(kind, Kind::Hello | Kind::Welcome);
        let is_used = |at: usize| match at {
            0..=KIND_AT => true,
            CODE_AT => false,
            FENCED_AT => says_much && is_direct,
            TUNING_AT..FABRIC_AT | LANDING_AT | RECEIVES_AT | C0_AT..REFINEMENTS_END => says_much,
            IDLE_TIMEOUT_AT..IDLE_TIMEOUT_END => says_much,
            SMALL_BUFFER_AT..GROUP_AT => says_much,
            GROUP_AT => says_much && is_direct,
            SMALL_ADDR_AT..TEXT_AT => !is_direct && matches!(kind, Kind::Welcome | Kind::Grant),
            FABRIC_AT..LANDING_AT => match (fabric, kind) {
                (FabricKind::Direct { .. }, Kind::Welcome) => at < PID_AT + 4,
                (FabricKind::Posted { .. }, Kind::Hello) => at <= CRC_AT,
                (FabricKind::Posted { .. }, Kind::Welcome) => at <= REASON_AT || is_region(at),
                (FabricKind::Posted { .. }, Kind::Grant) => is_region(at),
                (FabricKind::Direct { .. }, Kind::Hello | Kind::Grant | Kind::Ready | Kind::Refused)
                | (FabricKind::Posted { .. }, Kind::Ready | Kind::Refused) => false,
            },
            _ => false,
        };
        let is_clean = self.0.iter().enumerate().all(|(at, byte)| *byte == 0 || is_used(at));
        if is_clean && self.0[FENCED_AT] <= 1 { Ok(()) } else { Err(RESERVED_NOT_ZERO) }
    }

    /// Sets proposed or negotiated values. Zero stands for none.
    pub fn set_tuning(&mut self, tuning: &Tuning) {
        self.0[13] = tuning.protocol.map_or(0, |protocol| 1 + index(&Protocol::ALL, &protocol));
        self.0[14] = tuning.arrival.map_or(0, |arrival| 1 + index(&ARRIVALS, &arrival));
        self.0[15] = tuning.folds.unwrap_or(0);
        for (at, value) in [(16, tuning.block_bytes), (20, tuning.landing_bytes), (24, tuning.chunk_bytes)] {
            self.set(at, value.unwrap_or(0).to_le_bytes());
        }
        self.0[LANDING_AT] = tuning.landing.map_or(0, |landing| 1 + index(&LANDINGS, &landing));
        self.0[RECEIVES_AT] = tuning.receives.unwrap_or(0);
        // One that is too large is refused by either end.
        for (at, value) in [
            (SMALL_BUFFER_AT, tuning.small_buffer_bytes),
            (THRESHOLD_AT, tuning.threshold_bytes),
            (GROWTH_AT, tuning.growth_q8),
        ] {
            self.set(at, u16::try_from(value.unwrap_or(0)).unwrap_or(u16::MAX).to_le_bytes());
        }
        self.0[GROUP_AT] = tuning.group_blocks.unwrap_or(0);
        self.set(C0_AT, tuning.c0_bytes.unwrap_or(0).to_le_bytes());
        self.0[FIRST_CHUNK_AT] = tuning.first_chunk.map_or(0, |first| 1 + index(&FirstChunk::ALL, &first));
        self.0[SUB_BLOCKS_AT] = tuning.sub_blocks.map_or(0, |is_on| 1 + u8::from(is_on));
        self.0[TRIPLE_BUFFER_AT] = tuning.triple_buffer.map_or(0, |is_on| 1 + u8::from(is_on));
    }

    /// Returns proposed or negotiated values.
    ///
    /// # Errors
    /// An unknown choice.
    pub fn tuning(&self) -> Result<Tuning, PacketError> {
        let number = |at| Some(u32::from_le_bytes(self.get(at))).filter(|value| *value != 0);
        let short = |at| Some(u16::from_le_bytes(self.get(at)).into()).filter(|value| *value != 0);
        Ok(Tuning {
            protocol: choice(&Protocol::ALL, self.0[13])?,
            arrival: choice(&ARRIVALS, self.0[14])?,
            folds: Some(self.0[15]).filter(|folds| *folds != 0),
            block_bytes: number(16),
            group_blocks: Some(self.0[GROUP_AT]).filter(|blocks| *blocks != 0),
            landing_bytes: number(20),
            chunk_bytes: number(24),
            landing: choice(&LANDINGS, self.0[LANDING_AT])?,
            receives: Some(self.0[RECEIVES_AT]).filter(|receives| *receives != 0),
            small_buffer_bytes: short(SMALL_BUFFER_AT),
            threshold_bytes: short(THRESHOLD_AT),
            c0_bytes: number(C0_AT),
            growth_q8: short(GROWTH_AT),
            first_chunk: choice(&FirstChunk::ALL, self.0[FIRST_CHUNK_AT])?,
            sub_blocks: choice(&SWITCH, self.0[SUB_BLOCKS_AT])?,
            triple_buffer: choice(&SWITCH, self.0[TRIPLE_BUFFER_AT])?,
        })
    }

    /// Sets the time for which the sender of the packet lets its peer be silent. What is longer than 2^32 - 1 ms is told as that.
    pub fn set_idle_timeout(&mut self, timeout: Nanos) {
        let ms = u32::try_from(timeout.0 / NS_PER_MS).unwrap_or(u32::MAX).max(1);
        self.set(IDLE_TIMEOUT_AT, ms.to_le_bytes());
    }

    /// Returns the time for which the sender of the packet lets its peer be silent, if it tells that.
    pub(super) fn idle_timeout(&self) -> Option<Nanos> {
        let ms = u32::from_le_bytes(self.get(IDLE_TIMEOUT_AT));
        (ms != 0).then(|| Nanos(u64::from(ms) * NS_PER_MS))
    }

    pub(super) fn set_fenced(&mut self, is_fenced: bool) {
        self.0[FENCED_AT] = u8::from(is_fenced);
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.0[FENCED_AT] == 1
    }

    pub(super) fn set_pid(&mut self, pid: u32) {
        self.set(PID_AT, pid.to_le_bytes());
    }

    pub(super) fn pid(&self) -> u32 {
        u32::from_le_bytes(self.get(PID_AT))
    }

    pub(super) fn set_arrival_caps(&mut self, keeps_order: bool, has_fast_crc: bool) {
        self.0[ORDER_AT] = u8::from(keeps_order);
        self.0[CRC_AT] = u8::from(has_fast_crc);
    }

    /// Returns the capabilities of the sender, with its proposed mode.
    pub(super) fn arrival_caps(&self, proposed: Option<Arrival>) -> Result<ArrivalCaps, PacketError> {
        match (self.0[ORDER_AT], self.0[CRC_AT]) {
            (order @ 0..=1, crc @ 0..=1) => {
                Ok(ArrivalCaps { keeps_order: order == 1, has_fast_crc: crc == 1, proposed })
            }
            _ => Err(UNKNOWN_CHOICE),
        }
    }

    pub(super) fn set_arrival_reason(&mut self, why: ArrivalReason) {
        self.0[REASON_AT] = why as u8;
    }

    pub(super) fn arrival_reason(&self) -> Result<ArrivalReason, PacketError> {
        ArrivalReason::from_number(self.0[REASON_AT]).ok_or(PacketError::Malformed("an unknown reason"))
    }

    pub(super) fn set_regions(&mut self, RemoteRegions { page, small }: RemoteRegions) {
        self.set(ADDR_AT, page.addr.to_le_bytes());
        self.set(RKEY_AT, page.rkey.to_le_bytes());
        if let Some(small) = small {
            self.set(SMALL_ADDR_AT, small.addr.to_le_bytes());
            self.set(SMALL_RKEY_AT, small.rkey.to_le_bytes());
        }
    }

    /// Returns the regions that the peer names: claims, which its own NIC checks. `has_small` is true if a small buffer was negotiated.
    pub(super) fn regions(&self, has_small: bool) -> Result<RemoteRegions, PacketError> {
        let small = if has_small { Some(self.region_at(SMALL_ADDR_AT, SMALL_RKEY_AT)?) } else { None };
        if !has_small && self.get::<{ TEXT_AT - SMALL_ADDR_AT }>(SMALL_ADDR_AT).iter().any(|byte| *byte != 0)
        {
            return Err(RESERVED_NOT_ZERO);
        }
        Ok(RemoteRegions { page: self.region_at(ADDR_AT, RKEY_AT)?, small })
    }

    fn region_at(&self, addr_at: usize, rkey_at: usize) -> Result<RemoteRegion, PacketError> {
        let addr = u64::from_le_bytes(self.get(addr_at));
        let rkey = u32::from_le_bytes(self.get(rkey_at));
        if addr.checked_add(1 << 31).is_none() || !addr.is_multiple_of(64) {
            return Err(PacketError::Malformed("a region that cannot be"));
        }
        Ok(RemoteRegion { addr, rkey })
    }

    /// Returns the bytes from `at` on, which is a constant that leaves room for them.
    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
    }

    fn set<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Some(place) = self.0.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *place = bytes;
        }
    }
}

const fn is_region(at: usize) -> bool {
    at >= ADDR_AT && at < RKEY_AT + 4
}

const ARRIVALS: [Arrival; 3] = [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify];
const LANDINGS: [LandingMode; 2] = [LandingMode::AtConnect, LandingMode::OnDemand];
const SWITCH: [bool; 2] = [false, true];
const UNKNOWN_CHOICE: PacketError = PacketError::Malformed("an unknown choice");
const RESERVED_NOT_ZERO: PacketError = PacketError::Malformed("reserved bytes are not zero");

fn index<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|other| other == one).and_then(|at| u8::try_from(at).ok()).unwrap_or(0)
}

fn choice<T: Copy>(all: &[T], number: u8) -> Result<Option<T>, PacketError> {
    match usize::from(number).checked_sub(1) {
        None => Ok(None),
        Some(at) => all.get(at).copied().map(Some).ok_or(UNKNOWN_CHOICE),
    }
}

#[cfg(test)]
mod tests;
