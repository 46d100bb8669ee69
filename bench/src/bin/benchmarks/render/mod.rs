//! The report, made of raw figures alone: the same figures give the same bytes.

mod causes;
mod data;
mod judge;
mod page;
mod plots;
mod rdma;
mod tables;
mod targets;
#[cfg(test)]
mod tests;
mod text;
mod verdicts;
mod waiting;

use std::fs;
use std::path::{Path, PathBuf};

use superpipe_bench::failure::Failure;

use crate::plan::Part;
use data::Measured;

/// Writes `dir`/benchmarks.md and the plots, or compares what is there with what would be written.
pub(crate) fn render(dir: &Path, check: bool, unexplained: bool) -> Result<(), Failure> {
    let files = files(dir, unexplained)?;
    for (path, text) in &files {
        if !check {
            fs::write(path, text).map_err(|error| Failure::Os("write the report", error))?;
        } else if fs::read_to_string(path).ok().as_ref() != Some(text) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            return Err(Failure::Usage(format!(
                "{name} is not what its raw figures make; type: cargo run --release -p superpipe-bench --bin benchmarks -- render"
            )));
        }
    }
    Ok(())
}

/// Every file of the report, with its text.
fn files(dir: &Path, unexplained: bool) -> Result<Vec<(PathBuf, String)>, Failure> {
    let raw = dir.join("benchmarks");
    let mut measured = Vec::new();
    for part in Part::ALL {
        measured.extend(Measured::read(&raw, part)?);
    }
    if measured.is_empty() {
        return Err(Failure::Usage(format!("there are no raw figures in {}", raw.display())));
    }
    let plots = plots::all(&measured).map_err(|error| Failure::Usage(format!("cannot draw: {error}")))?;
    let causes = causes::read(&raw, "causes.json")?;
    let page = page::page(&measured, &causes, &plots, unexplained)? + &rdma::section(&raw)?;
    let mut files = vec![(dir.join("benchmarks.md"), page)];
    files.extend(plots.into_iter().map(|(name, svg)| (raw.join(name), svg)));
    Ok(files)
}
