//! The report, put together.

use core::fmt::Write;

use superpipe_bench::failure::Failure;

use super::causes::Causes;
use super::data::Measured;
use super::{tables, text, verdicts, waiting};
use crate::plan::Part;
use crate::raw::{Kind, State};

const INTRODUCTION: &str = "\
# Benchmarks

superpipe beside the raw limits of one machine and beside its peers, over shared memory, two processes on two cores. This page
and its plots are made by `make compare` from the raw figures in [benchmarks/](benchmarks/); nothing in it is typed by hand
but the causes of missed targets ([causes.json](benchmarks/causes.json)). `make bench` measures the limits and superpipe alone
on your machine, without a network, and writes the same report to target/benchmarks.

- **Half round trip**: a message there and one of the same size back, again and again; half of that, the median. **Streaming**:
  message after message one way; the rate at the receiver. GB are 10^9 bytes.
- Every figure is the median of the rounds, with the lowest and the highest. In a round every contestant has its turn, in
  a process of its own; ratios are formed inside a round, and the median of these is told.
- **Reused**: the same resident buffers for every message. **Cold**: each message arrives in memory that was never used
  and is not resident; what is sent was written before. superpipe's users can have it allocate such memory (*its own*), or
  tell it that theirs is new (*advised*), or say nothing (*not told*).
- The **bare ring** has no protocol: lines or blocks in shared memory with a flag each, in the configuration that a sweep finds to be
  the best for that size and test. Nobody who copies in and out is faster, but for luck and caches.
- The two cores of a virtual machine may be **near** (8 bytes cross in some 30 ns) or **far** (some 200), and that changes
  every few minutes. The distance is probed around each round, a round with a change in it is run again, and rounds of the
  two kinds are never mixed. Targets are judged where there are the most rounds.
- Peers stand twice where other settings than their defaults make them much faster. All peers stream through a window
  of 64 nonblocking operations, and send from and receive into ordinary memory. **iceoryx2** hands over references to samples in
  shared memory; superpipe's users have their data in memory of their own, so it is measured with a copy into the sample
  and a copy out of it. *No copies* is what it costs when both programs work in the samples: something else than superpipe does,
  and left out of all comparisons.
";

/// The whole page.
pub(super) fn page(
    measured: &[Measured],
    causes: &Causes,
    plots: &[(String, String)],
    unexplained: bool,
) -> Result<String, Failure> {
    let mut page = INTRODUCTION.to_owned();
    page.push('\n');
    page += &verdicts::render(measured, causes, unexplained)?;
    page.push('\n');
    page += &tables::ahead(measured);
    let pictures = |names: &[&str]| -> String {
        let is_named = |file: &str| {
            names.iter().any(|name| {
                [format!("{name}-near.svg"), format!("{name}-far.svg")].contains(&file.to_owned())
            })
        };
        let files = plots.iter().filter(|(file, _)| is_named(file));
        files
            .map(|(file, _)| format!("![{}](benchmarks/{file})\n\n", file.trim_end_matches(".svg")))
            .collect()
    };
    for measured in measured {
        let (title, pictures) = match measured.part {
            Part::Small => ("8 B to 8 KiB, reused buffers", pictures(&["latency", "pingpong", "stream"])),
            Part::Large => ("16 KiB to 64 MiB, reused buffers", String::new()),
            Part::Cold => ("64 KiB to 64 MiB, cold destination", pictures(&["cold"])),
            Part::Steps => ("Steps of 5 %", pictures(&["steps", "steps-stream"])),
            Part::First => ("The first message of a connection", String::new()),
            Part::Waiting => ("Wait strategies", String::new()),
        };
        let _ = write!(page, "\n## {title}\n\n{pictures}");
        page += &match measured.part {
            Part::Small | Part::Large | Part::Cold => tables::contest(measured),
            Part::Steps => "Every size's figures are in [steps.jsonl](benchmarks/steps.jsonl).\n".to_owned(),
            Part::First => tables::first(measured),
            Part::Waiting => waiting::table(measured),
        };
    }
    let _ = write!(page, "\n## The bare rings\n\n{}", tables::limits(measured));
    page += &contestants(measured);
    page += &machine(measured);
    Ok(page)
}

fn contestants(measured: &[Measured]) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for contestant in measured.iter().flat_map(|measured| &measured.contestants) {
        if rows.iter().any(|row| row[0] == contestant.title) || contestant.kind == Kind::Limit {
            continue;
        }
        let code = |text: &str| if text.is_empty() { "-".to_owned() } else { format!("`{text}`") };
        let version = contestant.version.clone();
        rows.push(vec![
            contestant.title.clone(),
            version,
            code(&contestant.settings),
            code(&contestant.command),
        ]);
    }
    let head = ["contestant", "version", "settings beside the defaults", "command, with one of its sizes"];
    format!("\n## Contestants\n\n{}", text::table(&head.map(str::to_owned), &rows))
}

/// Where each part ran, and what its rounds were like.
fn machine(measured: &[Measured]) -> String {
    let mut section = String::from("\n## Machine and rounds\n\n");
    if let Some(first) = measured.first() {
        let rows: Vec<Vec<String>> =
            first.machine.facts.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
        section += &text::table(&["what".to_owned(), format!("in the part '{}'", first.part.name())], &rows);
        section.push('\n');
    }
    let fact = |measured: &Measured, wanted: &str| {
        let found = measured.machine.facts.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let rows: Vec<Vec<String>> = measured
        .iter()
        .map(|measured| {
            let count = |state| measured.round_count(state).to_string();
            let loads = measured.rounds.iter().map(|round| round.load);
            let load = loads.fold(0.0, f64::max);
            let again = measured.rounds.iter().filter(|round| round.attempts > 1).count();
            vec![
                measured.part.name().to_owned(),
                fact(measured, "date"),
                fact(measured, "superpipe"),
                count(State::Near),
                count(State::Far),
                count(State::Mixed),
                again.to_string(),
                format!("{load:.2}"),
            ]
        })
        .collect();
    let head = [
        "part",
        "date",
        "superpipe",
        "rounds near",
        "far",
        "mixed (not used)",
        "run again",
        "load average, at most",
    ];
    section += &text::table(&head.map(str::to_owned), &rows);
    section
}
