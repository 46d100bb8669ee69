//! The page and its plots, made of figures alone: the same figures give the same bytes.

mod judge;
mod page;
mod plots;
mod tables;
mod targets;
#[cfg(test)]
mod tests;
mod text;
mod verdicts;

use std::fs;
use std::path::{Path, PathBuf};

use superpipe_bench::failure::Failure;

use crate::class::Class;
use crate::figures::{Contestant, Figures, Kind, Series, Spread};
use crate::plan::Part;

/// Writes `dir`/benchmarks.md and the plots and removes others, or with `check` compares the files there with what would be written.
pub(crate) fn render(dir: &Path, check: bool, unexplained: bool) -> Result<(), Failure> {
    let files = files(dir, unexplained)?;
    let differs = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Failure::Usage(format!(
            "{name} is not what its figures make; type: cargo run --release -p superpipe-bench --bin benchmarks -- render"
        ))
    };
    // Those of a distance that was not seen this time.
    for path in plots_in(&dir.join("benchmarks"))? {
        if files.iter().any(|(other, _)| *other == path) {
            continue;
        }
        if check {
            return Err(differs(&path));
        }
        fs::remove_file(path).map_err(|error| Failure::Os("remove an old plot", error))?;
    }
    for (path, text) in &files {
        if !check {
            fs::write(path, text).map_err(|error| Failure::Os("write the report", error))?;
        } else if fs::read_to_string(path).ok().as_ref() != Some(text) {
            return Err(differs(path));
        }
    }
    Ok(())
}

/// The plots in a directory.
fn plots_in(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|error| Failure::Os("list the plots", error))?;
    let is_plot = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "svg");
    Ok(entries.into_iter().map(|entry| entry.path()).filter(is_plot).collect())
}

/// Every file of the report, with its text.
fn files(dir: &Path, unexplained: bool) -> Result<Vec<(PathBuf, String)>, Failure> {
    let directory = dir.join("benchmarks");
    let mut measured = Vec::new();
    for part in Part::LOCAL.into_iter().chain([Part::Rdma]) {
        let path = directory.join(format!("{}.jsonl", part.name()));
        if path.exists() {
            measured.push(Measured::new(part, Figures::read(&path)?));
        }
    }
    if measured.is_empty() {
        return Err(Failure::Usage(format!("there are no figures in {}", directory.display())));
    }
    let plots = plots::all(&measured).map_err(|error| Failure::Usage(format!("cannot draw: {error}")))?;
    let causes = verdicts::read_causes(&directory)?;
    let mut files = vec![(dir.join("benchmarks.md"), page::page(&measured, &causes, &plots, unexplained)?)];
    files.extend(plots.into_iter().map(|plot| (directory.join(plot.file), plot.svg)));
    Ok(files)
}

/// A part that was measured.
struct Measured {
    part: Part,
    figures: Figures,
}

impl Measured {
    fn new(part: Part, mut figures: Figures) -> Self {
        if part == Part::Rdma {
            figures.add_bound("ib_write_bw", "memcpy", "bound");
            let at = figures.contestants.iter().position(|other| other.id == "memcpy");
            if let Some(mut bound) = at.map(|at| figures.contestants[at].clone()) {
                (bound.id, bound.title) = ("bound".to_owned(), "bound".to_owned());
                figures.contestants.push(bound);
            }
        }
        Self { part, figures }
    }

    /// One series' speed over another's, inside the rounds.
    fn speed(&self, class: Class, one: Series<'_>, other: Series<'_>) -> Option<Spread> {
        let is_rate = text::is_rate(one.test);
        self.figures.compare(class, one, other, |one, other| if is_rate { one / other } else { other / one })
    }

    /// The fastest of some contestants in the median, in the test, place and size of a series: its title and its series.
    fn fastest<'a>(
        &'a self,
        class: Class,
        of: Series<'a>,
        is_wanted: impl Fn(&Contestant) -> bool,
    ) -> Option<(String, Series<'a>)> {
        let place = if self.part == Part::Rdma { of.place } else { self.part.memory() };
        let contestants = self.figures.contestants.iter().filter(|contestant| is_wanted(contestant));
        let found = contestants.filter_map(|contestant| {
            let series = Series { who: &contestant.id, place, ..of };
            let median = self.figures.spread(class, series)?.median;
            Some((contestant, series, if text::is_rate(of.test) { -median } else { median }))
        });
        let (contestant, series, _) = found.min_by(|a, b| a.2.total_cmp(&b.2))?;
        Some((contestant.title.clone(), series))
    }

    fn best_peer<'a>(&'a self, class: Class, of: Series<'a>) -> Option<(String, Series<'a>)> {
        self.fastest(class, of, |other| other.kind == Kind::Peer)
    }
}
