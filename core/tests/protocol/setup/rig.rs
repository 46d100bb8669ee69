//! One end under test, memory that is a number, and packets written by hand.

use superpipe_core::Nanos;
use superpipe_core::driver::setup::{
    Action, Ancillary, BLOCK_BYTES, Claim, Established, FabricKind, Grants, Handshake, HandshakeConfig,
    HandshakeFailure, Kind, PACKET_BYTES, Packet, PacketError, REFUSED_LIMIT, Refusal, RemoteRegion,
    RemoteRegions, Role, SHM_BLOCK_BYTES, Tuning,
};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const BEGIN: u64 = 100 * SECOND;
pub(crate) const DEADLINE: u64 = BEGIN + 5 * SECOND;
pub(crate) const REPEAT: u64 = SECOND * 3 / 10;
/// Idle timeouts of the end under test, and of its peer.
pub(crate) const IDLE_TIMEOUT: u64 = 30 * SECOND;
pub(crate) const PEER_IDLE_MS: [u8; 4] = [0xe8, 3, 0, 0];
pub(crate) const PEER_IDLE_TIMEOUT: u64 = SECOND;
pub(crate) const SILENCE: u64 = 2 * SECOND;
pub(crate) const PID: u32 = 77;

pub(crate) const OWN_REGION: RemoteRegion = RemoteRegion { addr: 0x7000, rkey: 3 };
/// Memory of an end without a small buffer.
pub(crate) const OWN_PAGE: RemoteRegions = RemoteRegions { page: OWN_REGION, small: None };
pub(crate) const OWN_SMALL: RemoteRegion = RemoteRegion { addr: 0x9040, rkey: 4 };
pub(crate) const PEER_REGION: RemoteRegion = RemoteRegion { addr: 0x1_0000_0040, rkey: 9 };

pub(crate) const DIRECT: FabricKind = FabricKind::Direct { is_fenced: true, pid: PID };
pub(crate) const POSTED: FabricKind = FabricKind::Posted { keeps_order: true, has_fast_crc: false };
pub(crate) const FABRICS: [FabricKind; 2] = [DIRECT, POSTED];
pub(crate) const ROLES: [Role; 2] = [Role::Active, Role::Passive];

/// Memory that is a number.
#[derive(Debug)]
pub(crate) struct Play;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Own(pub(crate) Option<RemoteRegions>);
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Received(pub(crate) u32);

/// Failure of this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Limit,
    Socket,
}

impl Grants for Play {
    type Own = Own;
    type Received = Received;
    type Peer = u32;
    type Error = Broken;

    fn regions(own: &Own) -> Option<RemoteRegions> {
        own.0
    }

    fn refusal(error: &Broken) -> Option<Refusal> {
        match error {
            Broken::Limit => Some(Refusal { code: REFUSED_LIMIT, text: "no room".into() }),
            Broken::Socket => None,
        }
    }
}

pub(crate) fn config(role: Role, fabric: FabricKind) -> HandshakeConfig {
    let is_posted = fabric == POSTED;
    HandshakeConfig {
        role,
        fabric,
        proposed: Tuning::default(),
        landing_bytes_max: 64 << 20,
        idle_timeout: Nanos(IDLE_TIMEOUT),
        hello_repeat: is_posted.then_some(Nanos(REPEAT)),
        first_silence: is_posted.then_some(Nanos(SILENCE)),
        deadline: Nanos(DEADLINE),
    }
}

/// The end under test.
pub(crate) struct Rig {
    pub(crate) handshake: Handshake<Play>,
    pub(crate) fabric: FabricKind,
    pub(crate) now: u64,
    /// A small buffer was negotiated.
    has_small: bool,
    /// The last packet that it sent.
    pub(crate) sent: Option<Packet>,
    pub(crate) agreed: Option<Established<Play>>,
    pub(crate) failure: Option<HandshakeFailure<Broken>>,
}

impl Rig {
    pub(crate) fn new(role: Role, fabric: FabricKind) -> Self {
        Self::of(config(role, fabric))
    }

    pub(crate) fn of(config: HandshakeConfig) -> Self {
        let handshake = Handshake::new(config, Nanos(BEGIN));
        let fabric = config.fabric;
        Self { handshake, fabric, now: BEGIN, has_small: false, sent: None, agreed: None, failure: None }
    }

    /// Returns the actions that it asks for, in words.
    pub(crate) fn wants(&mut self) -> Vec<String> {
        let mut wants = Vec::new();
        while let Some(action) = self.handshake.poll_action() {
            wants.push(match action {
                Action::Send { packet, with_own } => {
                    let name = name(&packet);
                    self.sent = Some(packet);
                    if with_own { format!("{name} beside own") } else { name }
                }
                Action::Provision(negotiated) => {
                    self.has_small = negotiated.small_buffer().is_some();
                    format!("provision {} blocks", negotiated.layout.block_count)
                }
                Action::Adopt(Claim::Received(Received(number))) => format!("adopt descriptor {number}"),
                Action::Adopt(Claim::Regions(RemoteRegions { page, small: None })) => {
                    format!("adopt region {:#x}", page.addr)
                }
                Action::Adopt(Claim::Regions(RemoteRegions { page, small: Some(small) })) => {
                    format!("adopt regions {:#x} {:#x}", page.addr, small.addr)
                }
                Action::Hold => "hold".to_owned(),
                Action::Established(agreed) => {
                    self.agreed = Some(agreed);
                    "established".to_owned()
                }
                Action::Failed(failure) => {
                    let why = why(&failure);
                    self.failure = Some(failure);
                    format!("failed: {why}")
                }
            });
        }
        wants
    }

    /// It wants exactly this.
    #[track_caller]
    pub(crate) fn expect(&mut self, wants: &[&str]) {
        assert_eq!(self.wants(), wants);
    }

    pub(crate) fn packet(&mut self, packet: &Packet) {
        self.bytes(&packet.0, Ancillary::Nothing);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8], beside: Ancillary<Received>) {
        self.handshake.handle_packet(bytes, beside, Nanos(self.now));
    }

    /// A packet of a fabric whose memory comes with it.
    pub(crate) fn memory(&mut self, packet: &Packet) {
        let beside = if self.fabric == DIRECT { Ancillary::One(Received(5)) } else { Ancillary::Nothing };
        self.bytes(&packet.0, beside);
    }

    pub(crate) fn provisioned(&mut self) {
        let small = self.has_small.then_some(OWN_SMALL);
        let own = RemoteRegions { small, ..OWN_PAGE };
        self.handshake.handle_provisioned(Ok(Own((self.fabric == POSTED).then_some(own))));
    }

    pub(crate) fn at(&mut self, now: u64) {
        self.now = now;
        self.handshake.handle_timeout(Nanos(now));
    }

    pub(crate) fn timeout(&self) -> Option<u64> {
        self.handshake.poll_timeout().map(|time| time.0)
    }

    /// Goes to a step of its role, by the honest way.
    pub(crate) fn to(mut self, step: usize) -> Self {
        let is_active = self.handshake_is_active();
        self.wants();
        for number in 0..step {
            match (is_active, number) {
                (true, 0) => self.memory(&welcome(self.fabric)),
                (false, 0) => self.packet(&hello(self.fabric)),
                (_, 1) => self.provisioned(),
                (true, 2) | (false, 3) => self.handshake.handle_adopted(Ok(6)),
                (false, 2) => self.memory(&grant(self.fabric)),
                (true, 3) => self.packet(&Packet::new(Kind::Ready)),
                _ => self.handshake.handle_held(Ok(())),
            }
            self.wants();
        }
        self
    }

    fn handshake_is_active(&self) -> bool {
        format!("{:?}", self.handshake).contains("Active")
    }
}

/// Steps of either role, before the first event to behind the last.
pub(crate) const STEPS: usize = 6;

pub(crate) fn name(packet: &Packet) -> String {
    match packet.kind() {
        Err(PacketError::Refused { code, text }) => format!("REFUSED {code}: {text}"),
        Err(error) => panic!("it sends no packet: {error}"),
        Ok(kind) => ["", "HELLO", "WELCOME", "GRANT", "READY"][usize::from(kind)].to_owned(),
    }
}

pub(crate) fn why(failure: &HandshakeFailure<Broken>) -> String {
    match failure {
        HandshakeFailure::Packet(PacketError::Malformed(what)) => (*what).to_owned(),
        HandshakeFailure::Packet(PacketError::Garbage) => "garbage".to_owned(),
        HandshakeFailure::Packet(error) => error.to_string(),
        HandshakeFailure::Local(error) => format!("{error:?} here"),
        other => format!("{other:?}"),
    }
}

/// A packet of these bytes, as a peer writes them by hand: at, bytes.
pub(crate) fn by_hand(kind: u8, fields: &[(usize, &[u8])]) -> Packet {
    let mut bytes = [0; PACKET_BYTES];
    bytes[..8].copy_from_slice(b"SUPRPIPE");
    bytes[8] = 6;
    bytes[10] = kind;
    for (at, field) in fields {
        bytes[*at..at + field.len()].copy_from_slice(field);
    }
    Packet(bytes)
}

pub(crate) fn hello(fabric: FabricKind) -> Packet {
    let own: (usize, &[u8]) = if fabric == DIRECT { (12, &[1]) } else { (28, &[1, 0]) };
    by_hand(1, &[own, (76, &PEER_IDLE_MS)])
}

/// The defaults, negotiated.
pub(crate) fn welcome(fabric: FabricKind) -> Packet {
    welcome_of(fabric, block_bytes(fabric), 512 << 10)
}

/// The default block of a fabric.
pub(crate) fn block_bytes(fabric: FabricKind) -> u32 {
    if fabric == DIRECT { SHM_BLOCK_BYTES } else { BLOCK_BYTES }
}

pub(crate) fn welcome_of(fabric: FabricKind, block_bytes: u32, landing_bytes: u32) -> Packet {
    let (block, landing) = (block_bytes.to_le_bytes(), landing_bytes.to_le_bytes());
    let tuning: [(usize, &[u8]); 4] = [(13, &[4, 1, 3]), (16, &block), (20, &landing), (76, &PEER_IDLE_MS)];
    let (addr, rkey) = (PEER_REGION.addr.to_le_bytes(), PEER_REGION.rkey.to_le_bytes());
    let pid = 88_u32.to_le_bytes();
    let own: Vec<(usize, &[u8])> = if fabric == DIRECT {
        vec![(12, &[1]), (28, &pid)]
    } else {
        vec![(28, &[1, 0, 1]), (32, &addr), (40, &rkey)]
    };
    by_hand(2, &[&tuning[..], &own].concat())
}

pub(crate) fn grant(fabric: FabricKind) -> Packet {
    let (addr, rkey) = (PEER_REGION.addr.to_le_bytes(), PEER_REGION.rkey.to_le_bytes());
    let region: [(usize, &[u8]); 2] = [(32, &addr), (40, &rkey)];
    by_hand(3, if fabric == DIRECT { &[] } else { &region })
}

pub(crate) fn ready() -> Packet {
    by_hand(4, &[])
}
