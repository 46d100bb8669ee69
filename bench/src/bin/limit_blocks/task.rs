//! Tasks of the server, in the words of a command.

use superpipe_bench::channel::COMMAND_WORDS;
use superpipe_bench::slices::SlicePlan;

/// The order of sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pattern {
    /// one message forth, then one back
    Pingpong,
    /// messages one way, without pauses while the ring has room
    #[value(alias = "streaming")]
    Stream,
}

impl Pattern {
    /// The name on the command line and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pingpong => "pingpong",
            Self::Stream => "stream",
        }
    }

    /// Ways of a message that is timed.
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
        /// number of messages
        count: u64,
        /// the first's number
        number: u64,
    },
    /// take part in a plan
    Time(SlicePlan),
    /// answer a probe of the distance
    Probe,
}

impl Task {
    /// Returns the command's words, with the configuration's index.
    pub(crate) const fn to_words(self, config_index: usize) -> [u64; COMMAND_WORDS] {
        match self {
            Self::Check { count, number } => [0, config_index as u64, count, number, 0, 0],
            Self::Time(plan) => [1, config_index as u64, plan.messages, plan.slices, 0, 0],
            Self::Probe => [2, config_index as u64, 0, 0, 0, 0],
        }
    }

    /// Returns the command that `to_words` made, and the configuration's index.
    pub(crate) fn from_words(words: [u64; COMMAND_WORDS]) -> (Self, usize) {
        let [kind, config_index, a, b, ..] = words;
        let task = match kind {
            0 => Self::Check { count: a, number: b },
            1 => Self::Time(SlicePlan { messages: a, slices: b }),
            _ => Self::Probe,
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
    fn tasks_survive_the_channel() {
        let plan = SlicePlan { messages: 5, slices: 6 };
        for task in [Task::Check { count: 3, number: u64::MAX }, Task::Time(plan), Task::Probe] {
            assert_eq!(Task::from_words(task.to_words(42)), (task, 42));
        }
    }
}
