//! Records of one process. The server sends them to the client as JSON, which the client checks.

use super::mark::{MARKS_MAX, Mark};
use crate::protocol::Violation;
use serde::{Deserialize, Serialize};
use superpipe::Connection;

/// Limit on an encoded track, in bytes: a mark has at most 256, except the one with the text of a failure.
pub const TRACK_BYTES_MAX: usize = (MARKS_MAX + 4) * 256;

/// Records of one process for one connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Track {
    /// name of the process, which is not sent
    #[serde(skip)]
    pub name: String,
    /// process id
    pub pid: u32,
    /// records, in the order of their ends
    pub marks: Vec<Mark>,
}

impl Track {
    /// Takes the records of this end out of a connection.
    pub fn take(name: &str, connection: &mut Connection) -> Self {
        let marks = connection.take_records().map(Mark::from).collect();
        Self { name: name.to_owned(), pid: std::process::id(), marks }
    }

    /// Encodes the records for the peer.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // serializing numbers and strings cannot fail
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Decodes the records of the peer, and gives them this name.
    ///
    /// # Errors
    /// The first rule that they break.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<Self, Violation> {
        let track: Self =
            serde_json::from_slice(bytes).map_err(|_| Violation("sent records that cannot be decoded"))?;
        if track.marks.len() > MARKS_MAX {
            return Err(Violation("sent more records than a recorder holds"));
        }
        if !track.marks.iter().all(Mark::is_valid) {
            return Err(Violation("sent invalid records"));
        }
        Ok(Self { name: name.to_owned(), ..track })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::mark::{Control, MarkKind};

    fn track(what: MarkKind) -> Track {
        let most = Mark { begin_ns: u64::MAX, end_ns: u64::MAX, what };
        Track { name: "x".into(), pid: u32::MAX, marks: vec![most; MARKS_MAX] }
    }

    #[test]
    fn a_full_track_fits_and_comes_back() {
        let most = u64::MAX;
        for what in [
            MarkKind::CopyOut { sequence: most, block: most, bytes: u32::MAX },
            MarkKind::ReceiveBegin { transfer: most, length: Some(most) },
            MarkKind::ControlIn { kind: Control::Reject },
            MarkKind::SendBegin { transfer: 0, length: None },
        ] {
            let track = track(what);
            let bytes = track.encode();
            assert!(bytes.len() <= TRACK_BYTES_MAX, "{}", bytes.len());
            assert_eq!(Track::decode("x", &bytes), Ok(track));
        }
    }

    #[test]
    fn impossible_records_are_refused() {
        let good = r#"{"pid":1,"marks":[{"begin":2,"end":3,"what":{"ack-in":{"blocks":4}}}]}"#;
        assert!(Track::decode("x", good.as_bytes()).is_ok());
        let cannot_be = Err(Violation("sent invalid records"));
        let unreadable = Err(Violation("sent records that cannot be decoded"));
        assert_eq!(Track::decode("x", good.replace(":2", ":4").as_bytes()), cannot_be);
        for (from, to) in
            [("ack-in", "ack"), ("blocks", "block"), ("pid", "name"), (":4", ":-4"), ("]}", "]")]
        {
            assert_eq!(Track::decode("x", good.replace(from, to).as_bytes()), unreadable, "{to}");
        }
        let mut long = track(MarkKind::Failed { why: "x".repeat(300) });
        long.marks.truncate(1);
        assert_eq!(Track::decode("x", &long.encode()), cannot_be);
        let mut many = track(MarkKind::AckIn { blocks: 1 });
        many.marks.push(many.marks[0].clone());
        assert_eq!(
            Track::decode("x", &many.encode()),
            Err(Violation("sent more records than a recorder holds"))
        );
    }
}
