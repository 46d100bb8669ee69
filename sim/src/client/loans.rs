//! Messages that a client receives in place and gives back in any order, and messages that it builds in place.

use superpipe_core::{
    End, LOANS_MAX, Length, Loan, RefusedLoan, RefusedReserve, RefusedSend, ReservedMessage, Sending,
};
use superpipe_testkit::PairFabric;

use super::{Call, ClientPair};

/// A loan that is held, and the content of its message when it was received.
#[derive(Debug)]
pub(super) struct HeldLoan {
    loan: Loan,
    content: Vec<u8>,
}

/// A message that is built in place, and its index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Built {
    message: ReservedMessage,
    index: usize,
}

impl<F: PairFabric> ClientPair<F> {
    /// Takes the next message as a loan, and checks it.
    pub(super) fn take_loan(&mut self, side: usize) {
        let (state, is_shut) = (self.state_of(side), self.is_shut(side));
        let client = &mut self.clients[side];
        let held = client.loans.len();
        let taken = client.driver.try_recv_loan(&mut self.fabric);
        self.count(Call::TakeLoan, state, matches!(taken, Ok(Some(_))));
        match taken {
            Ok(None) => {}
            Ok(Some(loan)) => {
                assert!(!is_shut || self.is_unchecked(), "closed, and received");
                assert!(held < LOANS_MAX, "more loans than there can be");
                let content = self.content_of(side, loan);
                let flow = &mut self.flows[1 - side];
                flow.arrived_tag(loan.tag);
                flow.took(&content);
                flow.ended(End::Fin);
                let client = &mut self.clients[side];
                client.shown = None;
                client.loans.push(HeldLoan { loan, content });
            }
            Err(RefusedLoan::Full(incoming)) => {
                assert_eq!(held, LOANS_MAX, "full");
                self.flows[1 - side].arrived(incoming);
            }
            Err(RefusedLoan::Incomplete(incoming)) => {
                let is_message = matches!(incoming.length, Length::Exact(_));
                assert!(is_message || self.is_unchecked(), "a stream as a loan");
                self.flows[1 - side].arrived(incoming);
            }
            Err(RefusedLoan::Elsewhere(incoming)) => self.flows[1 - side].arrived(incoming),
        }
    }

    /// Returns the bytes of a loan, read in place or copied.
    fn content_of(&mut self, side: usize, loan: Loan) -> Vec<u8> {
        let Self { clients, fabric, .. } = self;
        let client = &mut clients[side];
        let endpoint = client.driver.endpoint_mut();
        if client.rng.one_in(2) {
            let mut content = vec![0; loan.bytes as usize];
            assert!(endpoint.copy_from_loan(fabric, loan, 0, &mut content), "a loan that is held");
            return content;
        }
        let mut content = Vec::new();
        while let Some((memory, at, bytes)) =
            endpoint.loan_span(loan, u32::try_from(content.len()).unwrap_or(u32::MAX))
        {
            content.extend_from_slice(fabric.visible(memory, at, bytes));
        }
        assert_eq!(content.len(), loan.bytes as usize, "spans of another length");
        content
    }

    /// Checks that a loan is what it was.
    fn check_loan(&mut self, side: usize, at: usize) {
        let loan = self.clients[side].loans[at].loan;
        let content = self.content_of(side, loan);
        let is_same = content == self.clients[side].loans[at].content;
        assert!(is_same || self.is_unchecked(), "a loan of {} bytes has changed", loan.bytes);
    }

    /// Gives a loan back that is drawn, and sometimes one again whose place may be taken.
    pub(super) fn give_back(&mut self, side: usize) {
        if self.clients[side].rng.one_in(4) {
            self.give_back_stale(side);
        }
        let client = &mut self.clients[side];
        if client.loans.is_empty() {
            return self.give_back_stale(side);
        }
        let at = client.rng.below(client.loans.len());
        self.check_loan(side, at);
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let loan = client.loans.swap_remove(at).loan;
        client.stale_loan = Some(loan);
        let is_back = client.driver.endpoint_mut().give_back(&mut self.fabric, loan);
        assert!(is_back, "a loan that is held");
        self.count(Call::GiveBack, state, true);
    }

    /// Gives a loan back again. That must change nothing.
    fn give_back_stale(&mut self, side: usize) {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let Some(loan) = client.stale_loan else { return };
        let is_back = client.driver.endpoint_mut().give_back(&mut self.fabric, loan);
        assert!(!is_back, "a loan that was given back before");
        self.count(Call::GiveBack, state, false);
    }

    /// Reserves space for a message, and writes it.
    pub(super) fn reserve_message(&mut self, side: usize) {
        let (state, index) = (self.state_of(side), self.draw(side, false));
        let Self { clients, flows, fabric, .. } = self;
        let client = &mut clients[side];
        let message = &flows[side].messages[index];
        let bytes = u32::try_from(message.payload.len()).unwrap_or(u32::MAX);
        let endpoint = client.driver.endpoint_mut();
        let reserved = endpoint.reserve_message(fabric, message.tag, bytes);
        if let Ok(reserved) = reserved {
            if client.rng.one_in(2) {
                assert!(endpoint.copy_into_message(fabric, reserved, 0, &message.payload), "it is open");
            } else {
                let mut left = &message.payload[..];
                while let Some((memory, at, bytes)) =
                    endpoint.message_span(reserved, bytes - u32::try_from(left.len()).unwrap_or(0))
                {
                    let (here, after) = left.split_at(bytes as usize);
                    fabric.fill(memory, at, here);
                    left = after;
                }
                assert!(left.is_empty(), "spans of another length");
            }
            client.built = Some(Built { message: reserved, index });
        }
        self.count(Call::ReserveMessage, state, reserved.is_ok());
        let is_right = match reserved {
            Ok(_) => state.sending == Sending::Nothing && self.closed(side).is_none(),
            Err(RefusedReserve::Pending | RefusedReserve::TooLong { .. }) => self.closed(side).is_none(),
            Err(RefusedReserve::Busy) => state.sending != Sending::Nothing,
            Err(RefusedReserve::Closed) => self.closed(side).is_some(),
        };
        assert!(is_right || self.is_unchecked(), "{reserved:?} in {state:?}");
    }

    /// Commits or abandons the message that is built, or one that was.
    pub(super) fn commit_message(&mut self, side: usize) {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let Some(Built { message, index }) = client.built else { return };
        let is_open = client.driver.endpoint().is_reserved(message);
        if is_open && client.rng.one_in(4) {
            assert!(client.driver.endpoint_mut().abandon_message(message), "it is open");
            return;
        }
        let committed = client.driver.endpoint_mut().commit_message(&mut self.fabric, message);
        self.count(Call::CommitMessage, state, committed.is_ok());
        let is_right = match committed {
            Ok(()) => {
                self.flows[side].sent_at_once(index);
                is_open
            }
            Err(RefusedSend::NotOpen) => !is_open,
            Err(RefusedSend::Closed) => self.closed(side).is_some(),
            Err(_) => false,
        };
        assert!(is_right || self.is_unchecked(), "{committed:?} in {state:?}");
    }

    /// Ends, in some turns, what would keep this end and its peer from their other calls.
    pub(super) fn end_in_place_now_and_then(&mut self, side: usize) {
        let client = &mut self.clients[side];
        if client.loans.len() > 3 && client.rng.one_in(3) {
            self.give_back(side);
        }
        if self.is_building(side) && self.clients[side].rng.one_in(3) {
            self.commit_message(side);
        }
    }

    /// Returns true while a message is built.
    fn is_building(&self, side: usize) -> bool {
        let client = &self.clients[side];
        client.built.is_some_and(|built| client.driver.endpoint().is_reserved(built.message))
    }

    /// Gives all loans back, and commits or abandons what is built.
    pub(super) fn end_in_place(&mut self, side: usize) {
        while !self.clients[side].loans.is_empty() {
            self.give_back(side);
        }
        if self.is_building(side) {
            self.commit_message(side);
        }
    }
}
