//! One connection, listener or connect that a program waits for by a descriptor, beside others of its own: epoll, mio, io_uring, an asynchronous runtime.
//!
//! Each costs two descriptors: a set (epoll) that holds those of the fabric, and a timer; a connect costs a third one, by which its thread wakes it. A [`Poller`](crate::Poller) has one set for thousands.

mod connecting;
mod connection;
mod listener;
mod timed_set;

pub use connecting::Connecting;
pub use connection::WaitableConnection;
pub use listener::WaitableListener;
