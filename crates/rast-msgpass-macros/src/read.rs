//! Reading a declaration.
//!
//! A missing or wrong separator is reported and taken for the right one. An entry that cannot be
//! read is reported and left out.

use proc_macro::{Delimiter, Group, Ident, TokenStream, TokenTree};

use crate::declaration::{Attribute, Count, Declaration, Edge, Form, Processor, Type};
use crate::fault::Faults;
use crate::tokens::{
    ends_type, find, is_arrow, is_colon, is_group, is_ident, is_punct, is_word, span_of, split,
    text_of,
};

/// The form of a whole declaration.
const FORM: &str =
    "expected `graph Name { processors { name: Type } edges { from -> to: Message; } }`";

/// Reads `(path) attributes visibility graph Name { processors { .. } edges { .. } }`.
pub(crate) fn read(input: TokenStream, faults: &mut Faults) -> Option<Declaration> {
    let mut tokens = input.into_iter();
    let Some(TokenTree::Group(krate)) = tokens.next() else {
        panic!("`graph!` of rast-msgpass passes its path first");
    };
    let tokens: Vec<TokenTree> = tokens.collect();
    let keyword = find(&tokens, 0, |index| is_word(tokens.get(index), "graph"));
    let start = attributes_end(&tokens[..keyword], 0);
    if is_ident(tokens.get(keyword + 1)) && is_punct(tokens.get(keyword + 2), '<') {
        let after = &tokens[keyword + 2..];
        let end = find(after, 0, |at| is_group(after.get(at), Delimiter::Brace));
        let text = format!(
            "a graph has no parameters: write `graph {}`, and give its processors and messages \
             types without parameters of the graph, such as `Vec<u8>`",
            tokens[keyword + 1],
        );
        faults.add(span_of(&after[..end]), text);
        return None;
    }
    let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) =
        (tokens.get(keyword + 1), tokens.get(keyword + 2))
    else {
        faults.add(span_of(&tokens), FORM.to_owned());
        return None;
    };
    let stream = |tokens: &[TokenTree]| tokens.iter().cloned().collect::<TokenStream>();
    let mut declaration = Declaration {
        krate: krate.stream(),
        metas: stream(&tokens[..start]),
        visibility: stream(&tokens[start..keyword]),
        name: name.clone(),
        processors: Vec::new(),
        edges: Vec::new(),
    };
    if let Some(token) = tokens.get(keyword + 3) {
        faults.at(
            token.span(),
            "a declaration ends with its braces".to_owned(),
        );
    }
    let body: Vec<TokenTree> = body.stream().into_iter().collect();
    let processors = section(&body, 0, "processors", faults)?;
    let edges = section(&body, 2, "edges", faults)?;
    if let Some(token) = body.get(4) {
        let text = "expected nothing after `edges { .. }`";
        faults.at(token.span(), text.to_owned());
    }
    let processors: Vec<TokenTree> = processors.stream().into_iter().collect();
    declaration.processors = read_processors(&processors, faults);
    if processors.is_empty() {
        let text = "a graph needs a processor: write `name: Type`";
        faults.at(body[1].span(), text.to_owned());
    }
    let edges: Vec<TokenTree> = edges.stream().into_iter().collect();
    declaration.edges = read_edges(&edges, faults);
    Some(declaration)
}

fn section<'a>(
    body: &'a [TokenTree],
    at: usize,
    name: &str,
    faults: &mut Faults,
) -> Option<&'a Group> {
    match (body.get(at), body.get(at + 1)) {
        (Some(TokenTree::Ident(word)), Some(TokenTree::Group(group)))
            if word.to_string() == name && group.delimiter() == Delimiter::Brace =>
        {
            Some(group)
        }
        (found, _) => {
            let span = found
                .or(body.last())
                .map_or_else(|| span_of(body).0, TokenTree::span);
            faults.at(span, format!("expected `{name} {{ .. }}`"));
            None
        }
    }
}

/// Returns the index after the attributes, documentation for instance, that begin at `start`.
fn attributes_end(tokens: &[TokenTree], mut start: usize) -> usize {
    while is_punct(tokens.get(start), '#') && is_group(tokens.get(start + 1), Delimiter::Bracket) {
        start += 2;
    }
    start
}

/// As `attributes_end`, for entries, which have no other attributes than documentation.
fn skip_docs(tokens: &[TokenTree], start: usize, faults: &mut Faults) -> usize {
    let end = attributes_end(tokens, start);
    for token in &tokens[start..end] {
        if let TokenTree::Group(group) = token {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            if !is_word(inner.first(), "doc") {
                let text = "an entry has no attributes other than documentation comments";
                faults.at(group.span(), text.to_owned());
            }
        }
    }
    end
}

fn type_of(tokens: &[TokenTree]) -> Type {
    Type {
        tokens: tokens.iter().cloned().collect(),
        text: text_of(tokens),
        span: span_of(tokens),
    }
}

fn read_processors(tokens: &[TokenTree], faults: &mut Faults) -> Vec<Processor> {
    let mut processors = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let start = skip_docs(tokens, at, faults);
        let begins = |index: usize| {
            index > start + 2
                && ends_type(tokens, index - 1)
                && (is_punct(tokens.get(index), '#')
                    || (is_ident(tokens.get(index)) && is_colon(tokens, index + 1)))
        };
        let end = find(tokens, start, |index| {
            is_punct(tokens.get(index), ',') || is_punct(tokens.get(index), ';') || begins(index)
        });
        let entry = &tokens[start..end];
        at = end;
        if end < tokens.len() {
            if is_punct(tokens.get(end), ',') {
                at += 1;
            } else if is_punct(tokens.get(end), ';') {
                at += 1;
                let text = "processors are separated by `,`: write `,` here";
                faults.at(tokens[end].span(), text.to_owned());
            } else {
                let text = format!("write `,` after the processor `{}`", text_of(&entry[..1]));
                faults.at(tokens[end - 1].span(), text);
            }
        }
        processors.extend(read_processor(entry, faults));
    }
    processors
}

fn read_processor(entry: &[TokenTree], faults: &mut Faults) -> Option<Processor> {
    let (Some(TokenTree::Ident(name)), true) = (entry.first(), is_colon(entry, 1)) else {
        let text = "expected a processor: `name: Type`, `name: [Type; 4]` or \
                    `name: (struct New(Type))`";
        faults.add(span_of(entry), text.to_owned());
        return None;
    };
    let (written, is_source) = read_source(name, &entry[2..], faults);
    let (form, end) = match written {
        [] => {
            faults.at(
                entry[1].span(),
                format!("write the type of `{name}` after `:`"),
            );
            return None;
        }
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::Bracket => {
            read_replicas(name, group, faults)?
        }
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let Some((new, old)) = read_newtype(&inner) else {
                let text = format!("expected `{name}: (struct New(Type))`");
                faults.at(group.span(), text);
                return None;
            };
            (Form::New(old), new)
        }
        _ if is_word(written.first(), "struct") => {
            let text = text_of(written);
            let text = format!("write the newtype in parentheses: `{name}: ({text})`");
            faults.add(span_of(written), text);
            let (new, old) = read_newtype(written)?;
            (Form::New(old), new)
        }
        _ => (Form::One, type_of(written)),
    };
    Some(Processor {
        name: name.clone(),
        written: text_of(written),
        is_source,
        end,
        form,
    })
}

/// Takes `[source]` off the end of an entry; returns whether it was there.
fn read_source<'a>(
    name: &Ident,
    written: &'a [TokenTree],
    faults: &mut Faults,
) -> (&'a [TokenTree], bool) {
    let [before @ .., TokenTree::Group(group)] = written else {
        return (written, false);
    };
    let is_after_type = !before.is_empty() && ends_type(before, before.len() - 1);
    if group.delimiter() != Delimiter::Bracket || !is_after_type {
        return (written, false);
    }
    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
    let is_source = is_word(inner.first(), "source");
    if inner.len() != 1 || !is_source {
        let text = format!("write `{name}: {} [source]`", text_of(before));
        faults.at(group.span(), text);
    }
    (before, is_source)
}

/// Reads `struct New(Old)`.
fn read_newtype(tokens: &[TokenTree]) -> Option<(Type, Type)> {
    match tokens {
        [_, new @ TokenTree::Ident(_), TokenTree::Group(old)]
            if is_word(tokens.first(), "struct") && !old.stream().is_empty() =>
        {
            let old: Vec<TokenTree> = old.stream().into_iter().collect();
            Some((type_of(core::slice::from_ref(new)), type_of(&old)))
        }
        _ => None,
    }
}

/// Reads `[Type; count]`.
fn read_replicas(name: &Ident, group: &Group, faults: &mut Faults) -> Option<(Form, Type)> {
    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
    let end = find(&inner, 0, |index| is_punct(inner.get(index), ';'));
    let (written, count) = (&inner[..end], inner.get(end + 1..).unwrap_or_default());
    if written.is_empty() || count.is_empty() {
        let shown = match written.is_empty() {
            true => "Type".to_owned(),
            false => text_of(written),
        };
        let text = format!(
            "write how many replicas `{name}` has: `[{shown}; 4]`, or `[{shown}; _]` for as many as \
             the builder gets"
        );
        faults.at(group.span(), text);
        return None;
    }
    let is_range = |index: &usize| {
        (0..3).all(|sign| is_punct(count.get(index + sign), if sign < 2 { '.' } else { '=' }))
    };
    let stream = |tokens: &[TokenTree]| tokens.iter().cloned().collect::<TokenStream>();
    let is_any = is_word(count.first(), "_") || is_punct(count.first(), '_');
    let range = (0..count.len()).find(is_range);
    let has_dots = |two: &[TokenTree]| two.iter().all(|dot| is_punct(Some(dot), '.'));
    let count = match range {
        _ if count.len() == 1 && is_any => Count::Any,
        None if !count.windows(2).any(has_dots) => Count::Exactly(stream(count)),
        Some(at) if at > 0 && at + 3 < count.len() => {
            Count::Between(stream(&count[..at]), stream(&count[at + 3..]))
        }
        _ => {
            let text = "write the range with both ends: `2..=8`";
            faults.add(span_of(count), text.to_owned());
            Count::Any
        }
    };
    Some((Form::Many(count), type_of(written)))
}

fn read_edges(tokens: &[TokenTree], faults: &mut Faults) -> Vec<Edge> {
    let mut edges = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let start = skip_docs(tokens, at, faults);
        let begins = |index: usize| {
            index > start + 4
                && ends_type(tokens, index - 1)
                && (is_punct(tokens.get(index), '#')
                    || (is_ident(tokens.get(index))
                        && is_arrow(tokens, index + 1)
                        && is_ident(tokens.get(index + 3))))
        };
        let end = find(tokens, start, |index| {
            is_punct(tokens.get(index), ';') || is_punct(tokens.get(index), ',') || begins(index)
        });
        let edge = read_edge(&tokens[start..end], faults);
        let text = edge.as_ref().map_or_else(
            || "the edge".to_owned(),
            |edge| format!("the edge `{}`", edge.text()),
        );
        at = end + 1;
        if is_punct(tokens.get(end), ',') {
            let text = format!("{text} ends with `;`, not with `,`");
            faults.at(tokens[end].span(), text);
        } else if !is_punct(tokens.get(end), ';') && end > start {
            at = end;
            faults.at(tokens[end - 1].span(), format!("write `;` after {text}"));
        }
        edges.extend(edge);
    }
    edges
}

fn read_edge(entry: &[TokenTree], faults: &mut Faults) -> Option<Edge> {
    let (Some(TokenTree::Ident(from)), true) = (entry.first(), is_arrow(entry, 1)) else {
        let text = "expected an edge: `from -> to: Message;`";
        faults.add(span_of(entry), text.to_owned());
        return None;
    };
    let Some(TokenTree::Ident(to)) = entry.get(3) else {
        let text = format!("write the receiver of the edge: `{from} -> to: Message;`");
        faults.add(span_of(&entry[..3]), text);
        return None;
    };
    let mut end = entry.len();
    if end > 6 && is_group(entry.last(), Delimiter::Bracket) && ends_type(entry, end - 2) {
        end -= 1;
    }
    let written = entry.get(5..end).unwrap_or_default();
    if !is_colon(entry, 4) || written.is_empty() {
        let text = format!("write the type of the message: `{from} -> {to}: Message;`");
        faults.add(span_of(entry), text);
        return None;
    }
    let mut attributes = Vec::new();
    if let (true, Some(TokenTree::Group(group))) = (end < entry.len(), entry.last()) {
        let inner: Vec<TokenTree> = group.stream().into_iter().collect();
        for attribute in split(&inner, ',') {
            let value = attribute.get(2..).unwrap_or_default();
            match attribute {
                [TokenTree::Ident(name)] => attributes.push(Attribute {
                    name: name.clone(),
                    value: Vec::new(),
                }),
                [TokenTree::Ident(name), sign, _, ..] if is_punct(Some(sign), '=') => {
                    attributes.push(Attribute {
                        name: name.clone(),
                        value: value.to_vec(),
                    });
                }
                _ => {
                    let span = match attribute.is_empty() {
                        true => (group.span(), group.span()),
                        false => span_of(attribute),
                    };
                    let text = "expected an attribute: `name` or `name = value`";
                    faults.add(span, text.to_owned());
                }
            }
        }
    }
    Some(Edge {
        from: from.clone(),
        to: to.clone(),
        message: type_of(written),
        attributes,
        ends: None,
        request: None,
    })
}
