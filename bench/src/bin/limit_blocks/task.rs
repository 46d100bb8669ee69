//! What a client asks of its server, in the words of a mailbox command.

use superpipe_bench::mailbox::COMMAND_WORDS;
use superpipe_bench::slices::SlicePlan;

/// Who sends when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pattern {
    /// a message forth, then one back
    Pingpong,
    /// messages one way, as many as there is room for
    #[value(alias = "streaming")]
    Stream,
}

impl Pattern {
    /// The name that the command line and the JSON use.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pingpong => "pingpong",
            Self::Stream => "stream",
        }
    }

    /// How many ways a timed message goes.
    pub(crate) const fn legs(self) -> u64 {
        match self {
            Self::Pingpong => 2,
            Self::Stream => 1,
        }
    }
}

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// receive messages numbered from `number`, compare them, and in ping-pong answer with numbered ones
    Check {
        /// how many
        count: u64,
        /// the first's number
        number: u64,
    },
    /// take part in a plan
    Time(SlicePlan),
}

impl Task {
    /// The command's words, with the configuration's index.
    pub(crate) const fn to_words(self, config_index: usize) -> [u64; COMMAND_WORDS] {
        match self {
            Self::Check { count, number } => [0, config_index as u64, count, number, 0, 0],
            Self::Time(plan) => [1, config_index as u64, plan.messages, plan.slices, 0, 0],
        }
    }

    /// The command that `to_words` made, and the configuration's index.
    pub(crate) fn from_words(words: [u64; COMMAND_WORDS]) -> (Self, usize) {
        let [kind, config_index, a, b, ..] = words;
        let task = match kind {
            0 => Self::Check { count: a, number: b },
            _ => Self::Time(SlicePlan { messages: a, slices: b }),
        };
        (task, usize::try_from(config_index).unwrap_or(usize::MAX))
    }
}

/// The number of the answer to message `number`: another one, so that an echo of the wrong buffer shows.
pub(crate) const fn answer_to(number: u64) -> u64 {
    !number
}

#[cfg(test)]
mod tests {
    use super::{SlicePlan, Task};

    #[test]
    fn tasks_survive_the_mailbox() {
        let plan = SlicePlan { messages: 5, slices: 6 };
        for task in [Task::Check { count: 3, number: u64::MAX }, Task::Time(plan)] {
            assert_eq!(Task::from_words(task.to_words(42)), (task, 42));
        }
    }
}
