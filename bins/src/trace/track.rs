//! What one process recorded, and how it tells the other end: as JSON, which is checked there.

use super::mark::{MARKS_MAX, Mark};
use crate::protocol::Broken;
use serde::{Deserialize, Serialize};
use superpipe::Connection;

/// The most bytes of a track as it crosses: a mark has 256 at most, but for the one that tells why a connection failed.
pub const TRACK_BYTES_MAX: usize = (MARKS_MAX + 4) * 256;

/// What one process recorded of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Track {
    /// what the process is called, which does not cross
    #[serde(skip)]
    pub name: String,
    /// its number
    pub pid: u32,
    /// what it recorded, in the order in which it was over
    pub marks: Vec<Mark>,
}

impl Track {
    /// What was recorded at this end of a connection: takes it out.
    pub fn take(name: &str, connection: &mut Connection) -> Self {
        let marks = connection.take_records().map(Mark::from).collect();
        Self { name: name.to_owned(), pid: std::process::id(), marks }
    }

    /// As it crosses.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // numbers and names only: that cannot fail
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What the peer sent, which is called so here.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<Self, Broken> {
        let track: Self =
            serde_json::from_slice(bytes).map_err(|_| Broken("sent records that cannot be read"))?;
        if track.marks.len() > MARKS_MAX {
            return Err(Broken("sent more records than a recorder holds"));
        }
        if !track.marks.iter().all(Mark::is_sound) {
            return Err(Broken("sent records that cannot be"));
        }
        Ok(Self { name: name.to_owned(), ..track })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::mark::{Control, What};

    fn track(what: What) -> Track {
        let most = Mark { begin_ns: u64::MAX, end_ns: u64::MAX, what };
        Track { name: "x".into(), pid: u32::MAX, marks: vec![most; MARKS_MAX] }
    }

    #[test]
    fn a_full_track_fits_and_comes_back() {
        let most = u64::MAX;
        for what in [
            What::CopyOut { sequence: most, block: most, bytes: u32::MAX },
            What::ReceiveBegin { transfer: most, length: Some(most) },
            What::ControlIn { kind: Control::Reject },
            What::SendBegin { transfer: 0, length: None },
        ] {
            let track = track(what);
            let bytes = track.encode();
            assert!(bytes.len() <= TRACK_BYTES_MAX, "{}", bytes.len());
            assert_eq!(Track::decode("x", &bytes), Ok(track));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = r#"{"pid":1,"marks":[{"begin":2,"end":3,"what":{"ack-in":{"blocks":4}}}]}"#;
        assert!(Track::decode("x", good.as_bytes()).is_ok());
        let cannot_be = Err(Broken("sent records that cannot be"));
        let unreadable = Err(Broken("sent records that cannot be read"));
        assert_eq!(Track::decode("x", good.replace(":2", ":4").as_bytes()), cannot_be);
        for (from, to) in
            [("ack-in", "ack"), ("blocks", "block"), ("pid", "name"), (":4", ":-4"), ("]}", "]")]
        {
            assert_eq!(Track::decode("x", good.replace(from, to).as_bytes()), unreadable, "{to}");
        }
        let mut long = track(What::Failed { why: "x".repeat(300) });
        long.marks.truncate(1);
        assert_eq!(Track::decode("x", &long.encode()), cannot_be);
        let mut many = track(What::AckIn { blocks: 1 });
        many.marks.push(many.marks[0].clone());
        assert_eq!(
            Track::decode("x", &many.encode()),
            Err(Broken("sent more records than a recorder holds"))
        );
    }
}
