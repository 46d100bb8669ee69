//! Files, pipes and descriptors that a command names.

pub mod descriptor;
pub mod distinct;
pub mod hidden_name;
pub mod input;
pub mod links;
pub mod name;
pub mod output;
pub mod preserve;
