//! Handshake of the active end: HELLO, WELCOME, GRANT.

use super::arrival;
use super::arrival::ArrivalCaps;
use super::config::{FabricKind, HandshakeConfig};
use super::error::PacketError;
use super::handshake::{Grants, Handshake, Negotiation, Step};
use super::packet::{Kind, Packet};
use super::tuning::{Defaults, Negotiated, Tuning};

impl<G: Grants> Handshake<G> {
    /// Returns HELLO.
    pub(super) fn hello(config: &HandshakeConfig) -> Packet {
        let mut hello = Packet::new(Kind::Hello);
        hello.set_idle_timeout(config.idle_timeout);
        match config.fabric {
            FabricKind::Direct { is_fenced, .. } => {
                hello.set_tuning(&config.proposed);
                hello.set_fenced(is_fenced);
            }
            FabricKind::Posted { keeps_order, has_fast_crc } => {
                // Each block has its flag.
                hello.set_tuning(&Tuning { group_blocks: None, ..config.proposed });
                hello.set_arrival_caps(keeps_order, has_fast_crc);
            }
        }
        hello
    }

    /// Handles WELCOME: checks the negotiated values and the peer's memory.
    pub(super) fn handle_welcome(
        &mut self,
        welcome: &Packet,
        grant: Option<G::Received>,
    ) -> Result<(), PacketError> {
        let said = welcome.tuning()?;
        let peer_idle_timeout = welcome.idle_timeout();
        let config = &self.config;
        let negotiation = match config.fabric {
            FabricKind::Direct { is_fenced, .. } => Negotiation {
                negotiated: accept(&config.proposed, &said, &Defaults::SHM)?,
                arrival_reason: None,
                is_fenced: is_fenced && welcome.is_fenced(),
                pid: Some(welcome.pid()),
                peer_idle_timeout,
            },
            FabricKind::Posted { keeps_order, has_fast_crc } => {
                let ours = ArrivalCaps { keeps_order, has_fast_crc, proposed: config.proposed.arrival };
                let mode = said.arrival.ok_or(PacketError::Malformed("WELCOME without an arrival mode"))?;
                let why = welcome.arrival_reason()?;
                // WELCOME does not carry the peer's own proposal. The result stands for it if it is this end's proposal, too.
                let theirs = welcome.arrival_caps(ours.proposed.filter(|proposed| *proposed == mode))?;
                arrival::check(ours, theirs, mode)?;
                let negotiated = accept(&config.proposed, &said, &arrival::defaults(mode))?;
                Negotiation {
                    negotiated,
                    arrival_reason: Some(why),
                    is_fenced: false,
                    pid: None,
                    peer_idle_timeout,
                }
            }
        };
        negotiation.negotiated.check_landing(
            config.landing_bytes_max,
            &config.proposed,
            config.role.name(),
        )?;
        let claim = self.claim(welcome, grant, &negotiation.negotiated)?;
        self.provision(negotiation, Some(claim));
        Ok(())
    }

    /// Sends GRANT, which hands this end's memory over.
    pub(super) fn grant(&mut self, negotiation: Negotiation, own: G::Own, peer: G::Peer) {
        let mut grant = Packet::new(Kind::Grant);
        Self::name(&mut grant, &own);
        self.outgoing = Some(grant);
        self.step = Step::AwaitReady(negotiation, own, peer);
    }
}

/// Returns the result that the peer names, if it is valid and respects the proposal of this end.
fn accept(proposed: &Tuning, said: &Tuning, defaults: &Defaults) -> Result<Negotiated, PacketError> {
    let negotiated = Negotiated::from_tuning(said, defaults).map_err(PacketError::Malformed)?;
    proposed.check(&negotiated, defaults)?;
    Ok(negotiated)
}
