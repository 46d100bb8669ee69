//! Why targets are missed: the one thing that is written by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use superpipe_bench::failure::Failure;

/// By the target's id.
pub(super) type Causes = BTreeMap<String, Cause>;

/// Why one is missed, and what was tried against that.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cause {
    pub(super) cause: String,
    pub(super) tried: String,
}

/// Those of a directory's file of that name.
pub(super) fn read(directory: &Path, name: &str) -> Result<Causes, Failure> {
    let path = directory.join(name);
    if !path.exists() {
        return Ok(Causes::new());
    }
    let text = fs::read_to_string(&path).map_err(|error| Failure::Os("read causes", error))?;
    serde_json::from_str(&text).map_err(|error| Failure::Usage(format!("{name}: {error}")))
}
