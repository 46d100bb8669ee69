//! Listening.

use core::future::poll_fn;

use superpipe::{Address, Error, Options, WaitableListener};

use crate::connection::Connection;
use crate::ready::Source;

/// Accepts connections at an address, over shared memory, RDMA or both: [`superpipe::Listener`]. Dropping it stops listening.
#[derive(Debug)]
pub struct Listener(Source<WaitableListener>);

impl Listener {
    /// Begins to listen, in a runtime. A name of another host may take seconds to be looked up, and the call waits for that.
    ///
    /// # Errors
    /// Those of [`superpipe::Listener::bind`]. `Usage`: there is no runtime here.
    ///
    /// # Panics
    /// The runtime's I/O is not enabled.
    pub fn bind(address: &Address, options: Options) -> Result<Self, Error> {
        Self::from_blocking(superpipe::Listener::bind(address, options)?).map_err(|(_, error)| error)
    }

    /// Takes a listener in that was made elsewhere.
    ///
    /// # Errors
    /// `Os`: too many files are open. `Usage`: there is no runtime here. The listener is in the error.
    ///
    /// # Panics
    /// The runtime's I/O is not enabled.
    #[expect(clippy::result_large_err, reason = "the listener is no part of what failed, and goes on")]
    pub fn from_blocking(listener: superpipe::Listener) -> Result<Self, (superpipe::Listener, Error)> {
        let waitable = listener.into_waitable()?;
        Source::new(waitable).map(Self).map_err(|(waitable, error)| (waitable.into_listener(), error))
    }

    /// Accepts the next connection. Many are made side by side, and a client that is silent delays no other by more than 50 ms. Nothing is lost if the future is dropped: it can be called again and again, as in `select!`.
    ///
    /// # Errors
    /// Those of [`superpipe::Listener::try_accept`], of one attempt: call it again.
    pub async fn accept(&mut self) -> Result<Connection, Error> {
        let accepted =
            poll_fn(|cx| self.0.poll_until(cx, WaitableListener::try_accept, WaitableListener::arm));
        Connection::from_blocking(accepted.await?).map_err(|(_, error)| error)
    }

    /// Returns the address given to [`bind`](Self::bind), with the port in place of 0.
    #[must_use]
    pub fn local_addr(&self) -> &Address {
        self.0.get_ref().local_addr()
    }
}
