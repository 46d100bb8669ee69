//! Parts that both tables have: the rule, the line of waiting, and the names of the columns.

use core::fmt;

/// Columns of a table with their widths.
pub(super) struct Columns<const N: usize>(pub [(&'static str, usize); N]);

impl<const N: usize> Columns<N> {
    /// Returns a rule as wide as the table.
    pub(super) fn rule(&self) -> String {
        "-".repeat(self.0.iter().map(|(_, width)| width + 1).sum::<usize>() - 1)
    }

    /// Writes the names over their columns.
    pub(super) fn write_names(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, width)) in self.0.into_iter().enumerate() {
            write!(f, "{}{name:>width$}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Writes how both ends wait, and on which cores.
pub(super) fn write_waiting(
    f: &mut fmt::Formatter<'_>,
    wait: &str,
    [core, peer_core]: [Option<u32>; 2],
) -> fmt::Result {
    let name = |core: Option<u32>| core.map_or_else(|| "none".to_owned(), |core| core.to_string());
    write!(f, " waiting     {wait}; core {} here, {} at the server", name(core), name(peer_core))
}
