//! `paper`: the papers' results, measured beside expected, and the papers' figures.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::{Args, ValueEnum};
use superpipe_sim::{FigureName, FigureRuns, Row, choice_table, paper_rows, paper_table};

use super::{EXIT_INTEGRITY, EXIT_LOCAL_IO, EXIT_USAGE};

/// What is made. Figures 1, 5 and 8 to 11 are those of Frey and Alonso, figures 2, 4, 6 and 7 those of Denis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The table: printed, and for `all` written beside the figures as table.md
    Table,
    /// CPU time of a message, in place of Frey and Alonso's Figure 1, which is of TCP
    Fig1,
    /// Denis, Figure 2: naive protocols
    Fig2,
    /// Denis, Figure 4: the pipeline
    Fig4,
    /// Frey and Alonso, Figure 5: registration and deregistration
    Fig5,
    /// Denis, Figure 6: the superpipeline, on both machines
    Fig6,
    /// Denis, Figure 7: first and best message
    Fig7,
    /// Frey and Alonso, Figure 8: registration and copies, resident
    Fig8,
    /// Frey and Alonso, Figure 9: registration and copies, cold
    Fig9,
    /// Frey and Alonso, Figure 10: registration by four cores
    Fig10,
    /// Frey and Alonso, Figure 11: writes
    Fig11,
    /// Denis, section 4: the number of gaps
    Gaps,
    /// Denis, Figure 1: registration and copies
    Reg,
    /// Denis, section 5: an all-to-all, as NAS IS, and one that reuses its buffers
    Is,
    /// The table, and every figure
    All,
}

impl What {
    fn figures(self) -> &'static [FigureName] {
        match self {
            Self::Table => &[],
            Self::Fig1 => &[FigureName::Load],
            Self::Fig2 => &[FigureName::Naive],
            Self::Fig4 => &[FigureName::Pipeline],
            Self::Fig5 => &[FigureName::RegistrationCosts],
            Self::Fig6 => &[FigureName::SuperpipelineGraphene, FigureName::SuperpipelineInfini],
            Self::Fig7 => &[FigureName::FirstAndBest],
            Self::Fig8 => &[FigureName::CriticalResident],
            Self::Fig9 => &[FigureName::CriticalCold],
            Self::Fig10 => &[FigureName::Parallel],
            Self::Fig11 => &[FigureName::Writes],
            Self::Gaps => &[FigureName::Gaps],
            Self::Reg => &[FigureName::Registration],
            Self::Is => &[FigureName::AllToAll],
            Self::All => &FigureName::ALL,
        }
    }
}

#[derive(Args)]
pub(super) struct PaperArguments {
    /// Make these
    #[arg(value_name = "WHAT", default_value = "table")]
    what: Vec<What>,
    /// Write the tables into this file, too, between their marks
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Fail if this file has another table between its marks, or another one of the planner's choices
    #[arg(long, value_name = "FILE", conflicts_with = "into")]
    check: Option<PathBuf>,
    /// Write each figure into this directory, as NAME.csv and NAME.svg [default: target/paper]
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

impl PaperArguments {
    fn wants_table(&self) -> bool {
        self.what.iter().any(|what| matches!(what, What::Table | What::All))
    }

    /// Returns the figures in their order, each once.
    fn wanted_figures(&self) -> Vec<FigureName> {
        let mut names: Vec<_> = self.what.iter().flat_map(|what| what.figures()).copied().collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns why the options do not fit what is made.
    fn mismatch(&self) -> Option<&'static str> {
        if !self.wants_table() && self.into.is_some() {
            return Some("--into writes the table, which is not made; add table");
        }
        if !self.wants_table() && self.check.is_some() {
            return Some("--check compares the table, which is not made; add table");
        }
        if self.wanted_figures().is_empty() && self.figures.is_some() {
            return Some("--figures writes figures, and none is made; name some, or all");
        }
        None
    }
}

/// An error, with its exit code.
struct Failure(u8, String);

impl Failure {
    fn local_io(path: &Path, error: &io::Error) -> Self {
        Self(EXIT_LOCAL_IO, format!("{}: {error}", path.display()))
    }

    const fn integrity(text: String) -> Self {
        Self(EXIT_INTEGRITY, text)
    }
}

/// The lines of a file between which the table is.
const TABLE: [&str; 2] = ["<!-- table: superpipe-sim paper -->\n", "<!-- end of table -->\n"];

/// Those between which the planner's choices are.
const CHOICES: [&str; 2] = ["<!-- choices: superpipe-sim paper -->\n", "<!-- end of choices -->\n"];

/// Directory of the figures.
const DIRECTORY: &str = "target/paper";

/// Makes what the options name. Exits with 6 if a row is not what must come out.
pub(super) fn make(options: &PaperArguments) -> ExitCode {
    let done = match options.mismatch() {
        Some(text) => Err(Failure(EXIT_USAGE, text.to_owned())),
        None => make_all(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(code, text)) => {
            eprintln!("superpipe-sim: {text}");
            ExitCode::from(code)
        }
    }
}

fn make_all(options: &PaperArguments) -> Result<(), Failure> {
    let directory = options.figures.as_deref().unwrap_or_else(|| Path::new(DIRECTORY));
    let names = options.wanted_figures();
    if !names.is_empty() {
        fs::create_dir_all(directory).map_err(|error| Failure::local_io(directory, &error))?;
    }
    // Rows may fail, and the figures show why.
    let has_table = if options.wants_table() { make_table(options, directory) } else { Ok(()) };
    write_figures(&names, directory)?;
    has_table
}

/// Makes the table, prints it, and writes or compares it.
fn make_table(options: &PaperArguments, directory: &Path) -> Result<(), Failure> {
    let rows = paper_rows().map_err(Failure::integrity)?;
    let text = paper_table(&rows);
    print!("{text}");
    if options.what.contains(&What::All) {
        write(&directory.join("table.md"), &text)?;
    }
    let missed: Vec<&str> =
        rows.iter().filter(|row| !row.is_met).map(|Row { what, .. }| what.as_str()).collect();
    if !missed.is_empty() {
        return Err(Failure::integrity(format!("out of bounds: {}", missed.join("; "))));
    }
    let made = [(TABLE, text), (CHOICES, choice_table())];
    if let Some(path) = &options.into {
        let mut page = read(path)?;
        for (marks, text) in &made {
            let [before, _, after] = parts(&page, *marks).map_err(|error| Failure::local_io(path, &error))?;
            let [begin, end] = marks;
            page = format!("{before}{begin}{text}{end}{after}");
        }
        write(path, &page)?;
    }
    if let Some(path) = &options.check {
        let page = read(path)?;
        for (marks, text) in &made {
            let [_, between, _] = parts(&page, *marks).map_err(|error| Failure::local_io(path, &error))?;
            if between != text {
                let text = format!("{} has another table; write this one with --into", path.display());
                return Err(Failure::integrity(text));
            }
        }
    }
    Ok(())
}

fn write_figures(names: &[FigureName], directory: &Path) -> Result<(), Failure> {
    let mut runs = FigureRuns::default();
    for name in names {
        let figure = name.make(&mut runs).map_err(Failure::integrity)?;
        write(&directory.join(format!("{name}.csv")), &figure.csv())?;
        let svg = figure.svg().map_err(Failure::integrity)?;
        write(&directory.join(format!("{name}.svg")), &svg)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::local_io(path, &error))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::local_io(path, &error))
}

/// Returns what is before, between and behind the marks.
fn parts<'a>(text: &'a str, [begin, end]: [&str; 2]) -> io::Result<[&'a str; 3]> {
    let (before, rest) = text.split_once(begin).ok_or_else(|| missing(begin))?;
    let (between, after) = rest.split_once(end).ok_or_else(|| missing(end))?;
    Ok([before, between, after])
}

fn missing(mark: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the file lacks the line '{}'", mark.trim_end()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: PaperArguments,
    }

    fn parsed(words: &[&str]) -> PaperArguments {
        let command = Command::try_parse_from(core::iter::once(&"paper").chain(words));
        command.map(|command| command.options).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_figure_has_a_word_and_is_made_once() {
        let of_words: Vec<_> = What::value_variants().iter().filter(|what| **what != What::All).collect();
        let mut names: Vec<_> = of_words.into_iter().flat_map(|what| what.figures()).copied().collect();
        names.sort_unstable();
        assert_eq!(names, FigureName::ALL);
        assert_eq!(parsed(&["fig7", "fig2", "fig7"]).wanted_figures().len(), 2);
        assert_eq!(parsed(&["gaps", "all"]).wanted_figures(), FigureName::ALL);
    }

    #[test]
    fn options_must_fit_what_is_made() {
        for words in [
            &[][..],
            &["--check", "a"],
            &["table", "fig2", "--into", "a"],
            &["all", "--figures", "d", "--check", "a"],
            &["is", "--figures", "d"],
        ] {
            assert_eq!(parsed(words).mismatch(), None, "{words:?}");
        }
        for (words, about) in [
            (&["fig2", "--into", "a"][..], "--into"),
            (&["is", "--check", "a"], "--check"),
            (&["--figures", "d"], "--figures"),
        ] {
            assert!(parsed(words).mismatch().is_some_and(|text| text.starts_with(about)), "{words:?}");
        }
        assert!(Command::try_parse_from(["paper", "fig3"]).is_err());
    }
}
