//! The class of a round: where the two cores were, by the library's probe and its limits.

use serde::{Deserialize, Serialize};
use superpipe_bench::probe::Distance;

const MIXED: &str = "mixed";
const UNKNOWN: &str = "unknown";

/// Where the two cores were during a round. Rounds of different classes are never mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub(crate) enum Class {
    /// at this distance, before and after each visit
    At(Distance),
    /// the distance changed
    Mixed,
    /// it was not probed
    Unknown,
}

impl Class {
    /// Those whose figures are shown, in the order of the page.
    pub(crate) const SHOWN: [Self; 4] =
        [Self::At(Distance::Near), Self::At(Distance::Apart), Self::At(Distance::Far), Self::Unknown];

    /// The name in figures, causes and file names.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::At(distance) => distance.name(),
            Self::Mixed => MIXED,
            Self::Unknown => UNKNOWN,
        }
    }

    /// Returns the class of a round that saw these distances, in nanoseconds of 8 bytes.
    pub(crate) fn of(least_ns: f64, most_ns: f64) -> Self {
        let [least, most] = [least_ns, most_ns].map(Distance::of);
        if least == most { Self::At(least) } else { Self::Mixed }
    }
}

impl From<Class> for &'static str {
    fn from(class: Class) -> Self {
        class.name()
    }
}

impl TryFrom<String> for Class {
    type Error = String;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let all = Self::SHOWN.into_iter().chain([Self::Mixed]);
        let found = all.into_iter().find(|class| class.name() == name);
        found.ok_or_else(|| format!("'{name}' is no distance: near, apart, far, mixed or unknown"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Distance};

    #[test]
    fn a_round_has_one_class_only_if_nothing_changed() {
        assert_eq!(Class::of(30.0, 54.9), Class::At(Distance::Near));
        assert_eq!(Class::of(55.0, 149.0), Class::At(Distance::Apart));
        assert_eq!(Class::of(190.0, 230.0), Class::At(Distance::Far));
        assert_eq!([Class::of(54.0, 56.0), Class::of(30.0, 200.0)], [Class::Mixed; 2]);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for class in Class::SHOWN.into_iter().chain([Class::Mixed]) {
            let text = serde_json::to_string(&class).unwrap();
            assert_eq!(serde_json::from_str::<Class>(&text).unwrap(), class);
        }
        let error = serde_json::from_str::<Class>("\"same-cluster\"").unwrap_err().to_string();
        assert!(error.contains("'same-cluster' is no distance: near, apart"), "{error}");
    }
}
