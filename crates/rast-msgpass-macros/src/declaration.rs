//! A graph as it is declared.

use proc_macro::{Ident, Span, TokenStream, TokenTree};

/// What `graph!` declares.
pub(crate) struct Declaration {
    /// The path of rast-msgpass.
    pub(crate) krate: TokenStream,
    /// Attributes of the graph's type.
    pub(crate) metas: TokenStream,
    pub(crate) visibility: TokenStream,
    pub(crate) name: Ident,
    pub(crate) processors: Vec<Processor>,
    pub(crate) edges: Vec<Edge>,
}

/// A type as written.
#[derive(Clone)]
pub(crate) struct Type {
    pub(crate) tokens: TokenStream,
    /// The tokens in one form, whatever spaces were written.
    pub(crate) text: String,
    pub(crate) span: (Span, Span),
}

/// `name: Type`, `name: [Type; 4]` or `name: (struct New(Type))`, and perhaps `[source]`.
pub(crate) struct Processor {
    pub(crate) name: Ident,
    /// What follows `name:`, without `[source]`.
    pub(crate) written: String,
    /// It begins by itself.
    pub(crate) is_source: bool,
    /// The type that is the end of edges.
    pub(crate) end: Type,
    pub(crate) form: Form,
}

pub(crate) enum Form {
    One,
    Many(Count),
    /// The newtype is written here, around this type.
    New(Type),
}

/// The number of replicas.
pub(crate) enum Count {
    /// `[Type; 4]`.
    Exactly(TokenStream),
    /// `[Type; _]`.
    Any,
    /// `[Type; 2..=8]`.
    Between(TokenStream, TokenStream),
}

/// `from -> to: Message [attributes];`.
pub(crate) struct Edge {
    pub(crate) from: Ident,
    pub(crate) to: Ident,
    pub(crate) message: Type,
    pub(crate) attributes: Vec<Attribute>,
    /// In order: the indices of the ends, once they are known.
    pub(crate) ends: Option<(End, End)>,
    /// The edge of the requests, where `reply` names one.
    pub(crate) request: Option<usize>,
}

/// An end of an edge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Ingress,
    Egress,
    Processor(usize),
}

/// `name` or `name = value`.
pub(crate) struct Attribute {
    pub(crate) name: Ident,
    pub(crate) value: Vec<TokenTree>,
}

impl Edge {
    /// Returns the edge as it is written, without its attributes.
    pub(crate) fn text(&self) -> String {
        format!("{} -> {}: {}", self.from, self.to, self.message.text)
    }

    pub(crate) fn span(&self) -> (Span, Span) {
        (self.from.span(), self.message.span.1)
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&Attribute> {
        let mut attributes = self.attributes.iter();
        attributes.find(|attribute| attribute.name.to_string() == name)
    }
}
