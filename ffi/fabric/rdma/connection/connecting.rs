//! A connection until it is ready: the steps of rdma_cm, and the packets of the handshake.

use super::RdmaConnection;
use super::posting::Message;
use crate::fabric::rdma::ack_timeout::AckTimeout;
use crate::fabric::rdma::deadline::ConnectDeadline;
use crate::fabric::rdma::error::ConnectError;
use superpipe_core::driver::setup::Packet;
use superpipe_verbs::{CmEvent, ConnectParams, Error, Mtu, QpState};

/// Retries after an ACK timeout, the most that the field of 3 bits has: after eight ACK timeouts the peer is lost.
const RETRIES: u8 = 7;
/// Retries of a SEND that met no receive: 4 ms in all. Receives are posted ahead, so only the first packets of a connection need them.
const RNR_RETRIES: u8 = 6;
/// Code of the RNR timer: 0.64 ms.
const RNR_TIMER: u8 = 12;

impl RdmaConnection {
    /// Begins to connect, from the active side.
    pub(in crate::fabric::rdma) fn connect(&mut self, private_data: &[u8]) -> Result<(), ConnectError> {
        let qp_number = self.qp.number();
        self.cm.get_mut().connect(params(qp_number, private_data))
    }

    /// Accepts, from the passive side.
    pub(in crate::fabric::rdma) fn accept(&mut self, private_data: &[u8]) -> Result<(), ConnectError> {
        let qp_number = self.qp.number();
        self.cm.get_mut().accept(params(qp_number, private_data)).map_err(gone)
    }

    /// Confirms the peer's acceptance, from the active side.
    pub(in crate::fabric::rdma) fn establish(&mut self) -> Result<(), ConnectError> {
        self.cm.get_mut().establish()
    }

    /// Waits for the next event of rdma_cm.
    pub(in crate::fabric::rdma) fn event(
        &self,
        deadline: &ConnectDeadline<'_>,
    ) -> Result<CmEvent, ConnectError> {
        self.cm.borrow_mut().event(deadline.deadline_ns, deadline.interrupted)
    }

    /// Returns the MTU of our port; none on iWARP.
    pub(in crate::fabric::rdma) fn mtu(&self) -> Result<Option<Mtu>, ConnectError> {
        let port = self.context.port(self.cm.borrow().port_number())?;
        Ok((!self.is_iwarp).then_some(port.active_mtu))
    }

    /// Moves the QP to INIT, RTR and RTS once rdma_cm knows the peer. On iWARP the driver does it.
    pub(in crate::fabric::rdma) fn make_ready(
        &mut self,
        peer_mtu: Option<Mtu>,
        ack_timeout: AckTimeout,
    ) -> Result<(), ConnectError> {
        let mine = self.mtu()?;
        let cm = self.cm.get_mut();
        let attr = |state| cm.qp_attr(state).map_err(gone);
        self.qp.modify(&attr(QpState::Init)?)?;
        let mut to_receive = attr(QpState::ReadyToReceive)?.with_rnr_timer(RNR_TIMER);
        if let Some(mtu) = [to_receive.path_mtu(), mine, peer_mtu].into_iter().flatten().min() {
            to_receive = to_receive.with_path_mtu(mtu);
        }
        self.qp.modify(&to_receive)?;
        let to_send = attr(QpState::ReadyToSend)?.with_ack_timeout(ack_timeout.exponent());
        self.qp.modify(&to_send.with_retries(RETRIES).with_rnr_retries(RNR_RETRIES))?;
        Ok(())
    }

    /// SENDs a packet at once. The one before was answered, or is the same.
    pub(in crate::fabric::rdma) fn send_packet(&mut self, packet: &Packet) -> Result<(), ConnectError> {
        self.receive_pool.put_packet(packet);
        self.resend_packet()
    }

    /// SENDs the same packet again.
    pub(in crate::fabric::rdma) fn resend_packet(&mut self) -> Result<(), ConnectError> {
        if self.send_at_once(Message::Packet, false)? { Ok(()) } else { Err(ConnectError::TimedOut) }
    }

    /// Takes the packet that arrived, if one did.
    pub(in crate::fabric::rdma) fn take_packet(&mut self) -> Option<Packet> {
        self.poll();
        self.packet.take()
    }
}

fn params(qp_number: u32, private_data: &[u8]) -> ConnectParams<'_> {
    ConnectParams { qp_number, private_data, retries: RETRIES, rnr_retries: RNR_RETRIES }
}

/// Maps the errors of a connection whose peer gave up meanwhile: rdma_cm no longer knows it, and the TCP of iWARP was reset.
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
