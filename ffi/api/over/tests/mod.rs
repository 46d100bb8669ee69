//! How waiting ends, and what it costs.

mod chilled;
mod doomed;
mod dying;
mod idling;
mod moving;
mod played;
