//! Writing code: a text, in which placeholders become tokens of the user.

use proc_macro::{Group, Span, TokenStream, TokenTree};

/// Parses `text`, and replaces each name in `parts` by its tokens.
///
/// The tokens of the user keep their spans. The others are located at `at`, so an error about them
/// points to an entry of the declaration, not to all of it.
///
/// # Panics
///
/// If `text` is not valid Rust, which is a bug of this crate.
pub(crate) fn quote(text: &str, at: Span, parts: &[(&str, TokenStream)]) -> TokenStream {
    let parsed: TokenStream = text.parse().expect("a template consists of Rust tokens");
    fill(parsed, Span::call_site().located_at(at), parts)
}

fn fill(tokens: TokenStream, span: Span, parts: &[(&str, TokenStream)]) -> TokenStream {
    let token = |mut token: TokenTree| {
        if let TokenTree::Ident(ident) = &token {
            let name = ident.to_string();
            if let Some((_, tokens)) = parts.iter().find(|(part, _)| *part == name) {
                return tokens.clone();
            }
        }
        if let TokenTree::Group(group) = &token {
            let filled = fill(group.stream(), span, parts);
            token = Group::new(group.delimiter(), filled).into();
        }
        token.set_span(span);
        token.into()
    };
    tokens.into_iter().map(token).collect()
}

/// Returns the tokens with their meaning, located at `at`.
pub(crate) fn located(tokens: TokenStream, at: Span) -> TokenStream {
    let token = |mut token: TokenTree| {
        let span = token.span().located_at(at);
        if let TokenTree::Group(group) = &token {
            token = Group::new(group.delimiter(), located(group.stream(), at)).into();
        }
        token.set_span(span);
        token
    };
    tokens.into_iter().map(token).collect()
}
