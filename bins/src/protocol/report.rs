//! TRAILER and VERDICT: the last message of each end. wire.md 8.1.

use super::{REPORT_BYTES_MAX, REPORT_HEAD_BYTES, TEXT_BYTES_MAX, Violation, harmless, word};
use std::borrow::Cow;

/// TRAILER or VERDICT, the last message of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// exit code; 0 for success
    pub code: u8,
    /// bytes that went through this end
    pub bytes: u64,
    /// their checksum
    pub checksum: u64,
    /// cause of the failure; if the code is 0, a remark for people
    pub text: String,
}

impl Report {
    /// Encodes the message. Leaves out the middle of a text that is too long: the start names what failed, and the end the cause.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let text = sanitize(shortened(&self.text).as_bytes());
        let mut bytes = Vec::with_capacity(REPORT_BYTES_MAX);
        bytes.extend([self.code, text.len().to_le_bytes()[0], 0, 0, 0, 0, 0, 0]);
        bytes.extend(self.bytes.to_le_bytes());
        bytes.extend(self.checksum.to_le_bytes());
        bytes.extend(text.bytes());
        bytes
    }

    /// Decodes the message of a peer.
    ///
    /// # Errors
    /// The first rule that the message violates.
    pub fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let (Some(head), Some(text)) = (bytes.get(..REPORT_HEAD_BYTES), bytes.get(REPORT_HEAD_BYTES..))
        else {
            return Err(Violation("sent a report that is too short"));
        };
        if usize::from(head[1]) != text.len() || text.len() > TEXT_BYTES_MAX {
            return Err(Violation("sent a report of the wrong length"));
        }
        if head[2..8].iter().any(|&byte| byte != 0) {
            return Err(Violation("sent a report whose reserved bytes are not zero"));
        }
        Ok(Self {
            code: head[0],
            bytes: word(&head[8..16]),
            checksum: word(&head[16..24]),
            text: sanitize(text),
        })
    }
}

/// Shortens a text to at most 200 bytes, by leaving out its middle.
fn shortened(text: &str) -> Cow<'_, str> {
    const GAP: &str = " ... ";
    const HEAD_BYTES: usize = 60;
    if text.len() <= TEXT_BYTES_MAX {
        return text.into();
    }
    let head = &text[..text.floor_char_boundary(HEAD_BYTES)];
    let tail = &text[text.ceil_char_boundary(text.len() - (TEXT_BYTES_MAX - HEAD_BYTES - GAP.len()))..];
    format!("{head}{GAP}{tail}").into()
}

/// Converts a text to one line of at most 200 bytes that is safe to show on a terminal: see [`one_line`](super::one_line).
#[must_use]
pub fn sanitize(text: &[u8]) -> String {
    let mut clean = String::new();
    for letter in String::from_utf8_lossy(text).chars().map(harmless) {
        if clean.len() + letter.len_utf8() > TEXT_BYTES_MAX {
            break;
        }
        clean.push(letter);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::super::one_line;
    use super::*;

    #[test]
    fn reports_round_trip_and_wrong_ones_are_rejected() {
        let report =
            Report { code: 8, bytes: 1 << 33, checksum: 0xAE8B_1486_0A79_9888, text: "no space".to_owned() };
        let bytes = report.encode();
        assert_eq!(Report::decode(&bytes), Ok(report.clone()));
        for end in 0..bytes.len() {
            assert!(Report::decode(&bytes[..end]).is_err(), "{end}");
        }
        for at in 2..8 {
            let mut bytes = bytes.clone();
            bytes[at] = 1;
            assert!(Report::decode(&bytes).is_err());
        }
        let long = Report { text: "ü".repeat(150), ..report };
        let kept = Report::decode(&long.encode()).unwrap().text;
        assert_eq!(kept, format!("{} ... {}", "ü".repeat(30), "ü".repeat(67)));
        let named = Report { text: format!("cannot write to {}: no space", "n".repeat(250)), ..long.clone() };
        let kept = Report::decode(&named.encode()).unwrap().text;
        assert!(kept.starts_with("cannot write to nnn") && kept.ends_with("nnn: no space"), "{kept}");
        let mut beyond = long.encode();
        beyond.extend(b"xx");
        beyond[1] += 2;
        assert!(Report::decode(&beyond).is_err());
    }

    #[test]
    fn a_peers_text_cannot_control_a_terminal() {
        assert_eq!(sanitize(b"disk full\n\x1b[2J\x07"), "disk full??[2J?");
        assert_eq!(sanitize("a\u{202E}b\u{9b}c".as_bytes()), "a?b?c");
        assert_eq!(sanitize(b"\xff\xfe ok"), "\u{FFFD}\u{FFFD} ok");
        let long = "ü\u{202E}\n".repeat(200);
        assert_eq!(one_line(&long), "ü??".repeat(200));
    }
}
