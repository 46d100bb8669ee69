//! The cost model: what each protocol takes for a message on a machine and a fabric, by the equations of the papers.
//!
//! | module | contents | source |
//! |---|---|---|
//! | `profile` | a machine and its fabric: latency, bandwidths, gap, overhead | Denis, sections 2 and 3 |
//! | `registration` | registering and deregistering: resident and cold pages, huge pages, several cores | Denis, section 2; Frey and Alonso, sections 3.3 and 4.4 |
//! | `critical` | where registering is cheaper than copying, and what fits into a round trip | Frey and Alonso, sections 3.4, 4.1 and 4.2 |
//! | `chunks` | sizes of growing chunks: equations 5 to 7 | Denis, section 4 |
//! | `pipeline` | time with chunks of one size: equations 1 to 3 | Denis, section 3 |
//! | `superpipeline` | time with growing chunks: equations 4, 8 and 9 | Denis, section 4 |
//! | `start` | what a message waits for before its first byte leaves | Denis, section 4 |
//! | `timeline` | time with any chunks, chunk by chunk, also where the equations' assumptions do not hold | |
//! | `protocols` | the other protocols | both |
//! | `planner` | the choice of a protocol for each message: predictions, corrected by what messages took | Denis, section 7 |
//! | `machines` | the papers' machines, and current NICs | both |
//!
//! *Denis* is "A High Performance Superpipeline Protocol for InfiniBand" (Euro-Par 2011), *Frey and Alonso* are "Minimizing the Hidden Cost of RDMA"
//! (ICDCS 2009). Everything here is pure arithmetic in `f64`: times are nanoseconds, bandwidths bytes per nanosecond, which is GB/s. Equations of the papers
//! are as printed, with the conditions under which they hold, but for: equation 4 and q, which have the bandwidth of copies beside the wire; the last chunk of equation 8, which
//! is C_(n-1); and messages and chunks of less than one of their units (a page, a chunk), which count as one.

mod chunks;
mod critical;
mod machines;
mod pipeline;
mod planner;
mod profile;
mod protocols;
mod registration;
mod start;
mod superpipeline;
mod timeline;

pub use chunks::Chunks;
pub use machines::Machine;
pub use planner::{Explanation, Memory, Plan, Planner, Reason, Terms, Way, WayEstimate};
pub use profile::{CopyStep, Profile};
pub use registration::{Deregistration, PageSize, Pages, Registration};
pub use start::Start;
pub use timeline::ChunkedCopy;
