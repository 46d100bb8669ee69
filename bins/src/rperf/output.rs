//! Where results go: a table, and what was asked for beside it.

use super::options::Ask;
use super::plot;
use super::row::Row;
use super::table::{Header, Line};
use crate::exit::{Code, Failure};
use crate::options::is_dash;
use crate::trace::picture::Picture;
use core::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// All of it. Files are made before anything is measured, and each result is written as soon as it is there.
pub struct Output {
    table: Option<Out>,
    json: Option<Out>,
    csv: Option<(csv::Writer<File>, String)>,
    plot: Option<PathBuf>,
    picture: Option<PathBuf>,
    rows: Vec<Row>,
}

/// A file or standard stream, and what to call it.
struct Out {
    to: Box<dyn Write>,
    name: String,
}

impl Output {
    /// Opens what was asked for.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn open(ask: &Ask) -> Result<Self, Failure> {
        let json_takes_stdout = ask.json.as_deref().is_some_and(is_dash);
        let table = if json_takes_stdout { Out::stderr() } else { Out::stdout() };
        let json = match ask.json.as_deref() {
            None => None,
            Some(path) if is_dash(path) => Some(Out::stdout()),
            Some(path) => Some(Out { to: Box::new(create(path)?), name: path.display().to_string() }),
        };
        let csv = ask.csv.as_deref().map(|path| {
            create(path).map(|file| (csv::Writer::from_writer(file), path.display().to_string()))
        });
        for path in ask.plot.iter().chain(&ask.picture) {
            create(path)?;
        }
        Ok(Self {
            table: (!ask.common.quiet).then_some(table),
            json,
            csv: csv.transpose()?,
            plot: ask.plot.clone(),
            picture: ask.picture.clone(),
            rows: Vec::new(),
        })
    }

    /// One more result.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&mut self, row: Row) -> Result<(), Failure> {
        if let Some(table) = &mut self.table {
            if self.rows.is_empty() {
                table.line(&Header(&row).to_string())?;
            }
            table.line(&Line(&row).to_string())?;
        }
        if let Some(json) = &mut self.json {
            let line =
                serde_json::to_string(&row).map_err(|error| cannot_write(&json.name, &error.into()))?;
            json.line(&line)?;
        }
        if let Some((csv, name)) = &mut self.csv {
            let written = csv.serialize(&row).map_err(io::Error::from).and_then(|()| csv.flush());
            written.map_err(|error| cannot_write(name, &error))?;
        }
        self.rows.push(row);
        Ok(())
    }

    /// All results are there: draws them, if that was asked for.
    ///
    /// # Errors
    /// When they cannot be drawn or written.
    pub fn finish(&self) -> Result<(), Failure> {
        let Some(path) = &self.plot else { return Ok(()) };
        write(path, plot::draw(&self.rows))
    }

    /// Draws one message's way, if that was asked for.
    ///
    /// # Errors
    /// When it cannot be drawn or written.
    pub fn draw(&self, picture: &Picture) -> Result<(), Failure> {
        let Some(path) = &self.picture else { return Ok(()) };
        write(path, picture.draw())
    }
}

impl Out {
    fn stdout() -> Self {
        Self { to: Box::new(io::stdout()), name: "standard output".into() }
    }

    fn stderr() -> Self {
        Self { to: Box::new(io::stderr()), name: "standard error".into() }
    }

    /// One line, at once.
    fn line(&mut self, text: &str) -> Result<(), Failure> {
        let written = writeln!(self.to, "{text}").and_then(|()| self.to.flush());
        written.map_err(|error| cannot_write(&self.name, &error))
    }
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| cannot_write(&path.display().to_string(), &error))
}

/// What was drawn.
fn write(path: &Path, drawn: Result<String, Box<dyn Error>>) -> Result<(), Failure> {
    let text = drawn
        .map_err(|error| Failure::new(Code::Device, format!("cannot draw {}: {error}", path.display())))?;
    fs::write(path, text).map_err(|error| cannot_write(&path.display().to_string(), &error))
}

fn cannot_write(name: &str, error: &io::Error) -> Failure {
    Failure::local_io(format!("cannot write to {name}"), error)
}
