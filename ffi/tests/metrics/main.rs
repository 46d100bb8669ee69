//! Metrics: what another process reads of connections and pollers, and what becomes of it when either process ends or misbehaves.

mod ends;
mod hostile;
mod lines;
mod pollers;
mod support;
