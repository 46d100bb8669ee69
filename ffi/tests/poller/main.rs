//! Pollers: one thread that serves many.

#[path = "../support/attempts.rs"]
mod attempts;
mod changes;
mod connecting;
mod dying;
mod in_place;
mod keys;
mod leaving;
mod limits;
mod serving;
mod sleeping;
mod streams;
mod support;
mod waiting;
