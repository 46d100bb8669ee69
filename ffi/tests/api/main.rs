//! The std API over shared memory, two threads of one process: what comes out, byte for byte, and what goes wrong.

mod addresses;
mod attacks;
#[path = "../support/attempts.rs"]
mod attempts;
mod building;
mod building_windows;
mod closing;
mod cold;
mod copying;
mod crowds;
mod failures;
mod flipping;
mod handshake;
mod large_buffers;
mod loans;
mod messages;
mod odd_order;
mod pressure;
#[cfg(feature = "recorder")]
mod recording;
mod short_transfers;
mod slow_sender;
mod split;
mod split_loans;
mod support;
mod welcomes;
