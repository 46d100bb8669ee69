//! Output of results: a table, and the reports that were asked for beside it.
//!
//! Files are opened before anything is measured, so that nobody measures for what cannot be written, and appear with what
//! is in them: a drawing whole, results from the first on. Where a measurement fails before that, what had the name stays.

use super::options::Ask;
use super::plot;
use super::row::Row;
use super::table::{Header, Line};
use crate::exit::{Code, Failure};
use crate::output;
use crate::signals::Signals;
use crate::trace::picture::Picture;
use core::error::Error;
use std::io;
use std::path::{Path, PathBuf};

/// The places that were asked for. Each result is written as soon as it is there.
pub struct Output {
    table: Option<output::Output>,
    json: Option<Lines>,
    csv: Option<Lines>,
    plot: Option<output::Output>,
    picture: Option<output::Output>,
    rows: Vec<Row>,
    signals: Signals,
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
        let open = |path: &Path| output::Output::open(Some(path), signals);
        let drawing = |path: &Option<PathBuf>| path.as_deref().map(open).transpose();
        let lines = |path| Ok(drawing(path)?.map(|to| Lines { to, is_there: false }));
        let table = match (ask.common.quiet, ask.takes_stdout()) {
            (true, _) => None,
            (false, false) => Some(output::Output::open(None, signals)?),
            // nobody can be told that standard error is gone
            (false, true) => output::Output::stderr(signals).ok(),
        };
        Ok(Self {
            table,
            json: lines(&ask.json)?,
            csv: lines(&ask.csv)?,
            plot: drawing(&ask.plot)?,
            picture: drawing(&ask.picture)?,
            rows: Vec::new(),
            signals: *signals,
        })
    }

    /// Tells one more result.
    ///
    /// # Errors
    /// When it cannot be written, or a signal came meanwhile.
    pub fn put(&mut self, row: Row) -> Result<(), Failure> {
        let is_first = self.rows.is_empty();
        self.rows.push(row);
        let told = self.tell_last(is_first);
        self.explain(told)
    }

    /// Draws all results, if that was asked for.
    ///
    /// # Errors
    /// When they cannot be drawn or written, or a signal came meanwhile.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let drawn = self.plot.as_mut().map_or(Ok(()), |to| write(to, plot::draw(&self.rows)));
        self.explain(drawn)
    }

    /// Draws the copies of one message, if that was asked for.
    ///
    /// # Errors
    /// When they cannot be drawn or written, or a signal came meanwhile.
    pub fn draw(&mut self, picture: &Picture) -> Result<(), Failure> {
        let drawn = self.picture.as_mut().map_or(Ok(()), |to| write(to, picture.draw()));
        self.explain(drawn)
    }

    fn tell_last(&mut self, is_first: bool) -> Result<(), Failure> {
        let Some(row) = self.rows.last() else { return Ok(()) };
        if let Some(table) = &mut self.table {
            let header = if is_first { format!("{}\n", Header(row)) } else { String::new() };
            table.write(format!("{header}{}\n", Line(row)).as_bytes())?;
        }
        if let Some(json) = &mut self.json {
            json.put(as_json(row))?;
        }
        if let Some(csv) = &mut self.csv {
            csv.put(as_csv(row, is_first))?;
        }
        Ok(())
    }

    /// Names the signal where one came while something could not be written: it may have ended the reader of a pipe as well.
    fn explain(&self, written: Result<(), Failure>) -> Result<(), Failure> {
        written.map_err(|failure| self.signals.failure().unwrap_or(failure))
    }
}

impl Lines {
    /// Writes whole lines, at once.
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

/// Writes a drawing.
fn write(to: &mut output::Output, drawn: Result<String, Box<dyn Error>>) -> Result<(), Failure> {
    let text =
        drawn.map_err(|error| Failure::new(Code::Device, format!("cannot draw {}: {error}", to.name())))?;
    to.write(text.as_bytes())?;
    to.commit()
}
