//! superpipe
