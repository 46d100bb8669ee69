//! Messages that are read in place.

use superpipe_core::driver::Drive;
use superpipe_core::{Loan, RefusedLoan};

use super::Blocking;
use super::access::DriverAccess;
use super::receiving::claimed;
use super::waiting::Waiting;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fabric::HostFabric;
use crate::loan;
use crate::outcome::TryRecvLoan;

impl<A: DriverAccess> Blocking<A> {
    /// Receives the next message in place, if all of it is in the landing buffer.
    pub(crate) fn try_recv_loan(&mut self) -> Result<TryRecvLoan, Error> {
        let Some(mut held) = self.access().try_hold() else { return Ok(TryRecvLoan::Nothing) };
        let host = &mut *held;
        match host.driver.try_recv_loan(&mut host.fabric) {
            Ok(Some(loan)) => Ok(TryRecvLoan::Loan(loan::Loan { loan, owner: host.id })),
            Ok(None) => {
                host.count_empty_try()?;
                Ok(TryRecvLoan::Nothing)
            }
            Err(RefusedLoan::Incomplete(incoming)) => {
                host.count_try_that_left_part()?;
                Ok(TryRecvLoan::Incomplete(incoming))
            }
            Err(RefusedLoan::Elsewhere(incoming)) => {
                host.count_try_that_left_transfer();
                Ok(TryRecvLoan::Elsewhere(incoming))
            }
            Err(RefusedLoan::Full(incoming)) => {
                host.count_try_that_left_transfer();
                Ok(TryRecvLoan::Full(incoming))
            }
        }
    }

    /// Waits for the next message, and receives it in place.
    pub(crate) fn recv_loan(&mut self, deadline: Deadline) -> Result<loan::Loan, Error> {
        let received = self.access().wait(deadline, |driver, fabric| match driver.try_recv_loan(fabric) {
            Ok(Some(loan)) => Drive::Done(Ok(loan)),
            Ok(None) | Err(RefusedLoan::Incomplete(_)) => Drive::Idle,
            Err(refused) => Drive::Done(Err(refused)),
        })?;
        let host = self.access().hold();
        match received {
            Ok(loan) => Ok(loan::Loan { loan, owner: host.id }),
            Err(RefusedLoan::Full(_)) => Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "{} loans are held, the most that there can be: give one back",
                    superpipe_core::LOANS_MAX
                ),
            )),
            Err(RefusedLoan::Elsewhere(incoming) | RefusedLoan::Incomplete(incoming)) => {
                Err(if host.driver.is_claimed(&incoming) { claimed() } else { elsewhere() })
            }
        }
    }

    /// Gives a loan back.
    pub(crate) fn give_back(&mut self, loan: &loan::Loan) -> Result<(), Error> {
        let held = self.held(loan)?;
        let host = &mut *self.access().hold();
        host.driver.endpoint_mut().give_back(&mut host.fabric, held);
        Ok(())
    }

    /// Copies bytes of a loan out.
    pub(crate) fn copy_from_loan(
        &mut self,
        loan: &loan::Loan,
        offset: usize,
        to: &mut [u8],
    ) -> Result<(), Error> {
        let held = self.held(loan)?;
        let host = &mut *self.access().hold();
        let has_copied = u32::try_from(offset).is_ok_and(|offset| {
            host.driver.endpoint_mut().copy_from_loan(&mut host.fabric, held, offset, to)
        });
        if has_copied {
            return Ok(());
        }
        let (bytes, all) = (to.len(), held.bytes);
        Err(Error::new(
            ErrorKind::Usage,
            format!("the message has {all} bytes, not {bytes} from byte {offset} on: copy less"),
        ))
    }

    /// Returns the loan in core, if it is one of this connection that is held.
    pub(crate) fn held(&self, loan: &loan::Loan) -> Result<Loan, Error> {
        if self.inspect(|host| loan.owner == host.id && host.driver.endpoint().holds_loan(loan.loan)) {
            Ok(loan.loan)
        } else {
            Err(Error::new(
                ErrorKind::Usage,
                "the loan is of another connection: use it with the one that it was received from",
            ))
        }
    }

    /// Returns address and bytes of the span that has the payload of a loan from its byte `offset` on.
    pub(crate) fn loan_span(&self, loan: Loan, offset: u32) -> Option<(*mut u8, u32)> {
        self.inspect(|host| {
            let endpoint = host.driver.endpoint();
            let (memory, at, bytes) = endpoint.loan_span(loan, offset)?;
            Some((host.fabric.source_of(endpoint.link(), memory, at, bytes).cast_mut(), bytes))
        })
    }
}

/// Returns the error of a call for a transfer that cannot be read in place.
fn elsewhere() -> Error {
    Error::new(
        ErrorKind::Usage,
        "the next transfer cannot be read in place, since it does not lie in the landing buffer as a whole: receive it with \
         recv_into or, if it is a stream, with accept_stream",
    )
}
