//! Messages, jobs, copies and writes of machines of the cost model, as a benchmark measures them in virtual time. The papers' tables and the check of planned messages
//! share it.
//!
//! | module | contents |
//! |---|---|
//! | `machine` | a machine of the cost model as one of the simulator |
//! | `connection` | a connection of core between two hosts, with the memory of its messages |
//! | `ping_pong` | messages there and back |
//! | `experiment` | messages of one length, on one machine |
//! | `exchange` | an all-to-all of several hosts |
//! | `system` | jobs, copies and writes alone, without core |
//! | `workers` | independent experiments on all cores |

pub(crate) mod connection;
pub(crate) mod exchange;
pub(crate) mod experiment;
pub(crate) mod machine;
pub(crate) mod ping_pong;
pub(crate) mod system;
pub(crate) mod workers;
