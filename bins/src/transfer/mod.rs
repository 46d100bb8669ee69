//! rsend and rrecv: one transfer from the first event to the exit code.

mod checks;
pub mod keep;
pub mod rate_limit;
pub mod receive;
pub mod run;
pub mod send;
pub mod stop_cause;
