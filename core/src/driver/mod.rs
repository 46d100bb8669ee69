//! What waits, sleeps and talks around an endpoint, without I/O, clock or waiting: events go in, actions come out.

pub mod setup;
