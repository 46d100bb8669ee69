//! The page and its plots, made of figures alone: the same figures give the same bytes.

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

use crate::figures::{Contestant, Distance, Figures, Kind, Series, Spread};
use crate::plan::Part;

/// Writes `dir`/benchmarks.md and the plots, or with `check` compares the files there with what would be written.
pub(crate) fn render(dir: &Path, check: bool, unexplained: bool) -> Result<(), Failure> {
    for (path, text) in &files(dir, unexplained)? {
        if !check {
            fs::write(path, text).map_err(|error| Failure::Os("write the report", error))?;
        } else if fs::read_to_string(path).ok().as_ref() != Some(text) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            return Err(Failure::Usage(format!(
                "{name} is not what its figures make; type: cargo run --release -p superpipe-bench --bin benchmarks -- render"
            )));
        }
    }
    Ok(())
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
    fn speed(&self, distance: Distance, one: Series<'_>, other: Series<'_>) -> Option<Spread> {
        let is_rate = text::is_rate(one.test);
        self.figures.compare(
            distance,
            one,
            other,
            |one, other| if is_rate { one / other } else { other / one },
        )
    }

    /// The fastest of some contestants in the median, in the test, place and size of a series: its title and its series.
    fn fastest<'a>(
        &'a self,
        distance: Distance,
        of: Series<'a>,
        is_wanted: impl Fn(&Contestant) -> bool,
    ) -> Option<(String, Series<'a>)> {
        let place = if self.part == Part::Rdma { of.place } else { self.part.memory() };
        let contestants = self.figures.contestants.iter().filter(|contestant| is_wanted(contestant));
        let found = contestants.filter_map(|contestant| {
            let series = Series { who: &contestant.id, place, ..of };
            let median = self.figures.spread(distance, series)?.median;
            Some((contestant, series, if text::is_rate(of.test) { -median } else { median }))
        });
        let (contestant, series, _) = found.min_by(|a, b| a.2.total_cmp(&b.2))?;
        Some((contestant.title.clone(), series))
    }

    fn best_peer<'a>(&'a self, distance: Distance, of: Series<'a>) -> Option<(String, Series<'a>)> {
        self.fastest(distance, of, |other| other.kind == Kind::Peer)
    }
}
