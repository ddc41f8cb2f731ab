//! The mistakes that were found, each with the tokens that contain it.

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// The mistakes, in the order in which they were found.
#[derive(Default)]
pub(crate) struct Faults(Vec<(Span, Span, String)>);

impl Faults {
    /// Adds a mistake in the tokens from one span to the other.
    pub(crate) fn add(&mut self, (first, last): (Span, Span), text: String) {
        self.0.push((first, last, text));
    }

    /// Adds a mistake in one token.
    pub(crate) fn at(&mut self, span: Span, text: String) {
        self.add((span, span), text);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a `compile_error!` per mistake, and then `code`.
    pub(crate) fn with(self, code: TokenStream) -> TokenStream {
        let errors = self.0.into_iter().flat_map(|(first, last, text)| {
            let at = |mut token: TokenTree, span| {
                token.set_span(span);
                token
            };
            let colons = |spacing| TokenTree::from(Punct::new(':', spacing));
            let path = |name| TokenTree::from(Ident::new(name, first));
            let text = at(Literal::string(&text).into(), last);
            [
                at(colons(Spacing::Joint), first),
                at(colons(Spacing::Alone), first),
                path("core"),
                at(colons(Spacing::Joint), first),
                at(colons(Spacing::Alone), first),
                path("compile_error"),
                at(Punct::new('!', Spacing::Alone).into(), last),
                at(Group::new(Delimiter::Brace, text.into()).into(), last),
            ]
        });
        errors.chain(code).collect()
    }
}
