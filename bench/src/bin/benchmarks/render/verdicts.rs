//! The report's first sections: targets missed, met and not measured.

use core::fmt::Write;

use superpipe_bench::failure::Failure;

use super::causes::Causes;
use super::data::Measured;
use super::judge::{Verdict, judge};
use super::targets::{TARGETS, Target};
use super::text;

/// The sections. A target that is missed needs a cause, unless it may stand without.
pub(super) fn render(measured: &[Measured], causes: &Causes, unexplained: bool) -> Result<String, Failure> {
    let (mut missed, mut met, mut absent) = (String::new(), Vec::new(), String::new());
    for target in TARGETS {
        let verdicts = judge(target, measured);
        let (counted, others): (Vec<_>, Vec<_>) =
            verdicts.into_iter().partition(|verdict| verdict.decides(measured, target.part));
        let is_missed = counted.iter().any(|verdict| !verdict.met);
        if counted.is_empty() {
            let _ = writeln!(absent, "- {}", target.text);
        } else if is_missed {
            missed += &missed_target(target, &counted, &others, causes, unexplained)?;
        }
        met.extend(counted.iter().filter(|verdict| verdict.met).map(|verdict| row(target, verdict, true)));
    }
    if let Some(id) = causes.keys().find(|id| TARGETS.iter().all(|target| target.id != id.as_str())) {
        return Err(Failure::Usage(format!(
            "causes.json has a cause of '{id}', and there is no such target"
        )));
    }
    let mut page = String::from("## Missed targets\n\n");
    page += if missed.is_empty() { "None.\n\n" } else { &missed };
    page += "## Met targets\n\n";
    page += &if met.is_empty() { "None.\n".to_owned() } else { text::table(&head(true), &met) };
    if !absent.is_empty() {
        let _ = write!(page, "\n## Targets that were not measured in this run\n\n{absent}");
    }
    Ok(page)
}

fn missed_target(
    target: &Target,
    counted: &[Verdict],
    others: &[Verdict],
    causes: &Causes,
    unexplained: bool,
) -> Result<String, Failure> {
    let misses = |verdicts: &[Verdict]| -> Vec<Vec<String>> {
        verdicts.iter().filter(|verdict| !verdict.met).map(|verdict| row(target, verdict, false)).collect()
    };
    let rows = [misses(counted), misses(others)].concat();
    let mut section = format!("### {}\n\n{}\n", target.text, text::table(&head(false), &rows));
    match causes.get(target.id) {
        Some(cause) => {
            let _ = write!(section, "**Cause.** {}\n\n**What was tried.** {}\n\n", cause.cause, cause.tried);
        }
        None if unexplained => section += "**Cause.** Not known.\n\n",
        None => {
            return Err(Failure::Usage(format!(
                "the target '{}' is missed, and causes.json says nothing of it: write its cause and what was tried",
                target.id
            )));
        }
    }
    Ok(section)
}

fn head(with_target: bool) -> Vec<String> {
    let columns = ["target", "test", "size", "buffers", "cores", "superpipe", "compared with"];
    columns.iter().skip(usize::from(!with_target)).map(|&name| name.to_owned()).collect()
}

fn row(target: &Target, verdict: &Verdict, with_target: bool) -> Vec<String> {
    let cells = [
        target.text.to_owned(),
        text::test(verdict.test).to_owned(),
        text::size(verdict.bytes),
        text::memory(verdict.memory).to_owned(),
        text::rounds(verdict.state, verdict.got.count),
        text::got(target.rule, verdict.got),
        verdict.rival.clone(),
    ];
    cells.into_iter().skip(usize::from(!with_target)).collect()
}
