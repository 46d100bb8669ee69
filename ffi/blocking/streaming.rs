//! Streams by calls that never wait.

use superpipe_core::driver::{Drive, IncomingStream, OutgoingStream, StreamRead};
use superpipe_core::{Reason, RefusedSend};

use super::Blocking;
use super::access::DriverAccess;
use super::host_driver::HostDriver;
use crate::error::{Error, ErrorKind};
use crate::fabric::HostFabric;

impl<A: DriverAccess> Blocking<A> {
    /// Opens a stream. `None`: another transfer is open.
    pub(crate) fn try_open_stream(&mut self, tag: u64) -> Result<Option<OutgoingStream>, Error> {
        let Some(mut held) = self.access().try_hold() else { return Ok(None) };
        let host = &mut *held;
        match host.driver.open_stream(tag) {
            Ok(stream) => Ok(Some(stream)),
            Err(RefusedSend::Busy) => {
                host.count_idle_drive()?;
                Ok(None)
            }
            Err(refused) => Err(host.refused(refused)),
        }
    }

    /// Sends the next bytes of a stream. Returns their number.
    pub(crate) fn write_stream(
        &mut self,
        stream: &mut OutgoingStream,
        slices: &[&[u8]],
    ) -> Result<usize, Error> {
        let Some(mut held) = self.access().try_hold() else { return Ok(0) };
        let host = &mut *held;
        let written = host.driver.write_stream(&mut host.fabric, stream, slices);
        let written = written.map_err(|refused| host.refused(refused))?;
        if written == 0 {
            host.count_idle_drive()?;
        }
        Ok(written)
    }

    /// Ends a stream. Returns false if there is no credit now.
    pub(crate) fn finish_stream(&mut self, stream: &mut OutgoingStream) -> Result<bool, Error> {
        let Some(mut held) = self.access().try_hold() else { return Ok(false) };
        let host = &mut *held;
        let finished = host.driver.finish_stream(&mut host.fabric, stream);
        let is_finished = finished.map_err(|refused| host.refused(refused))?;
        if !is_finished {
            host.count_idle_drive()?;
        }
        Ok(is_finished)
    }

    /// Gives a stream up.
    pub(crate) fn abandon_stream(&mut self, stream: &OutgoingStream, reason: Reason) {
        let host = &mut *self.access().hold();
        host.driver.abandon_stream(&mut host.fabric, stream, reason);
    }

    /// Takes the next transfer as a stream, if its begin has arrived.
    pub(crate) fn try_accept_stream(&mut self) -> Result<Option<IncomingStream>, Error> {
        let Some(mut held) = self.access().try_hold() else { return Ok(None) };
        let host = &mut *held;
        match host.driver.take_stream(&mut host.fabric) {
            Drive::Done(Some(stream)) => Ok(Some(stream)),
            Drive::Done(None) => Err(super::receiving::claimed()),
            Drive::Moved | Drive::Idle => {
                host.count_empty_try()?;
                Ok(None)
            }
        }
    }

    /// Reads what has arrived of a stream.
    pub(crate) fn read_stream(
        &mut self,
        stream: &mut IncomingStream,
        slices: &mut [&mut [u8]],
    ) -> Result<StreamRead, Error> {
        let Some(mut held) = self.access().try_hold() else { return Ok(StreamRead::Nothing) };
        let host = &mut *held;
        let read = host.driver.read_stream(&mut host.fabric, stream, slices);
        let read = read.ok_or_else(|| not_open(host))?;
        if read == StreamRead::Nothing {
            host.count_idle_drive()?;
        }
        Ok(read)
    }

    /// Rejects the rest of a stream.
    pub(crate) fn reject_stream(&mut self, stream: &mut IncomingStream, reason: Reason) {
        let host = &mut *self.access().hold();
        host.driver.reject_stream(&mut host.fabric, stream, reason);
    }
}

/// Returns the error of a stream that is not at the head.
pub(super) fn not_open<F: HostFabric>(host: &mut HostDriver<F>) -> Error {
    // The end of the connection, which a round of progress may find, is a more precise error.
    host.progress();
    match host.check_ended() {
        Err(error) => error,
        Ok(()) => Error::new(
            ErrorKind::Usage,
            "the stream was rejected, taken by a try, or is of another connection",
        ),
    }
}
