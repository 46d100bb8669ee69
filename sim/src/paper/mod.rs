//! The papers' results, from runs of the core on the papers' machines, beside the model and what the papers print. docs/papers.md.

mod figure;
mod figures;
mod row;
mod rows;

pub use figure::Figure;
pub use figures::{FigureName, Runs};
pub use row::{Row, table};

/// Makes all rows, on all cores.
///
/// # Errors
/// The first run that fails.
pub fn paper_rows() -> Result<Vec<Row>, String> {
    crate::measured::workers::map(rows::ROWS, |make| make())
}

/// Returns the ways that the planner chooses on current NICs, as a table of Markdown.
#[must_use]
pub fn choice_table() -> String {
    rows::choice_table()
}
