//! Checks that read the sources of the workspace's crates: the layers of their modules, and the exported API of the libraries.

mod api;
mod layers;
mod sources;
