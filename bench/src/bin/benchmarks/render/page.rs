//! The page, section by section.

use core::fmt::Write;

use superpipe_bench::failure::Failure;
use superpipe_bench::probe::Distance;

use super::plots::Plot;
use super::verdicts::{self, Causes};
use super::{Measured, tables, text};
use crate::class::Class;
use crate::figures::Kind;
use crate::plan::Part;

const INTRODUCTION: &str = include_str!("introduction.md");
const RDMA: &str = include_str!("rdma.md");

/// Renders the whole page.
pub(super) fn page(
    all: &[Measured],
    causes: &Causes,
    plots: &[Plot],
    unexplained: bool,
) -> Result<String, Failure> {
    let (rdma, local): (Vec<_>, Vec<_>) = all.iter().partition(|measured| measured.part == Part::Rdma);
    let mut page = format!("{INTRODUCTION}\n");
    page += &verdicts::render(all, causes, |part| part != Part::Rdma, "##", unexplained)?;
    let _ = write!(page, "\n{}", tables::ahead(all));
    for measured in &local {
        let (title, curves, table) = match measured.part {
            Part::Small => {
                let curves: &[&str] = &["latency", "pingpong", "stream"];
                ("8 B to 8 KiB, reused buffers", curves, tables::contest(measured, "###"))
            }
            Part::Large => ("16 KiB to 64 MiB, reused buffers", &[][..], tables::contest(measured, "###")),
            Part::Cold => {
                ("64 KiB to 64 MiB, cold destination", &["cold"][..], tables::contest(measured, "###"))
            }
            Part::Steps => {
                let text = "The figures of every size are in [steps.jsonl](benchmarks/steps.jsonl).\n";
                ("Steps of 5 %", &["steps", "steps-stream"][..], text.to_owned())
            }
            Part::First => ("The first message of a connection", &[][..], tables::first(measured)),
            Part::Waiting => ("Wait strategies", &[][..], tables::waiting(measured)),
            Part::Rdma => continue,
        };
        let _ = write!(page, "\n## {title}\n\n{}{table}", pictures(plots, curves));
    }
    let _ = write!(page, "\n## The bare rings\n\n{}", tables::limits(all));
    let _ = write!(page, "\n## Contestants\n\n{}", contestants(&local));
    let _ = write!(page, "\n## Machine and rounds\n\n{}", machine(&local));
    for measured in rdma {
        let verdicts = verdicts::render(all, causes, |part| part == Part::Rdma, "###", unexplained)?;
        let _ = write!(page, "\n{RDMA}\n{verdicts}\n{}", tables::contest(measured, "###"));
        let _ = write!(page, "### Versions and commands\n\n{}\n", facts(measured, ""));
        let commands = measured.figures.commands.iter().map(|(who, line)| vec![who.clone(), code(line)]);
        let head = ["contestant and test", "the client's first command"];
        page += &text::table(&head, &commands.collect::<Vec<_>>());
    }
    Ok(page)
}

fn pictures(plots: &[Plot], names: &[&str]) -> String {
    let wanted = plots.iter().filter(|plot| names.contains(&plot.name));
    wanted.map(|plot| format!("![{}](benchmarks/{})\n\n", plot.title, plot.file)).collect()
}

fn code(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { format!("`{text}`") }
}

fn contestants(parts: &[&Measured]) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for contestant in parts.iter().flat_map(|measured| &measured.figures.contestants) {
        if rows.iter().any(|row| row[0] == contestant.title) || contestant.kind == Kind::Limit {
            continue;
        }
        let [title, version] = [&contestant.title, &contestant.version].map(String::clone);
        rows.push(vec![title, version, code(&contestant.settings), code(&contestant.command)]);
    }
    text::table(
        &["contestant", "version", "settings beside the defaults", "command, with one of its sizes"],
        &rows,
    )
}

fn facts(measured: &Measured, head: &str) -> String {
    let rows = measured.figures.facts.iter().map(|(name, value)| vec![name.clone(), value.clone()]);
    text::table(&["what", head], &rows.collect::<Vec<_>>())
}

/// The machine of each part, and its rounds.
fn machine(parts: &[&Measured]) -> String {
    let mut section = String::new();
    if let Some(first) = parts.first() {
        let _ = writeln!(section, "{}", facts(first, &format!("in the part '{}'", first.part.name())));
    }
    let rows: Vec<Vec<String>> = parts
        .iter()
        .map(|measured| {
            let figures = &measured.figures;
            let fact = |wanted: &str| {
                let found = figures.facts.iter().find(|(name, _)| name == wanted);
                found.map(|(_, value)| value.clone()).unwrap_or_default()
            };
            let [near, apart, far] = Distance::ALL.map(|at| figures.round_count(Class::At(at)).to_string());
            let mixed = figures.round_count(Class::Mixed);
            let times = figures.rounds.iter().flat_map(|round| [round.least_ns, round.most_ns]);
            let [least_ns, most_ns] = [f64::min, f64::max]
                .map(|fold| times.clone().reduce(fold).map_or_else(String::new, text::digits));
            let load = figures.rounds.iter().map(|round| round.load).fold(0.0, f64::max);
            let again: u32 = figures.rounds.iter().map(|round| round.again).sum();
            vec![
                measured.part.name().to_owned(),
                fact("date"),
                fact("superpipe"),
                near,
                apart,
                far,
                mixed.to_string(),
                again.to_string(),
                format!("{least_ns} to {most_ns}"),
                format!("{load:.2}"),
            ]
        })
        .collect();
    let head = [
        "part",
        "date",
        "superpipe",
        "rounds near",
        "apart",
        "far",
        "mixed",
        "visits run again",
        "8 B, ns",
        "load average, at most",
    ];
    section + &text::table(&head, &rows)
}
