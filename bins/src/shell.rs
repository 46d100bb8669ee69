//! Shell quoting, for commands that a user can paste.

/// Quotes a word for a shell, if it needs quotes.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/:._-+@%,=".contains(letter);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}
