//! Options of the memory that a tool may provision for connections.

use crate::quantity;
use clap::Args;
use superpipe::fabric::shm::segments::first_segment_bytes;
use superpipe::setup::Defaults;
use superpipe::{Budget, MemoryNode, Tuning};

/// Limits of registered and of shared memory.
#[derive(Debug, Clone, Copy, Args)]
pub struct MemoryOptions {
    /// Most memory that this process registers (pins) for RDMA [default: RLIMIT_MEMLOCK, which ulimit -l shows; 1G if that is
    /// unlimited, or does not bind the process, as root's]. A connection takes about 1M, and one with --landing on-demand some pages, and the tool
    /// exits with 9 if that does not fit. What a landing buffer on demand grows by is optional: without room the transfer is slower
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes, help_heading = "Memory")]
    pub pinned_max: Option<u64>,

    /// Most shared memory of this process, which includes what its peers share with it [default: 1G]. A connection takes about 1M, and
    /// one with --landing on-demand two pages, and the tool exits with 9 if that does not fit. What a landing buffer on demand grows by is
    /// optional: without room the transfer is slower
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes, help_heading = "Memory")]
    pub shared_max: Option<u64>,

    /// Memory node (NUMA) that landing buffers and registered memory come from: that of the core that this tool runs on, of the RDMA device in
    /// use, or number N. auto leaves it to a memory policy of this process, as of numactl, if there is one; else it means core. If the node has
    /// no free memory, the nearest one is used. -v prints the node
    #[arg(long, value_name = "N|core|device|auto", default_value_t, help_heading = "Memory")]
    pub memory_node: MemoryNode,
}

/// The library's functions that set the limits, and the options for them.
const FLAGS: [(&str, &str); 2] =
    [("Budget::set_registered_max", "--pinned-max"), ("Budget::set_shared_max", "--shared-max")];

impl MemoryOptions {
    /// Sets the limits of this process.
    pub fn set(&self) {
        self.pinned_max.into_iter().for_each(Budget::set_registered_max);
        self.shared_max.into_iter().for_each(Budget::set_shared_max);
    }

    /// Returns true if `text` is the refusal of a connection for one of these limits, and that has no room for a connection with these
    /// proposals and otherwise default sizes. No peer without options of its own can connect then.
    #[must_use]
    pub fn fit_no_connection(&self, text: &str, tuning: &Tuning) -> bool {
        let proposed = Tuning { arrival: None, ..*tuning };
        let Ok(negotiated) = Defaults::SHM.negotiate(&proposed, &Tuning::default()) else { return false };
        // Over RDMA a connection takes somewhat more.
        let least_bytes = 2 * first_segment_bytes(&negotiated);
        let limits = [self.pinned_max, self.shared_max];
        is_own_refusal(text)
            && limits.into_iter().zip(FLAGS).any(|(limit, (_, flag))| {
                limit.is_some_and(|bytes| bytes < least_bytes) && text.ends_with(flag)
            })
    }
}

/// Returns a text of the library with the options in place of its functions, if it is about the limits.
#[must_use]
pub fn with_memory_flags(text: String) -> String {
    if !is_own_refusal(&text) {
        return text;
    }
    FLAGS.into_iter().fold(text, |text, (setter, flag)| text.replace(setter, flag))
}

/// Returns true if this end has no room for a connection. Such a text has no words of the peer.
fn is_own_refusal(text: &str) -> bool {
    text.starts_with("cannot provision")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSAL: &str =
        "cannot provision 1040 KiB of shared memory for a connection: or raise the limit with ";

    #[test]
    fn a_refusal_names_the_option() {
        for (setter, flag) in FLAGS {
            assert_eq!(with_memory_flags(format!("{REFUSAL}{setter}")), format!("{REFUSAL}{flag}"));
            let foreign = format!("the peer refused: {setter}");
            assert_eq!(with_memory_flags(foreign.clone()), foreign);
        }
    }

    #[test]
    fn only_the_limit_that_refused_and_is_too_small_counts() {
        let options =
            |pinned_max, shared_max| MemoryOptions { pinned_max, shared_max, memory_node: MemoryNode::Auto };
        let (defaults, shared) = (Tuning::default(), format!("{REFUSAL}--shared-max"));
        let is_fatal = |options: MemoryOptions| options.fit_no_connection(&shared, &defaults);
        assert!(is_fatal(options(None, Some(1 << 20))));
        assert!(!is_fatal(options(None, Some(2 << 20))), "the peer asked for more than the default");
        assert!(!is_fatal(options(Some(0), None)) && !is_fatal(options(Some(0), Some(2 << 20))));
        let pinned = format!("{REFUSAL}--pinned-max");
        assert!(options(Some(0), None).fit_no_connection(&pinned, &defaults));
        let small = Tuning { landing_bytes: Some(64 << 10), block_bytes: Some(1 << 10), ..defaults };
        assert!(!options(None, Some(1 << 20)).fit_no_connection(&shared, &small), "it fits these settings");
        assert!(!options(None, Some(0)).fit_no_connection("the peer refused: --shared-max", &defaults));
    }
}
