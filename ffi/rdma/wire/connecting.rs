//! A wire until it is ready: the steps of rdma_cm, and the packets of the handshake.

use super::Wire;
use super::posting::Letter;
use crate::packet::Packet;
use crate::rdma::error::ConnectError;
use crate::rdma::patience::Patience;
use crate::verbs::{CmEvent, ConnectParams, Error, Mtu, QpState};

/// 4.096 µs times two to the power of this is how long an acknowledgement is waited for: 67 ms. rdma_cm's is seconds.
pub(in crate::rdma) const ACK_TIMEOUT: u8 = 14;
/// Eight times that, and the peer is lost.
const RETRIES: u8 = 7;
/// Receives are posted ahead, so that these are never needed but while a connection begins.
const RNR_RETRIES: u8 = 6;
/// 0.64 ms.
const RNR_TIMER: u8 = 12;

impl Wire {
    /// Begins to connect, from the active side.
    pub(in crate::rdma) fn connect(&mut self, greeting: &[u8]) -> Result<(), ConnectError> {
        let qp_number = self.qp.number();
        self.cm.get_mut().connect(params(qp_number, greeting))
    }

    /// Accepts, from the passive side.
    pub(in crate::rdma) fn accept(&mut self, greeting: &[u8]) -> Result<(), ConnectError> {
        let qp_number = self.qp.number();
        self.cm.get_mut().accept(params(qp_number, greeting)).map_err(gone)
    }

    /// Confirms the peer's acceptance, from the active side.
    pub(in crate::rdma) fn establish(&mut self) -> Result<(), ConnectError> {
        self.cm.get_mut().establish()
    }

    /// What rdma_cm tells next.
    pub(in crate::rdma) fn event(&self, patience: &Patience<'_>) -> Result<CmEvent, ConnectError> {
        self.cm.borrow_mut().event(patience.deadline_ns, patience.interrupted)
    }

    /// The largest packet of our port; none on iWARP.
    pub(in crate::rdma) fn mtu(&self) -> Result<Option<Mtu>, ConnectError> {
        let port = self.context.port(self.cm.borrow().port_number())?;
        Ok((!self.is_iwarp).then_some(port.active_mtu))
    }

    /// Once rdma_cm knows the peer: what it may do, where it is, and from then on we may send. iWARP does it by itself.
    pub(in crate::rdma) fn make_ready(&mut self, theirs: Option<Mtu>) -> Result<(), ConnectError> {
        let mine = self.mtu()?;
        let cm = self.cm.get_mut();
        let attr = |state| cm.qp_attr(state).map_err(gone);
        self.qp.modify(&attr(QpState::Init)?)?;
        let mut to_receive = attr(QpState::ReadyToReceive)?.with_rnr_timer(RNR_TIMER);
        if let Some(mtu) = [to_receive.path_mtu(), mine, theirs].into_iter().flatten().min() {
            to_receive = to_receive.with_path_mtu(mtu);
        }
        self.qp.modify(&to_receive)?;
        let to_send = attr(QpState::ReadyToSend)?.with_ack_timeout(ACK_TIMEOUT);
        self.qp.modify(&to_send.with_retries(RETRIES).with_rnr_retries(RNR_RETRIES))?;
        Ok(())
    }

    /// SENDs a packet, at once. The one before was answered, or is the same.
    pub(in crate::rdma) fn send_packet(&mut self, packet: &Packet) -> Result<(), ConnectError> {
        self.mailroom.put_packet(packet);
        self.again()
    }

    /// SENDs the same packet again.
    pub(in crate::rdma) fn again(&mut self) -> Result<(), ConnectError> {
        if self.send_alone(Letter::Packet, false)? { Ok(()) } else { Err(ConnectError::TimedOut) }
    }

    /// The packet that came, if one did.
    pub(in crate::rdma) fn take_packet(&mut self) -> Option<Packet> {
        self.poll();
        self.packet.take()
    }
}

fn params(qp_number: u32, private_data: &[u8]) -> ConnectParams<'_> {
    ConnectParams { qp_number, private_data, retries: RETRIES, rnr_retries: RNR_RETRIES }
}

/// rdma_cm knows nothing of a connection whose other end has given up meanwhile; iWARP's TCP knows that it was reset.
pub(super) fn gone(error: ConnectError) -> ConnectError {
    const GIVEN_UP: [i32; 5] =
        [libc::EINVAL, libc::ECONNRESET, libc::ECONNABORTED, libc::ENOTCONN, libc::EPIPE];
    match error {
        ConnectError::Verbs(Error::Verb(error)) if GIVEN_UP.contains(&error.errno()) => {
            ConnectError::Lost("while connecting")
        }
        error => error,
    }
}
