//! A planned message of a trace. Its choices are written by their names, and read back.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use superpipe::plan::{Memory, Reason, Way};

/// A planned message: `superpipe::recorder::Step::Planned`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// bytes of the message
    pub bytes: u64,
    /// what the sender knew of its memory
    #[serde(serialize_with = "put_memory", deserialize_with = "get_memory")]
    pub memory: Memory,
    /// the way that was chosen
    #[serde(serialize_with = "put_way", deserialize_with = "get_way")]
    pub way: Way,
    /// the reason
    #[serde(serialize_with = "put_reason", deserialize_with = "get_reason")]
    pub reason: Reason,
    /// nanoseconds that were predicted
    pub predicted_ns: u64,
    /// it went in blocks instead
    pub declined: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn put_memory<S: Serializer>(memory: &Memory, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(memory.name())
}

fn get_memory<'de, D: Deserializer<'de>>(from: D) -> Result<Memory, D::Error> {
    by_name(from, &Memory::ALL, Memory::name)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn put_way<S: Serializer>(way: &Way, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(way.name())
}

fn get_way<'de, D: Deserializer<'de>>(from: D) -> Result<Way, D::Error> {
    by_name(from, &Way::ALL, Way::name)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn put_reason<S: Serializer>(reason: &Reason, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(reason.name())
}

fn get_reason<'de, D: Deserializer<'de>>(from: D) -> Result<Reason, D::Error> {
    by_name(from, &Reason::ALL, Reason::name)
}

/// Reads one of these values by its name.
fn by_name<'de, D: Deserializer<'de>, T: Copy>(
    from: D,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    let found = all.iter().copied().find(|one| name(*one) == text);
    found.ok_or_else(|| D::Error::custom("an unknown choice of a planned message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_read_back_and_no_other() {
        for memory in Memory::ALL {
            for (way, reason) in Way::ALL.into_iter().flat_map(|way| Reason::ALL.map(|reason| (way, reason)))
            {
                let planned =
                    Planned { bytes: 1 << 20, memory, way, reason, predicted_ns: 77_000, declined: true };
                let text = serde_json::to_string(&planned).unwrap();
                assert_eq!(serde_json::from_str::<Planned>(&text).unwrap(), planned, "{text}");
                let other = text.replace(way.name(), "by-air");
                assert!(serde_json::from_str::<Planned>(&other).is_err(), "{other}");
            }
        }
    }
}
