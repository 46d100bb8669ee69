//! Targets missed, met and not measured, each with its figures and, where it is missed, its cause.

use core::fmt::Write;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use superpipe_bench::failure::Failure;

use super::targets::{Rival, Rule, TARGETS, Target};
use super::{Measured, text};
use crate::figures::{Distance, Series, Spread};
use crate::plan::Part;

/// Causes by the target's id: the one thing that is written by hand.
pub(super) type Causes = BTreeMap<String, Cause>;

/// The cause of a missed target, and the attempts to meet it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cause {
    pub(super) cause: String,
    pub(super) tried: String,
}

/// Reads a directory's causes.json, which may be absent.
pub(super) fn read_causes(directory: &Path) -> Result<Causes, Failure> {
    let path = directory.join("causes.json");
    if !path.exists() {
        return Ok(Causes::new());
    }
    let text = fs::read_to_string(&path).map_err(|error| Failure::Os("read causes", error))?;
    serde_json::from_str(&text).map_err(|error| Failure::Usage(format!("causes.json: {error}")))
}

/// A target at one size.
struct Verdict<'a> {
    own: Series<'a>,
    distance: Distance,
    /// the rival's title, where there is one
    rival: String,
    /// the value that the rule limits
    got: Spread,
    is_met: bool,
}

/// Renders the sections of the targets of some parts. A missed target needs a cause, unless `unexplained` allows it to have none.
pub(super) fn render(
    parts: &[Measured],
    causes: &Causes,
    is_wanted: impl Fn(Part) -> bool,
    level: &str,
    unexplained: bool,
) -> Result<String, Failure> {
    if let Some(id) = causes.keys().find(|id| TARGETS.iter().all(|target| target.id != id.as_str())) {
        return Err(Failure::Usage(format!(
            "causes.json has a cause of '{id}', and there is no such target"
        )));
    }
    let (mut missed, mut met, mut absent) = (String::new(), Vec::new(), String::new());
    for target in TARGETS.iter().filter(|target| is_wanted(target.part)) {
        let part = parts.iter().find(|part| part.part == target.part);
        let verdicts = part.map_or_else(Vec::new, |part| judge(target, part));
        // The distance with the most rounds decides; others are shown.
        let deciding = part.and_then(|part| part.figures.distances().first().copied());
        let (counted, others): (Vec<_>, Vec<_>) =
            verdicts.into_iter().partition(|verdict| Some(verdict.distance) == deciding);
        let row = |verdict: &Verdict| row(target, verdict);
        if counted.is_empty() {
            let _ = writeln!(absent, "- {}", target.text);
        } else if counted.iter().any(|verdict| !verdict.is_met) {
            let all = counted.iter().chain(&others).filter(|verdict| !verdict.is_met);
            let rows: Vec<Vec<String>> = all.map(|verdict| row(verdict).split_off(1)).collect();
            let table = text::table(&HEAD[1..], &rows);
            let cause = cause(target, causes, unexplained)?;
            let _ = write!(missed, "{level}# {}\n\n{table}\n{cause}", target.text);
        }
        met.extend(counted.iter().filter(|verdict| verdict.is_met).map(row));
    }
    let mut section = format!("{level} Missed targets\n\n");
    section += if missed.is_empty() { "None.\n\n" } else { &missed };
    let _ = write!(section, "{level} Met targets\n\n");
    section += &if met.is_empty() { "None.\n".to_owned() } else { text::table(&HEAD, &met) };
    if !absent.is_empty() {
        let _ = write!(section, "\n{level} Targets that were not measured in this run\n\n{absent}");
    }
    Ok(section)
}

fn cause(target: &Target, causes: &Causes, unexplained: bool) -> Result<String, Failure> {
    match causes.get(target.id) {
        Some(cause) => Ok(format!("**Cause.** {}\n\n**Tried.** {}\n\n", cause.cause, cause.tried)),
        None if unexplained => Ok("**Cause.** Not known.\n\n".to_owned()),
        None => Err(Failure::Usage(format!(
            "the target '{}' is missed, and causes.json has no cause of it: write the cause and what was tried",
            target.id
        ))),
    }
}

const HEAD: [&str; 7] = ["target", "test", "size", "where", "rounds", "superpipe", "compared with"];

fn row(target: &Target, verdict: &Verdict<'_>) -> Vec<String> {
    let Verdict { own, distance, rival, got, .. } = verdict;
    vec![
        target.text.to_owned(),
        text::test(own.test).to_owned(),
        text::size(own.size),
        text::place(*own),
        text::rounds(*distance, got.count),
        text::got(target.rule, *got),
        rival.clone(),
    ]
}

fn judge<'a>(target: &'a Target, measured: &'a Measured) -> Vec<Verdict<'a>> {
    let mut verdicts = Vec::new();
    for distance in measured.figures.distances() {
        for &place in target.places {
            for &who in target.who {
                for &test in target.tests {
                    let sizes = measured.figures.sizes(test, &[place]);
                    let own = |size| Series { test, who, place, size };
                    if let Rule::StepKeeps(share) = target.rule {
                        let steps = sizes
                            .windows(2)
                            .filter_map(|pair| step(measured, distance, own(pair[0]), own(pair[1]), share));
                        // the step that keeps the least of its bandwidth, named by the size that it leads to
                        verdicts.extend(steps.min_by(|a, b| a.got.median.total_cmp(&b.got.median)));
                        continue;
                    }
                    let is_wanted = |size: &usize| target.sizes.is_empty() || target.sizes.contains(size);
                    let wanted = sizes.into_iter().filter(is_wanted);
                    verdicts
                        .extend(wanted.filter_map(|size| judge_size(target, measured, distance, own(size))));
                }
            }
        }
    }
    verdicts
}

fn judge_size<'a>(
    target: &Target,
    measured: &Measured,
    distance: Distance,
    own: Series<'a>,
) -> Option<Verdict<'a>> {
    let (Rule::TimesAtMost(rival, _) | Rule::SpeedAtLeast(rival, _) | Rule::NanosecondsMore(rival, _)) =
        target.rule
    else {
        return None;
    };
    let (title, rival) = match rival {
        Rival::Own(test) => (String::new(), Series { test, ..own }),
        Rival::Named(id) => measured.fastest(distance, own, |other| other.id.starts_with(id))?,
        Rival::BestPeer => measured.best_peer(distance, own)?,
    };
    let compare = |value: fn(f64, f64) -> f64| measured.figures.compare(distance, own, rival, value);
    let (got, is_met) = match target.rule {
        Rule::TimesAtMost(_, factor) => {
            let got = compare(|own, rival| own / rival)?;
            (got, got.median <= factor)
        }
        Rule::NanosecondsMore(_, ns) => {
            let got = compare(|own, rival| (own - rival) * 1000.0)?;
            (got, got.median <= ns)
        }
        Rule::SpeedAtLeast(_, factor) => {
            let got = measured.speed(distance, own, rival)?;
            (got, got.median >= factor)
        }
        Rule::StepKeeps(_) => return None,
    };
    Some(Verdict { own, distance, rival: title, got, is_met })
}

fn step<'a>(
    measured: &Measured,
    distance: Distance,
    before: Series<'_>,
    after: Series<'a>,
    share: f64,
) -> Option<Verdict<'a>> {
    let growth = after.size as f64 / before.size as f64;
    let got = measured.figures.compare(distance, before, after, |before, after| before / after * growth)?;
    Some(Verdict { own: after, distance, rival: String::new(), got, is_met: got.median >= share })
}
