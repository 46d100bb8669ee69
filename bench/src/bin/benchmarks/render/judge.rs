//! Whether targets are met: a verdict per target, class of distance and size.

use super::targets::{Rival, Rule, Target};
use super::{Measured, text};
use crate::class::Class;
use crate::figures::{Series, Spread};

/// Rounds of a class without which nothing is judged in it.
pub(super) const ROUNDS_MIN: usize = 5;

/// The outcome of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Met,
    Missed,
    /// there are too few rounds
    Unjudged,
}

/// A target at one size.
pub(super) struct Verdict<'a> {
    pub(super) own: Series<'a>,
    pub(super) class: Class,
    /// the rival's title, where there is one
    pub(super) rival: String,
    /// the value that the rule limits
    pub(super) got: Spread,
    pub(super) outcome: Outcome,
    /// the figures behind it, superpipe's and the rival's
    pub(super) figures: [String; 2],
}

/// Judges a target in each class of its part.
pub(super) fn judge<'a>(target: &'a Target, measured: &'a Measured) -> Vec<Verdict<'a>> {
    let mut verdicts = Vec::new();
    let is_judged = |class: &Class| !matches!(class, Class::At(at) if !target.distances.contains(at));
    for class in measured.figures.classes().into_iter().filter(is_judged) {
        for &place in target.places {
            for &who in target.who {
                for &test in target.tests {
                    let sizes = measured.figures.sizes(test, &[place]);
                    let own = |size| Series { test, who, place, size };
                    if let Rule::StepKeeps(share) = target.rule {
                        let steps = sizes
                            .windows(2)
                            .filter_map(|pair| step(measured, class, own(pair[0]), own(pair[1]), share));
                        verdicts.extend(told_steps(steps.collect()));
                        continue;
                    }
                    let is_wanted = |size: &usize| target.sizes.is_empty() || target.sizes.contains(size);
                    let wanted = sizes.into_iter().filter(is_wanted);
                    verdicts.extend(wanted.filter_map(|size| at_size(target, measured, class, own(size))));
                }
            }
        }
    }
    verdicts
}

fn at_size<'a>(target: &Target, measured: &Measured, class: Class, own: Series<'a>) -> Option<Verdict<'a>> {
    let (Rule::TimesAtMost(rival, _) | Rule::SpeedAtLeast(rival, _) | Rule::Faster(rival)) = target.rule
    else {
        return None;
    };
    let (title, rival) = match rival {
        Rival::Own(test) => (String::new(), Series { test, ..own }),
        Rival::Named(id) => measured.fastest(class, own, |other| other.id.starts_with(id))?,
        Rival::BestPeer => measured.best_peer(class, own)?,
    };
    let (got, is_met) = match target.rule {
        Rule::TimesAtMost(_, factor) => {
            let got = measured.figures.compare(class, own, rival, |own, rival| own / rival)?;
            (got, got.median <= factor)
        }
        Rule::SpeedAtLeast(_, factor) => {
            let got = measured.speed(class, own, rival)?;
            (got, got.median >= factor)
        }
        Rule::Faster(_) => {
            let got = measured.speed(class, own, rival)?;
            (got, got.median > 1.0)
        }
        Rule::StepKeeps(_) => return None,
    };
    Some(Verdict {
        own,
        class,
        rival: title,
        got,
        outcome: outcome(class, got, is_met),
        figures: [own, rival].map(|of| figure(measured, class, of)),
    })
}

/// Returns every step that misses the target, or, if none does, the one that keeps the least of its bandwidth. A step is named by the size that it leads to.
fn told_steps(steps: Vec<Verdict<'_>>) -> Vec<Verdict<'_>> {
    let is_missed = |step: &Verdict<'_>| step.outcome == Outcome::Missed;
    if steps.iter().any(is_missed) {
        return steps.into_iter().filter(is_missed).collect();
    }
    steps.into_iter().min_by(|a, b| a.got.median.total_cmp(&b.got.median)).into_iter().collect()
}

fn step<'a>(
    measured: &Measured,
    class: Class,
    before: Series<'_>,
    after: Series<'a>,
    share: f64,
) -> Option<Verdict<'a>> {
    let growth = after.size as f64 / before.size as f64;
    let got = measured.figures.compare(class, before, after, |before, after| before / after * growth)?;
    Some(Verdict {
        own: after,
        class,
        rival: text::size(before.size),
        got,
        outcome: outcome(class, got, got.median >= share),
        figures: [after, before].map(|of| figure(measured, class, of)),
    })
}

const fn outcome(class: Class, got: Spread, is_met: bool) -> Outcome {
    match (class, is_met) {
        (Class::At(_), _) if got.count < ROUNDS_MIN => Outcome::Unjudged,
        (_, true) => Outcome::Met,
        (_, false) => Outcome::Missed,
    }
}

fn figure(measured: &Measured, class: Class, of: Series<'_>) -> String {
    let spread = measured.figures.spread(class, of);
    spread.map_or_else(String::new, |spread| text::cell(of.test, of.size, spread))
}
