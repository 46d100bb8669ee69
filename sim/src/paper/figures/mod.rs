//! The figures of both papers, with their sizes in steps of 5 %. Those of Denis are from runs of the core and, beside them, from the model; those of Frey and Alonso
//! from jobs, copies and writes of their machine.

mod denis;
mod frey;
mod runs;

use core::fmt;

use super::figure::{Curve, Figure};
pub use runs::Runs;

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FigureName {
    /// Denis, Figure 1: bandwidth of registration and of copies.
    Registration,
    /// Denis, Figure 2: what registration and copies cost a message.
    Naive,
    /// Denis, Figure 4: the pipeline with its optimal chunk.
    Pipeline,
    /// Denis, Figure 6, left: the superpipeline on `graphene`.
    SuperpipelineGraphene,
    /// Denis, Figure 6, right: the superpipeline on `infini`.
    SuperpipelineInfini,
    /// Denis, Figure 7: the first message and the best one.
    FirstAndBest,
    /// Denis, section 4: the number of gaps by the size of a message. The paper has it in words.
    Gaps,
    /// Denis, section 5: an all-to-all of buffers that are never used again, as that of NAS IS, and of buffers that are. The paper has times of benchmarks.
    AllToAll,
    /// Frey and Alonso, Figure 1: what a CPU does. Theirs is of TCP.
    Load,
    /// Frey and Alonso, Figure 5: registration and deregistration.
    RegistrationCosts,
    /// Frey and Alonso, Figure 8: registration and copies, resident.
    CriticalResident,
    /// Frey and Alonso, Figure 9: registration and copies, cold.
    CriticalCold,
    /// Frey and Alonso, Figure 10: registration by four cores.
    Parallel,
    /// Frey and Alonso, Figure 11: throughput of writes, and what the CPU does.
    Writes,
}

impl FigureName {
    /// Every figure.
    pub const ALL: [Self; 14] = [
        Self::Registration,
        Self::Naive,
        Self::Pipeline,
        Self::SuperpipelineGraphene,
        Self::SuperpipelineInfini,
        Self::FirstAndBest,
        Self::Gaps,
        Self::AllToAll,
        Self::Load,
        Self::RegistrationCosts,
        Self::CriticalResident,
        Self::CriticalCold,
        Self::Parallel,
        Self::Writes,
    ];

    /// Returns the name of its files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Registration => "reg",
            Self::Naive => "fig2",
            Self::Pipeline => "fig4",
            Self::SuperpipelineGraphene => "fig6-graphene",
            Self::SuperpipelineInfini => "fig6-infini",
            Self::FirstAndBest => "fig7",
            Self::Gaps => "gaps",
            Self::AllToAll => "is",
            Self::Load => "fig1",
            Self::RegistrationCosts => "fig5",
            Self::CriticalResident => "fig8",
            Self::CriticalCold => "fig9",
            Self::Parallel => "fig10",
            Self::Writes => "fig11",
        }
    }

    /// Makes the figure, on all cores. `runs` has those of figures that were made before.
    ///
    /// # Errors
    /// The first run that fails.
    pub fn make(self, runs: &mut Runs) -> Result<Figure, String> {
        match self {
            Self::Registration => denis::registration(),
            Self::Naive => denis::naive(runs),
            Self::Pipeline => denis::pipeline(runs),
            Self::SuperpipelineGraphene => denis::superpipeline_graphene(runs),
            Self::SuperpipelineInfini => denis::superpipeline_infini(runs),
            Self::FirstAndBest => denis::first_and_best(runs),
            Self::Gaps => denis::gaps(runs),
            Self::AllToAll => denis::all_to_all(),
            Self::Load => frey::load(),
            Self::RegistrationCosts => frey::registration_costs(),
            Self::CriticalResident => frey::critical_resident(),
            Self::CriticalCold => frey::critical_cold(),
            Self::Parallel => frey::parallel(),
            Self::Writes => frey::writes(),
        }
    }
}

impl fmt::Display for FigureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns sizes in steps of 5 %, the first and the last one among them.
fn sizes([first, last]: [u64; 2]) -> Vec<u64> {
    let mut sizes = vec![first];
    let mut size = first;
    while size < last {
        size = (size + (size / 20).max(1)).min(last);
        sizes.push(size);
    }
    sizes
}

/// Returns a curve of a function.
fn curve(title: &'static str, sizes: &[u64], value: impl Fn(u64) -> f64) -> Curve {
    Curve { title, points: sizes.iter().map(|bytes| (*bytes, value(*bytes))).collect() }
}

/// Returns curves of what `measure` returns for each size, a value for each curve. On all cores.
fn measured<const N: usize>(
    titles: [&'static str; N],
    sizes: &[u64],
    measure: impl Fn(u64) -> Result<[f64; N], String> + Sync,
) -> Result<Vec<Curve>, String> {
    let longest_first: Vec<u64> = sizes.iter().rev().copied().collect();
    let mut values = crate::measured::workers::map(&longest_first, |bytes| Ok((*bytes, measure(*bytes)?)))?;
    values.reverse();
    let of_one = |(number, title): (usize, &&'static str)| Curve {
        title,
        points: values.iter().map(|(bytes, values)| (*bytes, values[number])).collect(),
    };
    Ok(titles.iter().enumerate().map(of_one).collect())
}

/// Returns MB/s.
fn bandwidth(bytes: u64, ns: f64) -> f64 {
    bytes as f64 / ns * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_steps_of_5_percent() {
        let sizes = sizes([1000, 2000]);
        assert_eq!(sizes[..3], [1000, 1050, 1102]);
        assert_eq!(sizes.last(), Some(&2000));
        assert!(sizes.windows(2).all(|pair| pair[1] > pair[0] && pair[1] * 100 <= pair[0] * 105));
    }

    #[test]
    fn measured_curves_are_in_order_of_size() {
        let curves = measured(["one", "two"], &[1, 2, 3], |bytes| Ok([bytes as f64, 10.0])).unwrap();
        assert_eq!(curves[0], curve("one", &[1, 2, 3], |bytes| bytes as f64));
        assert_eq!(curves[1], curve("two", &[1, 2, 3], |_| 10.0));
    }
}
