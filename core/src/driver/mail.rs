//! When calls after which no round of progress follows look into the mailbox.
//!
//! [`Driver::begin_send`], [`Driver::try_send`], [`Driver::begin_recv`] and [`Driver::try_recv`] do not look, since even one look in eight messages
//! took a tenth off a stream of short ones (docs/architecture/waiting.md).

use super::{Drive, Driver};
use crate::fabric::Fabric;

impl<F: Fabric> Driver<F> {
    /// Reads the mail after a part of an operation. One that is idle is followed by a round.
    pub(super) fn read_mail_after<T, E>(&mut self, fabric: &mut F, driven: &Drive<Result<T, E>>) {
        if matches!(driven, Drive::Moved | Drive::Done(Ok(_))) {
            self.endpoint.read_mail(fabric);
        }
    }
}
