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

/// The same of the enums that have a variant a fabric for connections, and another for halves of one.
macro_rules! hand_on_of_any {
    ($kind:ident, $value:expr, $over:ident => $call:expr) => {
        match $value {
            $kind::Shm($over) => $call,
            $kind::HalfShm($over) => $call,
            #[cfg(feature = "verbs")]
            $kind::Verbs($over) => $call,
            #[cfg(feature = "verbs")]
            $kind::HalfVerbs($over) => $call,
        }
    };
}

pub(super) use {hand_on, hand_on_of_any};
