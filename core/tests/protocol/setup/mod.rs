//! The handshake without I/O, on an injected clock, with a peer that is this test and speaks by hand: either role over
//! either fabric. wire.md 6, 10.2.

mod every;
mod failing;
mod limits;
mod properties;
mod rig;
mod timing;
mod trace;
