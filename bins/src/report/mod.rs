//! Progress and results for people and programs.

pub mod bar;
pub mod copying;
pub mod events;
pub mod growth;
pub mod lines;
pub mod meter;
