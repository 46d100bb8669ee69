//! Tests of waiting: its end and its cost.

#[path = "../../tests/support/attempts.rs"]
mod attempts;
mod chilled;
mod doomed;
mod dying;
mod halves;
mod idling;
mod lingering_descriptors;
mod moving;
mod played;
mod trying;
mod turns;
