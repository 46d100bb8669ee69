//! superpipe for programs that use tokio: connections whose calls are futures, on its current-thread and its multi-thread runtime.
//!
//! A future tries at once. If there is nothing to do, it asks the peer for a wake-up, and waits for a descriptor of its own in the runtime's event loop. With [`Connection::set_spin`] it tries for a bounded time before:
//! an answer that comes within that time costs neither end a system call.
//!
//! ```
//! use core::time::Duration;
//! use superpipe_tokio::{Connection, Listener, Options};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut listener = Listener::bind(&"localhost:0".parse()?, Options::default())?;
//! let address = listener.local_addr().clone();
//! let server = tokio::spawn(async move {
//!     let mut connection = listener.accept().await?;
//!     let mut message = [0; 64];
//!     let received = connection.recv(&mut [&mut message]).await.unwrap();
//!     connection.send(received.tag, &[&message[..received.bytes]]).await?;
//!     connection.flush().await
//! });
//! let mut connection = Connection::connect(&address, Options::default(), Duration::from_secs(30)).await?;
//! connection.send(7, &[b"hello"]).await?;
//! let mut answer = [0; 64];
//! let received = connection.recv(&mut [&mut answer]).await?;
//! assert_eq!((received.tag, &answer[..received.bytes]), (7, &b"hello"[..]));
//! server.await??;
//! # Ok(())
//! # }
//! ```
//!
//! # A future that is dropped
//!
//! `select!`, `timeout` and an aborted task drop futures. What that means:
//!
//! | call | dropped before it was ready |
//! |---|---|
//! | [`Connection::connect`], [`Listener::accept`] | the connect is given up; nothing that was accepted is lost |
//! | [`recv`](Connection::recv) | nothing is lost: it takes a message in one poll, once all of it is here |
//! | [`recv_message`](Connection::recv_message) | nothing is lost: the connection keeps what was received, and the next call goes on |
//! | [`send`](Connection::send) | a message that has begun is cancelled, and the receiver gets [`Reason::GIVEN_UP`]; one that has not is not sent |
//! | [`flush`](Connection::flush), [`peek`](Connection::peek) | nothing changes |
//! | [`SendStream`], [`RecvStream`] | a call on one: nothing is lost. The stream itself, before its end: it is cancelled, or the rest is rejected |
//!
//! Every wait ends with `Timeout` if the peer shows no life for [`Options::idle_timeout`], up to a quarter of that later; for other deadlines there is `tokio::time::timeout`. While no future of a connection is polled, nobody sends its keepalives:
//! an end that works for longer than its peer's idle timeout lets a [`peek`](Connection::peek) wait beside, as in `select!`. Once a message is there, a `peek` is done at once and keeps nothing alive: such an end receives first, or its peer has a longer idle timeout.

mod connection;
mod listener;
mod message;
mod ready;
mod recv;
mod send;
mod shared;
mod split;
mod stream;

pub use connection::Connection;
pub use listener::Listener;
pub use message::{Message, RecvError};
pub use split::{RecvHalf, SendHalf};
pub use stream::{RecvStream, SendStream};
pub use superpipe::{
    Address, Deadline, Description, Error, ErrorKind, Incoming, Length, Options, Peer, Reason, Received,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
