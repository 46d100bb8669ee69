//! Part of the passive end: it settles, and sends WELCOME.

use super::arrival::{self, Means};
use super::config::FabricKind;
use super::error::PacketError;
use super::handshake::{Grants, Handshake, Settlement, Step};
use super::packet::{Kind, Packet};
use super::tuning::Terms;

impl<G: Grants> Handshake<G> {
    /// Settles both ends' wishes.
    pub(super) fn heard_hello(&mut self, hello: &Packet) -> Result<(), PacketError> {
        let said = hello.tuning()?;
        let config = &self.config;
        let settlement = match config.fabric {
            FabricKind::Direct { is_fenced, .. } => Settlement {
                settled: config.wishes.settle(&said, &Terms::SHM)?,
                why: None,
                is_fenced: is_fenced && hello.is_fenced(),
                pid: None,
            },
            FabricKind::Posted { keeps_order, has_fast_crc, notices } => {
                let ours = Means { keeps_order, has_fast_crc, wish: config.wishes.arrival };
                let (mode, why) = arrival::settle(ours, hello.means(said.arrival)?)?;
                let terms = arrival::terms(mode, notices);
                let settled = config.wishes.settle(&said, &terms)?;
                Settlement { settled, why: Some(why), is_fenced: false, pid: None }
            }
        };
        settlement.settled.allow_landing(config.landing_bytes_max, &config.wishes, config.role.name())?;
        self.provision(settlement, None);
        Ok(())
    }

    /// Says what was settled, and hands this end's memory over.
    pub(super) fn welcome(&mut self, settlement: Settlement, own: G::Own) {
        let mut welcome = Packet::new(Kind::Welcome);
        welcome.set_tuning(&settlement.settled.to_tuning());
        match self.config.fabric {
            FabricKind::Direct { is_fenced, pid } => {
                welcome.set_fenced(is_fenced);
                welcome.set_pid(pid);
            }
            FabricKind::Posted { keeps_order, has_fast_crc, .. } => {
                welcome.set_means(keeps_order, has_fast_crc);
            }
        }
        if let Some(why) = settlement.why {
            welcome.set_why(why);
        }
        Self::name(&mut welcome, &own);
        self.outgoing = Some(welcome);
        self.step = Step::AwaitGrant(settlement, own);
    }
}
