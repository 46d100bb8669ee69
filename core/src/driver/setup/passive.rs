//! Handshake of the passive end: HELLO and WELCOME.

use super::arrival::{self, ArrivalCaps};
use super::config::FabricKind;
use super::error::PacketError;
use super::handshake::{Grants, Handshake, Negotiation, Step};
use super::packet::{Kind, Packet};
use super::tuning::Defaults;

impl<G: Grants> Handshake<G> {
    /// Handles HELLO: negotiates the values of both ends.
    pub(super) fn handle_hello(&mut self, hello: &Packet) -> Result<(), PacketError> {
        let said = hello.tuning()?;
        let peer_idle_timeout = hello.idle_timeout();
        let config = &self.config;
        let negotiation = match config.fabric {
            FabricKind::Direct { is_fenced, .. } => Negotiation {
                negotiated: Defaults::SHM.negotiate(&config.proposed, &said)?,
                arrival_reason: None,
                is_fenced: is_fenced && hello.is_fenced(),
                pid: None,
                peer_idle_timeout,
            },
            FabricKind::Posted { keeps_order, has_fast_crc } => {
                let ours = ArrivalCaps { keeps_order, has_fast_crc, proposed: config.proposed.arrival };
                let (mode, why) = arrival::negotiate(ours, hello.arrival_caps(said.arrival)?)?;
                let negotiated = arrival::defaults(mode).negotiate(&config.proposed, &said)?;
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
        self.provision(negotiation, None);
        Ok(())
    }

    /// Sends WELCOME, with the negotiated values and this end's memory.
    pub(super) fn welcome(&mut self, negotiation: Negotiation, own: G::Own) {
        let mut welcome = Packet::new(Kind::Welcome);
        welcome.set_idle_timeout(self.config.idle_timeout);
        welcome.set_tuning(&negotiation.negotiated.to_tuning());
        match self.config.fabric {
            FabricKind::Direct { is_fenced, pid } => {
                welcome.set_fenced(is_fenced);
                welcome.set_pid(pid);
            }
            FabricKind::Posted { keeps_order, has_fast_crc } => {
                welcome.set_arrival_caps(keeps_order, has_fast_crc);
            }
        }
        if let Some(why) = negotiation.arrival_reason {
            welcome.set_arrival_reason(why);
        }
        Self::name(&mut welcome, &own);
        self.outgoing = Some(welcome);
        self.step = Step::AwaitGrant(negotiation, own);
    }
}
