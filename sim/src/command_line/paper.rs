//! `paper`: the papers' results, measured beside expected.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::Args;
use superpipe_sim::{FigureName, FigureRuns, Row, paper_rows, paper_table};

use super::{EXIT_INTEGRITY, EXIT_LOCAL_IO};

#[derive(Args)]
pub(super) struct PaperArguments {
    /// Write the table into this file, too, between its marks
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Fail if this file has another table between its marks
    #[arg(long, value_name = "FILE", conflicts_with = "into")]
    check: Option<PathBuf>,
    /// Write each figure into this directory, too, as NAME.csv and NAME.svg
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

/// The lines of a file between which the table is.
const MARKS: [&str; 2] = ["<!-- table: superpipe-sim paper -->\n", "<!-- end of table -->\n"];

/// Makes the table, and prints it. Exits with 6 if a row is not what must come out.
pub(super) fn print_table(options: &PaperArguments) -> ExitCode {
    let rows = match paper_rows() {
        Ok(rows) => rows,
        Err(text) => {
            eprintln!("superpipe-sim: {text}");
            return ExitCode::from(EXIT_INTEGRITY);
        }
    };
    let text = paper_table(&rows);
    print!("{text}");
    let is_met = |row: &Row| row.is_met;
    if !rows.iter().all(is_met) {
        return ExitCode::from(EXIT_INTEGRITY);
    }
    let done = match (&options.into, &options.check) {
        (Some(path), _) => put_between_marks(path, &text).map(|()| true),
        (None, Some(path)) => is_between_marks(path, &text),
        (None, None) => Ok(true),
    };
    match done {
        Ok(true) => {}
        Ok(false) => {
            eprintln!("superpipe-sim: the file has another table; write this one into it with --into");
            return ExitCode::from(EXIT_INTEGRITY);
        }
        Err(error) => {
            eprintln!("superpipe-sim: {error}");
            return ExitCode::from(EXIT_LOCAL_IO);
        }
    }
    if let Some(directory) = &options.figures
        && let Err(text) = write_figures(directory)
    {
        eprintln!("superpipe-sim: {text}");
        return ExitCode::from(EXIT_LOCAL_IO);
    }
    ExitCode::SUCCESS
}

fn write_figures(directory: &Path) -> Result<(), String> {
    let io_error = |error: io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(io_error)?;
    let mut runs = FigureRuns::default();
    for name in FigureName::ALL {
        let figure = name.make(&mut runs)?;
        fs::write(directory.join(format!("{name}.csv")), figure.csv()).map_err(io_error)?;
        fs::write(directory.join(format!("{name}.svg")), figure.svg()?).map_err(io_error)?;
    }
    Ok(())
}

fn put_between_marks(path: &Path, table: &str) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    let [before, _, after] = parts(&text)?;
    let [begin, end] = MARKS;
    fs::write(path, format!("{before}{begin}{table}{end}{after}"))
}

fn is_between_marks(path: &Path, table: &str) -> io::Result<bool> {
    let text = fs::read_to_string(path)?;
    parts(&text).map(|[_, there, _]| there == table)
}

/// Returns what is before, between and behind the marks.
fn parts(text: &str) -> io::Result<[&str; 3]> {
    let [begin, end] = MARKS;
    let (before, rest) = text.split_once(begin).ok_or_else(|| missing(begin))?;
    let (between, after) = rest.split_once(end).ok_or_else(|| missing(end))?;
    Ok([before, between, after])
}

fn missing(mark: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the file lacks the line '{}'", mark.trim_end()))
}
