//! Checks of what a sender sent.

use crate::command_line::options::Receive;
use crate::connection::peer;
use crate::exit::{Code, Failure};
use crate::files::distinct::{self, NamedFile};
use crate::files::preserve::Attributes;
use crate::protocol::{Report, Role, Violation};
use std::path::Path;
use superpipe::io::{Digest, DigestKind};

/// Violation of a sender without --preserve, in words that follow "the peer ".
const NO_ATTRIBUTES: &str = "sent no name, mode and time; start rsend with --preserve";

/// Returns the attributes that --preserve needs.
///
/// # Errors
/// The sender sent none.
pub(super) fn required(attributes: Option<&Attributes>) -> Result<&Attributes, Failure> {
    attributes.ok_or_else(|| peer::failure_of_violation(Violation(NO_ATTRIBUTES)))
}

/// Checks that the file that a sender names is none that another argument names.
///
/// # Errors
/// It is one.
pub(super) fn check_distinct(options: &Receive, path: &Path) -> Result<(), Failure> {
    let checked = distinct::check(&options.transfer.files(NamedFile::written("the sender's file", path, 1)));
    checked.map_err(|failure| Failure::new(Code::LocalIo, failure.text))
}

/// Checks that the received data are those that the sender sent and announced.
///
/// # Errors
/// The first difference, or the failure that the sender reports.
pub(super) fn compare(trailer: &Report, announced: Option<u64>, digest: &Digest) -> Result<(), Failure> {
    if trailer.code != 0 {
        return Err(peer::failure_of_report(trailer, Role::Sender));
    }
    let (here, there) = ((digest.bytes(), digest.value()), (trailer.bytes, trailer.checksum));
    if here == there {
        return match announced {
            Some(announced) if announced != here.0 => Err(not_as_announced(announced, here.0)),
            _ => Ok(()),
        };
    }
    let kind = digest.kind();
    if kind == DigestKind::None && here.0 == there.0 {
        return Err(peer::failure_of_violation(Violation("sent a checksum, and none was negotiated")));
    }
    let text = if here.0 == there.0 {
        format!(
            "the received data differ from the sent data: {kind} {:x} here and {:x} at the sender",
            here.1, there.1
        )
    } else {
        format!(
            "the received data differ from the sent data: {} bytes here and {} at the sender",
            here.0, there.0
        )
    };
    Err(Failure::new(Code::Integrity, text + "; send it again"))
}

/// Returns the failure for other bytes than were announced.
pub(super) fn not_as_announced(announced: u64, received: u64) -> Failure {
    let text = format!(
        "the received data differ from the announced length: {announced} bytes announced, {received} received; send it again"
    );
    Failure::new(Code::LocalIo, text)
}
