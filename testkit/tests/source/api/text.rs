//! Tokens as people write them.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// The text of a piece of source.
pub(crate) fn of(tokens: impl ToTokens) -> String {
    let mut text = String::new();
    write(&mut text, tokens.into_token_stream());
    text
}

fn write(text: &mut String, tokens: TokenStream) {
    let mut is_joint = false;
    for token in tokens {
        let (piece, next_is_joint) = match &token {
            TokenTree::Group(group) => (String::new(), group.delimiter() == Delimiter::None),
            TokenTree::Punct(punct) => (punct.to_string(), punct.spacing() == Spacing::Joint),
            token => (token.to_string(), false),
        };
        if let TokenTree::Group(group) = token {
            let (open, close) = match group.delimiter() {
                Delimiter::Parenthesis => ("(", ")"),
                Delimiter::Bracket => ("[", "]"),
                Delimiter::Brace => (" { ", " }"),
                Delimiter::None => ("", ""),
            };
            if needs_space(text, open) && open != " { " {
                text.push(' ');
            }
            text.push_str(open);
            write(text, group.stream());
            while text.ends_with(", ") || text.ends_with(',') {
                text.pop();
            }
            text.push_str(close);
        } else {
            if !is_joint && needs_space(text, &piece) {
                text.push(' ');
            }
            text.push_str(&piece);
        }
        is_joint = next_is_joint;
    }
}

/// Returns true if a space comes between what is written and the next piece.
fn needs_space(text: &str, next: &str) -> bool {
    let Some(last) = text.chars().last() else { return false };
    let first = next.chars().next().unwrap_or(' ');
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '"';
    if text.ends_with("->") || text.ends_with("=>") {
        return true;
    }
    let last_word = text.rsplit(|c| !is_word(c)).next().unwrap_or_default();
    if ["mut", "dyn", "impl", "const"].contains(&last_word) {
        return !matches!(first, ',' | '>' | ')');
    }
    match (last, first) {
        (' ' | '(' | '[' | '<' | '&' | '#' | '!' | '\'' | '?', _) => false,
        (':', ':') => false,
        (':', _) => !text.ends_with("::"),
        (_, ',' | ';' | ':' | ')' | ']' | '>' | '.' | '?') => false,
        ('.', _) => false,
        (',' | ';' | '=' | '+' | '|', _) | (_, '=' | '+' | '|' | '-') => true,
        (last, '(' | '[') => !is_word(last) && last != '>',
        (last, '<') => !is_word(last) && last != ':',
        (_, '&') => last != '&',
        ('>', _) => true,
        (last, first) => is_word(last) && (is_word(first) || first == '\'' || first == '#'),
    }
}
