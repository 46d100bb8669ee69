//! Sending messages.

use core::time::Duration;

use superpipe::{Drive, Error, Reason, SendOperation, TrySend};

use crate::shared::{Attempt, Inner, Shared, Side, WaitFor};

/// A message that is being sent. Dropping it cancels the message, if that has begun.
struct Sending<'a> {
    shared: &'a Shared,
    /// It does not go at once.
    operation: Option<SendOperation>,
}

/// Sends a message.
pub(crate) async fn send(shared: &Shared, spin: Duration, tag: u64, slices: &[&[u8]]) -> Result<(), Error> {
    let mut sending = Sending { shared, operation: None };
    let sent = shared
        .until(Side::Send, spin, |inner| match &mut sending.operation {
            Some(operation) => drive(inner, operation, slices),
            None => match inner.connection().try_send(tag, slices)? {
                TrySend::Sent => Ok(Attempt::Done(())),
                TrySend::Full => Ok(Attempt::Wait(WaitFor::Writable)),
                TrySend::TooLong => {
                    let bytes = slices.iter().map(|slice| slice.len()).sum();
                    let operation = sending.operation.insert(SendOperation::new(tag, bytes));
                    drive(inner, operation, slices)
                }
            },
        })
        .await;
    if sent.is_ok() {
        sending.operation = None;
    }
    sent
}

fn drive(inner: &mut Inner, operation: &mut SendOperation, slices: &[&[u8]]) -> Result<Attempt<()>, Error> {
    Ok(match inner.connection().drive_send(operation, slices)? {
        Drive::Done(()) => Attempt::Done(()),
        Drive::Moved => Attempt::Moved,
        Drive::Idle => Attempt::Wait(WaitFor::Writable),
    })
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if let Some(mut operation) = self.operation.take() {
            self.shared.with_connection(Side::Send, |inner| {
                inner.connection().cancel_send(&mut operation, Reason::GIVEN_UP);
            });
        }
    }
}
