//! Targets missed, met, not judged and not measured, each with its figures and, where it is missed, its cause.

use core::fmt::Write;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use superpipe_bench::failure::Failure;

use super::judge::{Outcome, ROUNDS_MIN, Verdict, judge};
use super::targets::{TARGETS, Target};
use super::{Measured, text};
use crate::class::Class;
use crate::plan::Part;

/// Causes by the target's id, for every class of distance, or by `ID/CLASS`, for one: the one thing that is written by hand.
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

/// Renders the sections of the targets of some parts. A missed target needs a cause in each class, unless `unexplained` allows it to have none.
pub(super) fn render(
    parts: &[Measured],
    causes: &Causes,
    is_wanted: impl Fn(Part) -> bool,
    level: &str,
    unexplained: bool,
) -> Result<String, Failure> {
    if let Some(id) = causes.keys().find(|id| !is_target(id)) {
        return Err(Failure::Usage(format!(
            "causes.json has a cause of '{id}', and there is no such target, or target and distance"
        )));
    }
    let mut judged = Vec::new();
    for target in TARGETS.iter().filter(|target| is_wanted(target.part)) {
        let part = parts.iter().find(|part| part.part == target.part);
        judged.push((target, part.map_or_else(Vec::new, |part| judge(target, part))));
    }
    let absent: Vec<String> = judged
        .iter()
        .filter(|(_, verdicts)| verdicts.is_empty())
        .map(|(target, _)| format!("- {}\n", target.text))
        .collect();
    let mut section = overview(&judged, level);
    let _ = write!(section, "{level} Missed targets\n\n{}", missed(&judged, causes, level, unexplained)?);
    let _ = write!(section, "{level} Met targets\n\n{}", met(&judged, level));
    section += &unjudged(&judged, level);
    if !absent.is_empty() {
        let _ =
            write!(section, "\n{level} Targets that were not measured in this run\n\n{}", absent.concat());
    }
    Ok(section)
}

/// A target with its verdicts, by class.
type Judged<'a> = (&'a Target, Vec<Verdict<'a>>);

/// Verdicts of one class and outcome.
fn those<'a>(
    (_, verdicts): &'a Judged<'a>,
    class: Class,
    outcome: Outcome,
) -> impl Iterator<Item = &'a Verdict<'a>> {
    verdicts.iter().filter(move |verdict| verdict.class == class && verdict.outcome == outcome)
}

/// Classes that have a verdict.
fn classes(judged: &[Judged<'_>]) -> Vec<Class> {
    let has_any = |class: &Class| {
        judged.iter().any(|(_, verdicts)| verdicts.iter().any(|verdict| verdict.class == *class))
    };
    Class::SHOWN.into_iter().filter(has_any).collect()
}

fn is_target(key: &str) -> bool {
    let (id, class) = key.split_once('/').map_or((key, None), |(id, class)| (id, Some(class)));
    let is_class = |class| Class::SHOWN.iter().any(|at| matches!(at, Class::At(_)) && at.name() == class);
    TARGETS.iter().any(|target| target.id == id) && class.is_none_or(is_class)
}

/// A row per target, with a column per class. Nothing where no distance was probed.
fn overview(judged: &[Judged<'_>], level: &str) -> String {
    let classes: Vec<Class> = classes(judged).into_iter().filter(|class| *class != Class::Unknown).collect();
    if classes.is_empty() {
        return String::new();
    }
    let cell = |judged: &Judged<'_>, class: Class| {
        let count = |outcome| those(judged, class, outcome).count();
        let [met, missed, unjudged] = [Outcome::Met, Outcome::Missed, Outcome::Unjudged].map(count);
        match (met, missed, unjudged) {
            (0, 0, 0) => "-".to_owned(),
            (0, 0, _) => seen(judged, class),
            (_, 0, 0) => "met".to_owned(),
            (_, 0, _) => format!("met at {met} of {}, others not judged", met + unjudged),
            (0, _, 0) => "**missed**".to_owned(),
            _ => format!("**missed** at {missed} of {}", met + missed + unjudged),
        }
    };
    let measured = judged.iter().filter(|(_, verdicts)| !verdicts.is_empty());
    let rows = measured.map(|judged| {
        let cells = classes.iter().map(|&class| cell(judged, class));
        [judged.0.text.to_owned()].into_iter().chain(cells).collect()
    });
    let head: Vec<&str> = ["target"].into_iter().chain(classes.iter().map(|class| class.name())).collect();
    format!("{level} Targets at each distance\n\n{}\n", text::table(&head, &rows.collect::<Vec<_>>()))
}

/// `seen in 3 rounds, not judged`
fn seen(judged: &Judged<'_>, class: Class) -> String {
    let rounds = those(judged, class, Outcome::Unjudged).map(|verdict| verdict.got.count).max().unwrap_or(0);
    let plural = if rounds == 1 { "" } else { "s" };
    format!("seen in {rounds} round{plural}, not judged")
}

/// Every missed target with its rows of each class, and the causes.
fn missed(judged: &[Judged<'_>], causes: &Causes, level: &str, unexplained: bool) -> Result<String, Failure> {
    let (mut section, mut without_cause) = (String::new(), Vec::new());
    for judged in judged {
        let is_missed = |class: &Class| those(judged, *class, Outcome::Missed).next().is_some();
        let classes: Vec<Class> = Class::SHOWN.into_iter().filter(is_missed).collect();
        if classes.is_empty() {
            continue;
        }
        let target = judged.0;
        let rows = classes.iter().flat_map(|&class| those(judged, class, Outcome::Missed));
        let rows: Vec<Vec<String>> = rows.map(|verdict| row(target, verdict).split_off(1)).collect();
        let _ = write!(section, "{level}# {}\n\n{}", target.text, text::table(&HEAD[1..], &rows));
        let mut told: Vec<&Cause> = Vec::new();
        for class in classes {
            let own = causes.get(&format!("{}/{}", target.id, class.name()));
            match own.or_else(|| causes.get(target.id)) {
                Some(cause) if told.iter().any(|other| core::ptr::eq(*other, cause)) => {}
                Some(cause) => {
                    let of = if own.is_some() { format!(", {}", class.name()) } else { String::new() };
                    let Cause { cause: text, tried } = cause;
                    let _ = write!(section, "\n**Cause{of}.** {text}\n\n**Tried.** {tried}\n");
                    told.push(cause);
                }
                None => {
                    let class = text::class(class);
                    let comma = if class.is_empty() { "" } else { ", " };
                    let _ = write!(section, "\n**Cause{comma}{class}.** Not known.\n");
                    let slash = if class.is_empty() { "" } else { "/" };
                    without_cause.push(format!("'{}{slash}{class}'", target.id));
                }
            }
        }
        section.push('\n');
    }
    if !unexplained && !without_cause.is_empty() {
        return Err(Failure::Usage(format!(
            "targets are missed, and causes.json has no cause of them: write the cause and what was tried of {}",
            without_cause.join(", ")
        )));
    }
    Ok(if section.is_empty() { "None.\n\n".to_owned() } else { section })
}

/// A table per class.
fn met(judged: &[Judged<'_>], level: &str) -> String {
    let mut section = String::new();
    for class in classes(judged) {
        let rows = judged
            .iter()
            .flat_map(|judged| those(judged, class, Outcome::Met).map(|verdict| row(judged.0, verdict)));
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            continue;
        }
        let before = if section.is_empty() { "" } else { "\n" };
        let heading =
            if class == Class::Unknown { String::new() } else { format!("{level}# {}\n\n", class.name()) };
        let _ = write!(section, "{before}{heading}{}", text::table(&HEAD, &rows));
    }
    if section.is_empty() { "None.\n".to_owned() } else { section }
}

/// Targets that were measured in too few rounds of a class, with their sizes if that is so at some of them only.
fn unjudged(judged: &[Judged<'_>], level: &str) -> String {
    let mut lines = String::new();
    for class in classes(judged) {
        for judged in judged {
            let those = |outcome| those(judged, class, outcome);
            if those(Outcome::Unjudged).next().is_none() {
                continue;
            }
            let _ = write!(lines, "- {}, {}: {}", class.name(), seen(judged, class), judged.0.text);
            if those(Outcome::Met).chain(those(Outcome::Missed)).next().is_some() {
                let name =
                    |of: &Verdict<'_>| format!("{}, {}", text::test(of.own.test), text::size(of.own.size));
                let _ =
                    write!(lines, " ({})", those(Outcome::Unjudged).map(name).collect::<Vec<_>>().join("; "));
            }
            lines.push('\n');
        }
    }
    if lines.is_empty() {
        return lines;
    }
    format!("\n{level} Targets that are not judged, for fewer than {ROUNDS_MIN} rounds\n\n{lines}")
}

const HEAD: [&str; 9] = [
    "target",
    "test",
    "size",
    "where",
    "rounds",
    "superpipe",
    "compared with",
    "superpipe's figure",
    "the other",
];

fn row(target: &Target, verdict: &Verdict<'_>) -> Vec<String> {
    let Verdict { own, class, rival, got, figures: [of_own, of_rival], .. } = verdict;
    vec![
        target.text.to_owned(),
        text::test(own.test).to_owned(),
        text::size(own.size),
        text::place(*own),
        text::rounds(*class, got.count),
        text::got(target.rule, *got),
        rival.clone(),
        of_own.clone(),
        of_rival.clone(),
    ]
}
