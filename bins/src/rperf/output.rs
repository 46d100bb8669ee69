//! Where results go: a table, and what was asked for beside it.
//!
//! Files are opened before anything is measured, so that nobody measures for what cannot be written, and appear with what
//! is in them: a drawing whole, results from the first on. Where a measurement fails before that, what had the name stays.

use super::options::Ask;
use super::plot;
use super::row::Row;
use super::table::{Header, Line};
use crate::exit::{Code, Failure};
use crate::output::{self, READER_PATIENCE};
use crate::signals::Signals;
use crate::trace::picture::Picture;
use core::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use superpipe::os::stdio::was_closed_at_start;

/// All of it. Each result is written as soon as it is there.
pub struct Output {
    table: Option<Table>,
    json: Option<Lines>,
    csv: Option<Lines>,
    plot: Option<output::Output>,
    picture: Option<output::Output>,
    rows: Vec<Row>,
}

/// What people read.
struct Table {
    to: Box<dyn Write>,
    name: &'static str,
}

/// A file that is there from its first line on, or standard output.
struct Lines {
    to: output::Output,
    is_there: bool,
}

impl Output {
    /// Opens what was asked for.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn open(ask: &Ask, signals: &Signals) -> Result<Self, Failure> {
        let open = |path: &Path| output::Output::open(Some(path), signals, Instant::now() + READER_PATIENCE);
        let drawing = |path: &Option<PathBuf>| path.as_deref().map(open).transpose();
        let lines = |path| Ok(drawing(path)?.map(|to| Lines { to, is_there: false }));
        let table = || if ask.takes_stdout() { Ok(Table::stderr()) } else { Table::stdout() };
        Ok(Self {
            table: (!ask.common.quiet).then(table).transpose()?,
            json: lines(&ask.json)?,
            csv: lines(&ask.csv)?,
            plot: drawing(&ask.plot)?,
            picture: drawing(&ask.picture)?,
            rows: Vec::new(),
        })
    }

    /// One more result.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&mut self, row: Row) -> Result<(), Failure> {
        let is_first = self.rows.is_empty();
        if let Some(table) = &mut self.table {
            if is_first {
                table.line(&Header(&row).to_string())?;
            }
            table.line(&Line(&row).to_string())?;
        }
        if let Some(json) = &mut self.json {
            json.put(as_json(&row))?;
        }
        if let Some(csv) = &mut self.csv {
            csv.put(as_csv(&row, is_first))?;
        }
        self.rows.push(row);
        Ok(())
    }

    /// All results are there: draws them, if that was asked for.
    ///
    /// # Errors
    /// When they cannot be drawn or written.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.plot.as_mut().map_or(Ok(()), |to| write(to, plot::draw(&self.rows)))
    }

    /// Draws one message's way, if that was asked for.
    ///
    /// # Errors
    /// When it cannot be drawn or written.
    pub fn draw(&mut self, picture: &Picture) -> Result<(), Failure> {
        self.picture.as_mut().map_or(Ok(()), |to| write(to, picture.draw()))
    }
}

impl Table {
    fn stdout() -> Result<Self, Failure> {
        let name = "standard output";
        if was_closed_at_start(1) {
            let error = io::Error::from_raw_os_error(libc::EBADF);
            return Err(Failure::local_io(format!("cannot write to {name}"), &error));
        }
        Ok(Self { to: Box::new(io::stdout()), name })
    }

    fn stderr() -> Self {
        Self { to: Box::new(io::stderr()), name: "standard error" }
    }

    /// One line, at once.
    fn line(&mut self, text: &str) -> Result<(), Failure> {
        let written = writeln!(self.to, "{text}").and_then(|()| self.to.flush());
        written.map_err(|error| Failure::local_io(format!("cannot write to {}", self.name), &error))
    }
}

impl Lines {
    /// Whole lines, at once.
    fn put(&mut self, lines: io::Result<Vec<u8>>) -> Result<(), Failure> {
        let lines = lines
            .map_err(|error| Failure::local_io(format!("cannot write to {}", self.to.name()), &error))?;
        self.to.write(&lines)?;
        if !self.is_there {
            self.to.commit()?;
            self.is_there = true;
        }
        Ok(())
    }
}

fn as_json(row: &Row) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(row)?;
    line.push(b'\n');
    Ok(line)
}

/// With the names of the columns, where it is the first.
fn as_csv(row: &Row, is_first: bool) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().has_headers(is_first).from_writer(Vec::new());
    writer.serialize(row)?;
    writer.into_inner().map_err(|error| error.into_error())
}

/// What was drawn.
fn write(to: &mut output::Output, drawn: Result<String, Box<dyn Error>>) -> Result<(), Failure> {
    let text =
        drawn.map_err(|error| Failure::new(Code::Device, format!("cannot draw {}: {error}", to.name())))?;
    to.write(text.as_bytes())?;
    to.commit()
}
