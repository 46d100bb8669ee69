//! Selection of the best of many configurations in little time.

use crate::failure::Failure;
use crate::stats::{Summary, median};

/// Configurations that are visited again: the fastest of the first sweep.
const FINALISTS: usize = 8;
/// Further visits to each of them.
const FINAL_ROUNDS: usize = 5;

/// Returns the configuration with the lowest median. Visits all once, and the fastest few again, in turn, so that
/// luck in one visit decides nothing.
///
/// # Errors
/// Those of `visit`, and [`Failure::Usage`] if there is no configuration.
pub fn find_best<C: Copy>(
    configs: &[C],
    mut visit: impl FnMut(C) -> Result<Summary, Failure>,
) -> Result<C, Failure> {
    let mut ranked = Vec::with_capacity(configs.len());
    for &config in configs {
        ranked.push((visit(config)?.p50_us, config));
    }
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    ranked.truncate(FINALISTS);
    let mut finals = vec![Vec::with_capacity(FINAL_ROUNDS); ranked.len()];
    for _ in 0..FINAL_ROUNDS {
        for (&(_, config), seen) in ranked.iter().zip(&mut finals) {
            seen.push(visit(config)?.p50_us);
        }
    }
    let best = ranked.iter().zip(&finals).min_by(|a, b| median(a.1).total_cmp(&median(b.1)));
    best.map(|(&(_, config), _)| config).ok_or_else(|| Failure::Usage("there is nothing to sweep".into()))
}

#[cfg(test)]
mod tests {
    use super::find_best;
    use crate::stats::Summary;

    #[test]
    fn one_lucky_visit_does_not_win() {
        let mut visits = [0; 3];
        let best = find_best(&[0_usize, 1, 2], |config| {
            visits[config] += 1;
            let lucky = config == 0 && visits[0] == 1;
            let ns = if lucky { 1 } else { [300, 100, 200][config] };
            Ok(Summary::new(&[ns], 1, 1))
        });
        assert_eq!(best.ok(), Some(1));
        assert!(find_best(&[0_usize; 0], |_| Ok(Summary::new(&[1], 1, 1))).is_err());
    }
}
