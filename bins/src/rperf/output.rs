//! Output of results: the table, and the reports of the options.
//!
//! Files are opened before the measurement, so that one which cannot be written ends it at once. A drawing appears when it is
//! complete, a file of results with the first one. If the measurement fails before that, an old file of this name is kept.

use super::many_row::ManyRow;
use super::many_table as many;
use super::options::ClientOptions;
use super::plot;
use super::row::Row;
use super::table::{Header, Line};
use crate::exit::{Code, Failure};
use crate::files::output;
use crate::signals::Signals;
use crate::trace::picture::Picture;
use core::error::Error;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// Outputs of one run. Each result is written as soon as it is measured.
pub struct Output {
    table: Option<output::Output>,
    json: Option<Lines>,
    csv: Option<Lines>,
    plot: Option<output::Output>,
    picture: Option<output::Output>,
    rows: Vec<Row>,
    many: Vec<ManyRow>,
    signals: Signals,
}

/// A file that appears with its first line, or standard output.
struct Lines {
    to: output::Output,
    is_committed: bool,
}

impl Output {
    /// Opens all outputs of the options.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn open(options: &ClientOptions, signals: &Signals) -> Result<Self, Failure> {
        let open = |path: &Path| output::Output::open(Some(path), signals);
        let drawing = |path: &Option<PathBuf>| path.as_deref().map(open).transpose();
        let lines = |path| Ok(drawing(path)?.map(|to| Lines { to, is_committed: false }));
        let table = match (options.common.quiet, options.takes_stdout()) {
            (true, _) => None,
            (false, false) => Some(output::Output::open(None, signals)?),
            // a failure to open standard error cannot be reported
            (false, true) => output::Output::stderr(signals).ok(),
        };
        Ok(Self {
            table,
            json: lines(&options.json)?,
            csv: lines(&options.csv)?,
            plot: drawing(&options.plot)?,
            picture: drawing(&options.picture)?,
            rows: Vec::new(),
            many: Vec::new(),
            signals: *signals,
        })
    }

    /// Writes one result.
    ///
    /// # Errors
    /// It cannot be written, or a signal came meanwhile.
    pub fn put(&mut self, row: Row) -> Result<(), Failure> {
        let header = self.rows.is_empty().then(|| Header(&row).to_string());
        let written = self.write_row(header.as_deref(), &Line(&row).to_string(), &row);
        self.rows.push(row);
        self.explain(written)
    }

    /// Writes one result over many connections.
    ///
    /// # Errors
    /// It cannot be written, or a signal came meanwhile.
    pub fn put_many(&mut self, row: ManyRow) -> Result<(), Failure> {
        let header = self.many.is_empty().then(|| many::Header(&row).to_string());
        let written = self.write_row(header.as_deref(), &many::Line(&row).to_string(), &row);
        self.many.push(row);
        self.explain(written)
    }

    /// Writes a result that is no [`Row`]: its text to the table, and itself as an object.
    ///
    /// # Errors
    /// It cannot be written, or a signal came meanwhile.
    pub fn put_other(&mut self, text: &str, result: &impl Serialize) -> Result<(), Failure> {
        let table = self.table.as_mut().map_or(Ok(()), |table| table.write(text.as_bytes()));
        let json = self.json.as_mut().map_or(Ok(()), |json| json.put(as_json(result)));
        self.explain(table.and(json))
    }

    /// Draws all results, if there is a plot.
    ///
    /// # Errors
    /// They cannot be drawn or written, or a signal came meanwhile.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let draw = || if self.many.is_empty() { plot::draw(&self.rows) } else { plot::draw_many(&self.many) };
        let drawn = self.plot.as_mut().map_or(Ok(()), |to| write(to, draw()));
        self.explain(drawn)
    }

    /// Draws the copies of one message, if a picture is wanted.
    ///
    /// # Errors
    /// They cannot be drawn or written, or a signal came meanwhile.
    pub fn draw(&mut self, picture: &Picture) -> Result<(), Failure> {
        let drawn = self.picture.as_mut().map_or(Ok(()), |to| write(to, picture.draw()));
        self.explain(drawn)
    }

    /// Writes a row, with a header before the first one.
    fn write_row(&mut self, header: Option<&str>, line: &str, row: &impl Serialize) -> Result<(), Failure> {
        if let Some(table) = &mut self.table {
            let header = header.map_or_else(String::new, |header| format!("{header}\n"));
            table.write(format!("{header}{line}\n").as_bytes())?;
        }
        if let Some(json) = &mut self.json {
            json.put(as_json(row))?;
        }
        if let Some(csv) = &mut self.csv {
            csv.put(as_csv(row, header.is_some()))?;
        }
        Ok(())
    }

    /// Replaces a failure to write by the signal that came meanwhile, which may have ended the reader of the pipe as well.
    fn explain(&self, written: Result<(), Failure>) -> Result<(), Failure> {
        written.map_err(|failure| self.signals.failure().unwrap_or(failure))
    }
}

impl Lines {
    /// Writes complete lines with one call.
    fn put(&mut self, lines: io::Result<Vec<u8>>) -> Result<(), Failure> {
        let lines = lines
            .map_err(|error| Failure::local_io(format!("cannot write to {}", self.to.name()), &error))?;
        self.to.write(&lines)?;
        if !self.is_committed {
            self.to.commit()?;
            self.is_committed = true;
        }
        Ok(())
    }
}

fn as_json(row: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(row)?;
    line.push(b'\n');
    Ok(line)
}

/// Formats a row, with the names of the columns before the first one.
fn as_csv(row: &impl Serialize, is_first: bool) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().has_headers(is_first).from_writer(Vec::new());
    writer.serialize(row)?;
    writer.into_inner().map_err(|error| error.into_error())
}

/// Writes a complete drawing.
fn write(to: &mut output::Output, drawn: Result<String, Box<dyn Error>>) -> Result<(), Failure> {
    let text =
        drawn.map_err(|error| Failure::new(Code::Device, format!("cannot draw {}: {error}", to.name())))?;
    to.write(text.as_bytes())?;
    to.commit()
}
