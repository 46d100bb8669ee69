//! Handing a call on to the fabric that a connection runs on.

/// Runs an expression with what the variant holds, whichever it is: of the enums that have one variant a fabric.
macro_rules! hand_on {
    ($kind:ident, $value:expr, $over:ident => $call:expr) => {
        match $value {
            $kind::Shm($over) => $call,
            #[cfg(feature = "verbs")]
            $kind::Verbs($over) => $call,
        }
    };
}

pub(super) use hand_on;
