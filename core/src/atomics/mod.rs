//! Atomic words that two ends, processes or threads share, with their memory orderings: each in one place, so that the loom models check the orderings that are shipped.
//!
//! ```text
//! word            flags and lines of the landing buffer
//! sleep_word      the word by which an end says that it sleeps
//! sequence_lock   words of one writer that others read at any time
//! ```

pub mod sequence_lock;
pub mod sleep_word;
pub mod word;
