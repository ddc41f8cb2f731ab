//! Checking a declaration: names, types that are listed twice, ends, messages, attributes.
//!
//! Each mistake is replaced by what it most likely means, so that it causes only one error.

use proc_macro::{Delimiter, Group, Ident, Punct, Spacing, TokenStream, TokenTree};

use crate::declaration::{Attribute, Declaration, Edge, End, Form, Processor};
use crate::fault::Faults;
use crate::tokens::{is_arrow, is_colon, is_group, is_punct, is_word, span_of, split, text_of};

/// The attributes of edges: the name, the form, and whether it has a value.
const ATTRIBUTES: &[(&str, &str, bool)] = &[
    ("cap", "cap = N", true),
    ("burst", "burst = N", true),
    ("unbounded", "unbounded", false),
    ("ceiling", "ceiling = N", true),
    ("reply", "reply = Request", true),
    ("lanes", "lanes = N", true),
    ("route", "route = any", true),
    ("rings", "rings", false),
    ("keep", "keep", false),
    ("high", "high", false),
    ("bytes", "bytes = N", true),
    ("reject", "reject", false),
    ("drop_newest", "drop_newest", false),
    ("drop_oldest", "drop_oldest", false),
    ("latest", "latest", false),
    ("sends", "sends = (Message, ..)", true),
];

/// The attributes that say what becomes of a message without room. Without one its sender waits.
const RULES: &[&str] = &[
    "unbounded",
    "reply",
    "reject",
    "drop_newest",
    "drop_oldest",
    "latest",
];

/// Checks `graph`, and repairs or removes what is wrong.
pub(crate) fn check(graph: &mut Declaration, faults: &mut Faults) {
    check_processors(graph, faults);
    let Declaration {
        processors, edges, ..
    } = graph;
    for edge in edges.iter_mut() {
        check_ends(edge, processors, faults);
        check_message(edge, faults);
        check_attributes(edge, faults);
        check_rules(edge, faults);
    }
    edges.retain(|edge| edge.ends.is_some());
    check_twice(edges, faults);
    for index in 0..edges.len() {
        edges[index].request = request(edges, index, faults);
        check_sends(edges, processors, index, faults);
    }
    if faults.is_empty() {
        check_reached(processors, edges, faults);
    }
}

/// Reports processors to which no edges lead, from ingress or from a source.
fn check_reached(processors: &[Processor], edges: &[Edge], faults: &mut Faults) {
    let mut reached: Vec<bool> = processors.iter().map(|one| one.is_source).collect();
    spread(&mut reached, edges, true);
    while reached.contains(&false) {
        // One that is reached by those alone that it reaches: of a circle, the first one.
        let first = (0..processors.len()).find(|&at| {
            let mut from_here = vec![false; processors.len()];
            from_here[at] = true;
            spread(&mut from_here, edges, false);
            !reached[at]
                && edges.iter().all(|edge| match edge.ends {
                    Some((End::Processor(from), End::Processor(to))) => {
                        !from_here[to]
                            || from_here[from]
                            || reached[from]
                            || !leads(edges, from, at)
                    }
                    _ => true,
                })
        });
        let at = first.unwrap_or_else(|| reached.iter().position(|is| !is).unwrap_or(0));
        let Processor { name, written, .. } = &processors[at];
        let text = format!(
            "no message reaches the processor `{name}`, from ingress or from a source: write \
             `{name}: {written} [source]` if it begins by itself, by a ping, a timer or \
             `on_start`, or declare an edge that leads to it"
        );
        faults.at(name.span(), text);
        reached[at] = true;
        spread(&mut reached, edges, true);
    }
}

/// Returns `true` if edges lead from one processor to another.
fn leads(edges: &[Edge], from: usize, to: usize) -> bool {
    let mut reached = vec![false; from.max(to) + 1];
    reached[from] = true;
    spread(&mut reached, edges, false);
    reached[to]
}

/// Marks what edges lead to from the marked processors, and from ingress if `by_ingress`.
fn spread(reached: &mut Vec<bool>, edges: &[Edge], by_ingress: bool) {
    let mut changed = true;
    while changed {
        changed = false;
        for edge in edges {
            let (is_from, to) = match edge.ends {
                Some((End::Processor(from), End::Processor(to))) => {
                    (reached.get(from).copied().unwrap_or(false), to)
                }
                Some((End::Ingress, End::Processor(to))) => (by_ingress, to),
                _ => continue,
            };
            if reached.len() <= to {
                reached.resize(to + 1, false);
            }
            changed |= is_from && !reached[to];
            reached[to] |= is_from;
        }
    }
}

/// Checks that the attributes of an edge go together, and removes those that do not.
fn check_rules(edge: &mut Edge, faults: &mut Faults) {
    let (text, ends) = (edge.text(), edge.ends);
    let names: Vec<String> = (edge.attributes.iter())
        .map(|attribute| attribute.name.to_string())
        .collect();
    let rule = names.iter().find(|name| RULES.contains(&name.as_str()));
    let rule = rule.cloned().unwrap_or_default();
    let never_waits = ["reject", "drop_newest", "drop_oldest", "latest"].contains(&rule.as_str());
    let has_bytes = names.iter().any(|name| name == "bytes");
    let has_locks = has_bytes || ["drop_oldest", "latest"].contains(&rule.as_str());
    let is_from_ingress = matches!(ends, Some((End::Ingress, _)));
    let is_to_egress = matches!(ends, Some((_, End::Egress)));
    let wrong = |name: &str| -> Option<String> {
        let is_rule = RULES.contains(&name);
        if is_rule && name != rule {
            return Some(format!("is both `{rule}` and `{name}`: keep one"));
        }
        let what = match name {
            _ if is_rule && never_waits && is_from_ingress => {
                "comes from outside, where a sender chooses by `try_send` and `send`: remove it"
            }
            "drop_oldest" | "latest" if is_to_egress => {
                "leads to a lane, from which only its receiver takes: write `drop_newest`"
            }
            "high" if is_to_egress => {
                "leads to `egress`, and `high` orders the inputs of a processor: remove it"
            }
            "bytes" if is_to_egress || is_from_ingress => {
                "leads from or to the outside, where `cap` is the bound: remove it"
            }
            "bytes" if ["unbounded", "reply", "latest"].contains(&rule.as_str()) => {
                return Some(format!(
                    "is `{rule}`, which `bytes` does not bound: remove one"
                ));
            }
            "burst" if never_waits => {
                return Some(format!(
                    "is `{rule}` and never waits for room for a `burst`: remove it"
                ));
            }
            "cap" if rule == "latest" => "is `latest`, which keeps one message: remove `cap`",
            "route" if never_waits => {
                return Some(format!(
                    "is `{rule}`, and `route = any` waits for room: remove one"
                ));
            }
            "rings" if is_to_egress || is_from_ingress => {
                "leads from or to the outside, which has queues of its own: remove it"
            }
            "rings" if has_locks => "has a queue under a lock for each pair: remove it",
            "rings" if rule == "reply" => {
                "is a `reply`, whose queues go by the number of pairs: remove it"
            }
            "route" if has_bytes => "has `bytes`, which goes by receiver: remove `route`",
            _ => return None,
        };
        Some(what.to_owned())
    };
    edge.attributes.retain(|attribute| {
        let wrong = wrong(&attribute.name.to_string());
        if let Some(what) = &wrong {
            let text = format!("the edge `{text}` {what}");
            faults.at(attribute.name.span(), text);
        }
        wrong.is_none()
    });
}

fn check_processors(graph: &mut Declaration, faults: &mut Faults) {
    let mut known: Vec<Processor> = Vec::new();
    for mut processor in graph.processors.drain(..) {
        check_owned(&mut processor, faults);
        let name = processor.name.to_string();
        let text = if ["ingress", "egress"].contains(&name.as_str()) {
            format!("`{name}` is outside of the graph: give the processor another name")
        } else if known.iter().any(|other| other.name.to_string() == name) {
            format!("two processors have the name `{name}`: rename one")
        } else if let Some(other) = known
            .iter()
            .find(|other| other.end.text == processor.end.text)
        {
            let (end, other) = (&processor.end.text, &other.name);
            faults.add(
                processor.end.span,
                format!(
                    "`{end}` is the type of the processor `{other}` already, and a type is one \
                     processor: write `{name}: (struct {}({end}))`, which declares the new type",
                    camel(&name)
                ),
            );
            continue;
        } else {
            known.push(processor);
            continue;
        };
        faults.at(processor.name.span(), text);
    }
    graph.processors = known;
}

/// Reports a processor that borrows its data.
fn check_owned(processor: &mut Processor, faults: &mut Faults) {
    let written = match &mut processor.form {
        Form::New(old) => old,
        Form::One | Form::Many(_) => &mut processor.end,
    };
    let tokens: Vec<TokenTree> = written.tokens.clone().into_iter().collect();
    if is_borrowed(&tokens) {
        let text = format!(
            "processors own their data, and `{}` borrows it: write a type without references, or \
             with `Arc`",
            written.text
        );
        faults.add(written.span, text);
        written.tokens = with_static(&tokens);
    }
}

/// Returns a type with `'static` in place of its lifetimes.
fn with_static(tokens: &[TokenTree]) -> TokenStream {
    let mut result: Vec<TokenTree> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let lifetime = Ident::new("static", token.span());
        match token {
            TokenTree::Ident(_) if index > 0 && is_punct(tokens.get(index - 1), '\'') => {
                result.push(lifetime.into());
            }
            TokenTree::Punct(punct)
                if punct.as_char() == '&' && !is_punct(tokens.get(index + 1), '\'') =>
            {
                let quote = Punct::new('\'', Spacing::Joint);
                result.extend([token.clone(), quote.into(), lifetime.into()]);
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                result.push(Group::new(group.delimiter(), with_static(&inner)).into());
            }
            _ => result.push(token.clone()),
        }
    }
    result.into_iter().collect()
}

/// Returns `second_reader` as `SecondReader`.
fn camel(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect()
}

fn check_ends(edge: &mut Edge, processors: &[Processor], faults: &mut Faults) {
    let from = end_of(&mut edge.from, processors, faults);
    let to = end_of(&mut edge.to, processors, faults);
    let (Some(from), Some(to)) = (from, to) else {
        return;
    };
    let text = match (from, to) {
        (End::Egress, _) => "`egress` receives and does not send: write `from -> egress: ..`",
        (_, End::Ingress) => "`ingress` sends and does not receive: write `ingress -> to: ..`",
        (End::Ingress, End::Egress) => "an edge leads from or to a processor",
        _ => {
            edge.ends = Some((from, to));
            return;
        }
    };
    faults.add((edge.from.span(), edge.to.span()), text.to_owned());
}

/// Finds the end that an edge names. A name that is probably meant replaces a wrong one.
fn end_of(name: &mut Ident, processors: &[Processor], faults: &mut Faults) -> Option<End> {
    let written = name.to_string();
    let find = |name: &str| match name {
        "ingress" => Some(End::Ingress),
        "egress" => Some(End::Egress),
        _ => {
            let mut names = processors
                .iter()
                .map(|processor| processor.name.to_string());
            names.position(|known| known == name).map(End::Processor)
        }
    };
    if let Some(end) = find(&written) {
        return Some(end);
    }
    let is_type =
        |processor: &&Processor| processor.end.text.rsplit("::").next() == Some(written.as_str());
    let names = processors
        .iter()
        .map(|processor| processor.name.to_string());
    let mut names = names.chain(["ingress".to_owned(), "egress".to_owned()]);
    let meant = if let Some(processor) = processors.iter().find(is_type) {
        let meant = processor.name.to_string();
        let text =
            format!("`{written}` is a type, and an edge names the processor: write `{meant}`");
        faults.at(name.span(), text);
        meant
    } else if let Some(meant) = names.find(|known| is_near(known, &written)) {
        let text = format!("no processor is named `{written}`: write `{meant}`");
        faults.at(name.span(), text);
        meant
    } else {
        let text = format!(
            "no processor is named `{written}`: list it as `{written}: {}` under `processors`",
            camel(&written)
        );
        faults.at(name.span(), text);
        return None;
    };
    *name = Ident::new(&meant, name.span());
    find(&meant)
}

/// Returns `true` if two names differ in case, or in one letter that is missing, added, replaced
/// or swapped with the next.
fn is_near(one: &str, other: &str) -> bool {
    let one: Vec<char> = one.to_lowercase().chars().collect();
    let other: Vec<char> = other.to_lowercase().chars().collect();
    if one == other {
        return true;
    }
    if one.len().max(other.len()) < 4 {
        return false;
    }
    let same = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let rest = |name: &[char], skip: usize| name.get(same + skip..).map(<[char]>::to_vec);
    let is_rest = |skips: (usize, usize)| matches!((rest(&one, skips.0), rest(&other, skips.1)), (Some(a), Some(b)) if a == b);
    let is_swapped = matches!(
        (&one[same..], &other[same..]),
        ([a, b, one @ ..], [c, d, other @ ..]) if (a, b) == (d, c) && one == other
    );
    is_rest((1, 0)) || is_rest((0, 1)) || is_rest((1, 1)) || is_swapped
}

/// A message is moved to another thread and outlives the handler that sent it.
fn check_message(edge: &mut Edge, faults: &mut Faults) {
    let tokens: Vec<TokenTree> = edge.message.tokens.clone().into_iter().collect();
    if !is_borrowed(&tokens) {
        return;
    }
    let owned = match edge.message.text.as_str() {
        "&str" | "&String" => Some("String".to_owned()),
        "&Path" | "&PathBuf" => Some("PathBuf".to_owned()),
        text => text
            .strip_prefix("&[")
            .map(|rest| format!("Vec<{}>", &rest[..rest.len() - 1])),
    };
    let (written, from, to) = (&edge.message.text, &edge.from, &edge.to);
    let text = match &owned {
        Some(owned) => format!(
            "messages own their data, and `{written}` borrows it: write \
             `{from} -> {to}: {owned};`"
        ),
        None => format!(
            "messages own their data, and `{written}` borrows it: write a type without \
             references, or with `Arc`"
        ),
    };
    faults.add(edge.message.span, text);
    match owned.and_then(|owned| owned.parse::<TokenStream>().ok()) {
        Some(tokens) => {
            let owned: Vec<TokenTree> = tokens.clone().into_iter().collect();
            (edge.message.tokens, edge.message.text) = (tokens, text_of(&owned));
        }
        None => edge.ends = None,
    }
}

/// Returns `true` if a type has a reference, or a lifetime, that is not `'static`.
fn is_borrowed(tokens: &[TokenTree]) -> bool {
    tokens.iter().enumerate().any(|(index, token)| match token {
        TokenTree::Punct(punct) if punct.as_char() == '&' => {
            // The result of a function may borrow from its arguments.
            let is_of_result = (0..index).any(|at| is_arrow(tokens, at));
            !is_of_result && !is_punct(tokens.get(index + 1), '\'')
        }
        TokenTree::Punct(punct) if punct.as_char() == '\'' => {
            let is_declared = is_word(tokens.first(), "for")
                || tokens.iter().any(|token| is_word(Some(token), "for"));
            !is_word(tokens.get(index + 1), "static") && !is_declared
        }
        TokenTree::Group(group) => {
            // Pointers to functions name lifetimes of arguments.
            let is_of_function = index > 0
                && ["fn", "Fn", "FnMut", "FnOnce"]
                    .iter()
                    .any(|word| is_word(tokens.get(index - 1), word));
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            // In braces is a constant.
            let is_constant = group.delimiter() == Delimiter::Brace;
            !is_of_function && !is_constant && is_borrowed(&inner)
        }
        _ => false,
    })
}

fn check_attributes(edge: &mut Edge, faults: &mut Faults) {
    let text = edge.text();
    let mut known: Vec<Attribute> = Vec::new();
    for attribute in edge.attributes.drain(..) {
        let (name, span) = (attribute.name.to_string(), attribute.name.span());
        let found = ATTRIBUTES.iter().find(|(known, ..)| *known == name);
        let Some(&(_, form, has_value)) = found else {
            let forms = ATTRIBUTES.iter().map(|(_, form, _)| format!("`{form}`"));
            let forms: Vec<String> = forms.collect();
            let text = format!(
                "unknown attribute `{name}` of the edge `{text}`: there are {}",
                forms.join(", ")
            );
            faults.at(span, text);
            continue;
        };
        let value = text_of(&attribute.value);
        let is_formed = has_value != attribute.value.is_empty()
            && (name != "route" || value == "any")
            && (name != "sends"
                || (attribute.value.len() == 1
                    && is_group(attribute.value.first(), Delimiter::Parenthesis)));
        if !is_formed {
            faults.at(span, format!("write `{form}`"));
        } else if known.iter().any(|other| other.name.to_string() == name) {
            faults.at(
                span,
                format!("the edge `{text}` has `{name}` twice: keep one"),
            );
        } else {
            known.push(attribute);
        }
    }
    edge.attributes = known;
}

/// Reports edges that are declared twice, and removes all but the first.
fn check_twice(edges: &mut Vec<Edge>, faults: &mut Faults) {
    let mut known: Vec<Edge> = Vec::new();
    for edge in edges.drain(..) {
        let is_same =
            |other: &Edge| other.ends == edge.ends && other.message.text == edge.message.text;
        if known.iter().any(is_same) {
            let text = format!("the edge `{}` is declared twice: remove one", edge.text());
            faults.add(edge.span(), text);
        } else {
            known.push(edge);
        }
    }
    *edges = known;
}

/// Finds the edge of the requests that an edge answers.
fn request(edges: &mut [Edge], index: usize, faults: &mut Faults) -> Option<usize> {
    let edge = &edges[index];
    let attribute = edge.attribute("reply")?;
    let (text, (from, to)) = (text_of(&attribute.value), edge.ends?);
    let is_request = |other: &Edge| other.ends == Some((to, from)) && other.message.text == text;
    let found = edges.iter().position(is_request);
    for (name, why) in [
        ("bytes", "credit bounds requests"),
        ("rings", "the queues of requests go by the number of pairs"),
    ] {
        if found.is_some_and(|at| edges[at].attribute(name).is_some()) {
            let text =
                format!("`reply = {text}` answers an edge with `{name}`: {why}, remove `{name}`");
            faults.add(span_of(&attribute.value), text);
        }
    }
    if found.is_none() {
        let text = format!(
            "`reply = {text}` answers an edge that is not declared: write `{} -> {}: {text};` too",
            edge.to, edge.from
        );
        faults.add(span_of(&attribute.value), text);
        let attributes = &mut edges[index].attributes;
        attributes.retain(|attribute| attribute.name.to_string() != "reply");
    }
    found
}

/// The entries of `sends`: the receiver, where one is named, and the message.
pub(crate) fn sends_of(attribute: &Attribute) -> Vec<(Option<Ident>, Vec<TokenTree>)> {
    let Some(TokenTree::Group(group)) = attribute.value.first() else {
        return Vec::new();
    };
    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
    let entry = |entry: &[TokenTree]| match entry {
        [TokenTree::Ident(to), _, message @ ..] if is_colon(entry, 1) => {
            (Some(to.clone()), message.to_vec())
        }
        _ => (None, entry.to_vec()),
    };
    split(&inner, ',').into_iter().map(entry).collect()
}

/// Checks that each entry of `sends` is an edge that leaves the receiver.
fn check_sends(edges: &mut [Edge], processors: &[Processor], index: usize, faults: &mut Faults) {
    let edge = &edges[index];
    let (Some(attribute), Some((_, end))) = (edge.attribute("sends"), edge.ends) else {
        return;
    };
    let mut is_wrong = false;
    for (to, message) in sends_of(attribute) {
        let text = text_of(&message);
        let mut to = to;
        let receiver = match &mut to {
            Some(to) => {
                let found = end_of(to, processors, faults);
                is_wrong |= found.is_none();
                let Some(found) = found else { continue };
                Some(found)
            }
            None => None,
        };
        let is_named = |other: &Edge| {
            let ends = other.ends;
            ends.is_some_and(|(from, to)| from == end && receiver.is_none_or(|end| end == to))
                && other.message.text == text
        };
        if !edges.iter().any(is_named) {
            is_wrong = true;
            let (name, to) = (&edge.to, to.map_or("to".to_owned(), |to| to.to_string()));
            let text = format!(
                "`sends` lists `{text}`, and no such edge leaves `{name}`: write \
                 `{name} -> {to}: {text};` too"
            );
            faults.add(span_of(&message), text);
        }
    }
    if is_wrong {
        let attributes = &mut edges[index].attributes;
        attributes.retain(|attribute| attribute.name.to_string() != "sends");
    }
}
