//! The papers' results, from runs of the core on the papers' machines, beside the model and what the papers print. docs/papers.md.

mod connection;
mod exchange;
mod experiment;
mod figure;
mod figures;
mod machine;
mod ping_pong;
mod row;
mod rows;
mod system;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

pub use figure::Figure;
pub use figures::{FigureName, Runs};
pub use row::{Row, table};

/// Makes all rows, on all cores.
///
/// # Errors
/// The first run that fails.
///
/// # Panics
/// If a thread has panicked.
pub fn paper_rows() -> Result<Vec<Row>, String> {
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let make_next = || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let made = rows::ROWS.get(number)?();
        rows.lock().unwrap_or_else(|error| panic!("{error}")).push((number, made));
        Some(())
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| while make_next().is_some() {});
        }
    });
    let mut rows = rows.into_inner().unwrap_or_else(|error| panic!("{error}"));
    rows.sort_by_key(|(number, _)| *number);
    rows.into_iter().map(|(_, row)| row).collect()
}
