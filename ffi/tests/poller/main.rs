//! Pollers: one thread that serves many.

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
