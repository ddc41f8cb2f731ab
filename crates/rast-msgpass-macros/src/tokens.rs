//! Tokens: what they are, where a type ends, and their text.

use proc_macro::{Delimiter, Spacing, Span, TokenTree};

pub(crate) fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

pub(crate) fn is_ident(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Ident(_)))
}

pub(crate) fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident.to_string() == word)
}

pub(crate) fn is_group(token: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}

/// Returns `true` if a single colon is at `index`, not one of `::`.
pub(crate) fn is_colon(tokens: &[TokenTree], index: usize) -> bool {
    let is_joint = |token: Option<&TokenTree>| {
        matches!(token, Some(TokenTree::Punct(punct))
            if punct.as_char() == ':' && punct.spacing() == Spacing::Joint)
    };
    is_punct(tokens.get(index), ':')
        && !(is_joint(tokens.get(index)) && is_punct(tokens.get(index + 1), ':'))
        && !(index > 0 && is_joint(tokens.get(index - 1)))
}

/// Returns `true` if `->` is at `index`.
pub(crate) fn is_arrow(tokens: &[TokenTree], index: usize) -> bool {
    is_punct(tokens.get(index), '-') && is_punct(tokens.get(index + 1), '>')
}

/// Returns the first and the last span.
pub(crate) fn span_of(tokens: &[TokenTree]) -> (Span, Span) {
    match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => (first.span(), last.span()),
        _ => (Span::call_site(), Span::call_site()),
    }
}

/// Returns the index of the first token from `start` on that is in no angle brackets and that
/// `ends` accepts, or the number of tokens.
pub(crate) fn find(
    tokens: &[TokenTree],
    start: usize,
    mut ends: impl FnMut(usize) -> bool,
) -> usize {
    let mut depth = 0_u32;
    for index in start..tokens.len() {
        if depth == 0 && ends(index) {
            return index;
        }
        if is_punct(tokens.get(index), '<') {
            depth += 1;
        } else if is_punct(tokens.get(index), '>') && !(index > 0 && is_arrow(tokens, index - 1)) {
            depth = depth.saturating_sub(1);
        }
    }
    tokens.len()
}

/// Splits at signs that are in no angle brackets.
pub(crate) fn split(tokens: &[TokenTree], sign: char) -> Vec<&[TokenTree]> {
    let (mut parts, mut start) = (Vec::new(), 0);
    while start < tokens.len() {
        let end = find(tokens, start, |index| is_punct(tokens.get(index), sign));
        parts.push(&tokens[start..end]);
        start = end + 1;
    }
    parts
}

/// Returns `true` if a type can end with the token at `index`.
pub(crate) fn ends_type(tokens: &[TokenTree], index: usize) -> bool {
    match &tokens[index] {
        TokenTree::Ident(ident) => {
            let is_lifetime = index > 0 && is_punct(tokens.get(index - 1), '\'');
            !is_lifetime && !["mut", "const", "dyn"].contains(&ident.to_string().as_str())
        }
        TokenTree::Group(_) => true,
        TokenTree::Punct(punct) => match punct.as_char() {
            '>' => !(index > 0 && is_arrow(tokens, index - 1)),
            '!' | '_' => true,
            _ => false,
        },
        TokenTree::Literal(_) => false,
    }
}

/// Returns the tokens as text, in one form whatever spaces were written.
pub(crate) fn text_of(tokens: &[TokenTree]) -> String {
    let mut text = String::new();
    for (index, token) in tokens.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| &tokens[before]);
        let is_after_word = matches!(before, Some(TokenTree::Ident(_) | TokenTree::Literal(_)));
        match token {
            TokenTree::Ident(_) | TokenTree::Literal(_) => {
                if is_after_word {
                    text.push(' ');
                }
                text += &token.to_string();
            }
            TokenTree::Group(group) => {
                let is_array_after_word = is_after_word && !ends_type(tokens, index - 1);
                if is_array_after_word {
                    text.push(' ');
                }
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                text += open;
                text += &text_of(&inner);
                text += close;
            }
            TokenTree::Punct(punct) => {
                let is_arrow_end = index > 0 && is_arrow(tokens, index - 1);
                let sign = punct.as_char();
                if matches!(sign, '+' | '=') || is_arrow(tokens, index) {
                    text.push(' ');
                }
                if sign == '\'' && is_after_word {
                    text.push(' ');
                }
                text.push(sign);
                if matches!(sign, '+' | '=' | ',' | ';') || is_arrow_end || is_colon(tokens, index)
                {
                    text.push(' ');
                }
            }
        }
    }
    text
}
