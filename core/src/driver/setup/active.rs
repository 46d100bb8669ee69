//! Part of the active end: it sends HELLO, and judges WELCOME.

use super::arrival;
use super::arrival::Means;
use super::config::{FabricKind, HandshakeConfig};
use super::error::PacketError;
use super::handshake::{Grants, Handshake, Settlement, Step};
use super::packet::{Kind, Packet};
use super::tuning::{Settled, Terms, Tuning};

impl<G: Grants> Handshake<G> {
    /// First packet of the active end.
    pub(super) fn hello(config: &HandshakeConfig) -> Packet {
        let mut hello = Packet::new(Kind::Hello);
        hello.set_tuning(&config.wishes);
        match config.fabric {
            FabricKind::Direct { is_fenced, .. } => hello.set_fenced(is_fenced),
            FabricKind::Posted { keeps_order, has_fast_crc, .. } => {
                hello.set_means(keeps_order, has_fast_crc);
            }
        }
        hello
    }

    /// Judges what the peer settled, and its memory.
    pub(super) fn heard_welcome(
        &mut self,
        welcome: &Packet,
        grant: Option<G::Received>,
    ) -> Result<(), PacketError> {
        let said = welcome.tuning()?;
        let config = &self.config;
        let settlement = match config.fabric {
            FabricKind::Direct { is_fenced, .. } => Settlement {
                settled: keep_to(&config.wishes, &said, &Terms::SHM)?,
                why: None,
                is_fenced: is_fenced && welcome.is_fenced(),
                pid: Some(welcome.pid()),
            },
            FabricKind::Posted { keeps_order, has_fast_crc, notices } => {
                let ours = Means { keeps_order, has_fast_crc, wish: config.wishes.arrival };
                let mode = said.arrival.ok_or(PacketError::Malformed("WELCOME without an arrival mode"))?;
                let why = welcome.why()?;
                // The peer's own wish is not told; what was settled stands for it where it is our wish, too.
                let theirs = welcome.means(ours.wish.filter(|wish| *wish == mode))?;
                arrival::check(ours, theirs, mode)?;
                let settled = keep_to(&config.wishes, &said, &arrival::terms(mode, notices))?;
                Settlement { settled, why: Some(why), is_fenced: false, pid: None }
            }
        };
        settlement.settled.allow_landing(config.landing_bytes_max, &config.wishes, config.role.name())?;
        let claim = self.claim(welcome, grant)?;
        self.provision(settlement, Some(claim));
        Ok(())
    }

    /// Hands this end's memory over.
    pub(super) fn grant(&mut self, settlement: Settlement, own: G::Own, peer: G::Peer) {
        let mut grant = Packet::new(Kind::Grant);
        Self::name(&mut grant, &own);
        self.outgoing = Some(grant);
        self.step = Step::AwaitReady(settlement, own, peer);
    }
}

/// Returns the settlement that the peer names, if it is possible and meets our wishes.
fn keep_to(wishes: &Tuning, said: &Tuning, terms: &Terms) -> Result<Settled, PacketError> {
    let settled = Settled::from_tuning(said, terms).map_err(PacketError::Malformed)?;
    wishes.check(&settled, terms)?;
    Ok(settled)
}
