//! Writing the types, tables and implementations of a graph.
//!
//! Each processor and each edge has its index as a literal, so nothing is looked up and nothing
//! recurses. A hidden module has a type with the name of each processor, because the compiler
//! prints that name in the hint for a missing edge.

use proc_macro::{Literal, Span, TokenStream, TokenTree};

use crate::check::sends_of;
use crate::declaration::{Count, Declaration, Edge, End, Form, Processor};
use crate::quote::{located, quote};
use crate::tokens::text_of;

/// Writes the graph. `is_whole`: nothing was removed, so the checks of all tables apply.
pub(crate) fn emit(graph: &Declaration, is_whole: bool) -> TokenStream {
    let writer = Writer { graph };
    let at = graph.name.span();
    let each = |write: &dyn Fn(usize) -> TokenStream, count: usize| -> TokenStream {
        (0..count).map(write).collect()
    };
    let (processors, edges) = (graph.processors.len(), graph.edges.len());
    let check = match is_whole {
        true => writer.quote("const _: () = __rast::__private::check::<__G>();", at, &[]),
        false => TokenStream::new(),
    };
    let parts = [
        ("__metas", graph.metas.clone()),
        ("__newtypes", each(&|at| writer.newtype(at), processors)),
        ("__names", each(&|at| writer.name(at), processors)),
        ("__infos", each(&|at| writer.info(at), processors)),
        ("__edges", each(&|at| writer.edge_info(at), edges)),
        ("__wires", each(&|at| writer.wire(at), edges)),
        ("__nodes", each(&|at| writer.node(at), processors)),
        ("__edge_impls", each(&|at| writer.edge(at), edges)),
        ("__arguments", each(&|at| writer.argument(at), processors)),
        ("__given", each(&|at| writer.given(at), processors)),
        ("__name_text", text(&graph.name.to_string())),
        ("__check", check),
    ];
    writer.quote(GRAPH, at, &parts)
}

const GRAPH: &str = r#"
    __metas
    #[derive(Clone, Copy, Debug)]
    __vis struct __G;

    __newtypes

    const _: () = {
        #[allow(non_camel_case_types, dead_code, missing_docs, unreachable_pub)]
        mod __ends_of {
            __names
            pub enum ingress {}
            pub enum egress {}
        }

        impl __rast::Graph for __G {
            const NAME: &'static str = __name_text;
            const PROCESSORS: &'static [__rast::ProcessorInfo] = &[__infos];
            const EDGES: &'static [__rast::EdgeInfo] = &[__edges];
        }

        impl __rast::Wired for __G {
            fn wire(wiring: &mut __rast::__private::Wiring) {
                let _ = &wiring;
                __wires
            }
        }

        __nodes
        impl __rast::Node<__rast::Ingress> for __G {
            type Name = __ends_of::ingress;
            const END: __rast::End = __rast::End::Ingress;
            const ID: usize = usize::MAX - 1;
            const TYPE_NAME: &'static str = "ingress";
        }
        impl __rast::Node<__rast::Egress> for __G {
            type Name = __ends_of::egress;
            const END: __rast::End = __rast::End::Egress;
            const ID: usize = usize::MAX;
            const TYPE_NAME: &'static str = "egress";
        }
        impl __rast::Single<__rast::Egress> for __G {}

        __edge_impls

        __check

        #[allow(dead_code)]
        impl __G {
            /// The processors, in the order of the declaration.
            __vis const PROCESSORS: &'static [__rast::ProcessorInfo] =
                <__G as __rast::Graph>::PROCESSORS;
            /// The edges, in the order of the declaration.
            __vis const EDGES: &'static [__rast::EdgeInfo] = <__G as __rast::Graph>::EDGES;

            /// Begins to build the graph from its processors.
            #[allow(clippy::too_many_arguments)]
            __vis fn builder(__arguments) -> __rast::Builder<__G> {
                let mut given = __rast::__private::Given::<__G>::new();
                __given
                __rast::Builder::new(given)
            }

            /// Returns the indices of the edges that enter a processor.
            __vis fn incoming(processor: usize) -> impl ::core::iter::Iterator<Item = usize> {
                __rast::__private::incoming::<__G>(processor)
            }

            /// Returns the indices of the edges that leave a processor.
            __vis fn outgoing(processor: usize) -> impl ::core::iter::Iterator<Item = usize> {
                __rast::__private::outgoing::<__G>(processor)
            }

            /// Returns the indices of the edges between two processors, in either direction.
            __vis fn connecting(
                one: usize,
                other: usize,
            ) -> impl ::core::iter::Iterator<Item = usize> {
                __rast::__private::connecting::<__G>(one, other)
            }

            /// Draws the graph in the language of Graphviz.
            __vis fn dot() -> __rast::__private::String {
                __rast::__private::dot::<__G>()
            }

            /// Draws the graph in the language of Mermaid.
            __vis fn mermaid() -> __rast::__private::String {
                __rast::__private::mermaid::<__G>()
            }
        }
    };
"#;

fn text(text: &str) -> TokenStream {
    TokenTree::from(Literal::string(text)).into()
}

fn number(number: usize) -> TokenStream {
    TokenTree::from(Literal::usize_suffixed(number)).into()
}

struct Writer<'a> {
    graph: &'a Declaration,
}

impl Writer<'_> {
    /// Fills a template, which may also name the crate, the graph and its visibility.
    fn quote(&self, template: &str, at: Span, parts: &[(&str, TokenStream)]) -> TokenStream {
        let mut all = parts.to_vec();
        all.push(("__rast", self.graph.krate.clone()));
        all.push(("__G", TokenTree::from(self.graph.name.clone()).into()));
        all.push(("__vis", self.graph.visibility.clone()));
        quote(template, at, &all)
    }

    fn processor(&self, at: usize) -> &Processor {
        &self.graph.processors[at]
    }

    /// The type of an end, where an edge names it.
    fn end(&self, end: End, at: Span) -> TokenStream {
        match end {
            End::Ingress => self.quote("__rast::Ingress", at, &[]),
            End::Egress => self.quote("__rast::Egress", at, &[]),
            End::Processor(index) => located(self.processor(index).end.tokens.clone(), at),
        }
    }

    fn newtype(&self, at: usize) -> TokenStream {
        let processor = self.processor(at);
        let Form::New(old) = &processor.form else {
            return TokenStream::new();
        };
        let about = format!(
            "Another `{}`: the processor `{}` of [`{}`].",
            old.text, processor.name, self.graph.name
        );
        self.quote(
            "#[doc = __about]
            __vis struct __new(pub __old);

            impl ::core::ops::Deref for __new {
                type Target = __old;
                fn deref(&self) -> &__old {
                    &self.0
                }
            }

            impl ::core::ops::DerefMut for __new {
                fn deref_mut(&mut self) -> &mut __old {
                    &mut self.0
                }
            }",
            processor.name.span(),
            &[
                ("__about", text(&about)),
                ("__new", processor.end.tokens.clone()),
                ("__old", old.tokens.clone()),
            ],
        )
    }

    fn name(&self, at: usize) -> TokenStream {
        let name = &self.processor(at).name;
        let tokens = TokenTree::from(name.clone()).into();
        self.quote("pub enum __name {}", name.span(), &[("__name", tokens)])
    }

    fn info(&self, at: usize) -> TokenStream {
        let processor = self.processor(at);
        let span = processor.name.span();
        let (replicas, is_replicated) = match &processor.form {
            Form::One | Form::New(_) => (self.quote("(1, 1)", span, &[]), "false"),
            Form::Many(count) => {
                let replicas = match count {
                    Count::Any => self.quote("(1, usize::MAX)", span, &[]),
                    Count::Exactly(count) => self.quote(
                        "__rast::__private::exactly(__n)",
                        span,
                        &[("__n", count.clone())],
                    ),
                    Count::Between(least, most) => self.quote(
                        "(__least, __most)",
                        span,
                        &[("__least", least.clone()), ("__most", most.clone())],
                    ),
                };
                (replicas, "true")
            }
        };
        let is_source = processor.is_source;
        self.quote(
            &format!(
                "__rast::__private::processor_info(
                    __name, __type, __replicas, {is_replicated}, {is_source}
                ),"
            ),
            span,
            &[
                ("__name", text(&processor.name.to_string())),
                ("__type", text(&processor.end.text)),
                ("__replicas", replicas),
            ],
        )
    }

    fn node(&self, at: usize) -> TokenStream {
        let processor = self.processor(at);
        let kind = match processor.form {
            Form::Many(_) => "Replicated",
            Form::One | Form::New(_) => "Single",
        };
        self.quote(
            &format!(
                "impl __rast::Node<__end> for __G {{
                    type Name = __ends_of::__name;
                    const END: __rast::End = __rast::End::Processor(__at);
                    const ID: usize = __at;
                    const TYPE_NAME: &'static str = __type;
                }}
                impl __rast::{kind}<__end> for __G {{}}"
            ),
            processor.name.span(),
            &[
                ("__end", processor.end.tokens.clone()),
                ("__name", TokenTree::from(processor.name.clone()).into()),
                ("__at", number(at)),
                ("__type", text(&processor.end.text)),
            ],
        )
    }

    fn argument(&self, at: usize) -> TokenStream {
        let processor = self.processor(at);
        let template = match processor.form {
            Form::Many(_) => "__name: impl ::core::iter::IntoIterator<Item = __end>,",
            Form::One | Form::New(_) => "__name: __end,",
        };
        self.quote(template, processor.name.span(), &self.named(processor))
    }

    fn given(&self, at: usize) -> TokenStream {
        let processor = self.processor(at);
        let template = match processor.form {
            Form::Many(_) => "given.many::<__end>(::core::iter::IntoIterator::into_iter(__name));",
            Form::One | Form::New(_) => "given.one::<__end>(__name);",
        };
        self.quote(template, processor.name.span(), &self.named(processor))
    }

    fn named(&self, processor: &Processor) -> [(&'static str, TokenStream); 2] {
        [
            ("__name", TokenTree::from(processor.name.clone()).into()),
            ("__end", processor.end.tokens.clone()),
        ]
    }

    /// The ends and the message of an edge.
    fn types(&self, edge: &Edge) -> Vec<(&'static str, TokenStream)> {
        let (from, to) = edge.ends.expect("edges without ends were removed");
        vec![
            ("__from", self.end(from, edge.from.span())),
            ("__to", self.end(to, edge.to.span())),
            ("__message", edge.message.tokens.clone()),
            ("__text", text(&edge.message.text)),
        ]
    }

    fn edge_info(&self, at: usize) -> TokenStream {
        let edge = &self.graph.edges[at];
        let mut parts = self.types(edge);
        parts.push(("__spec", self.spec(edge)));
        self.quote(
            "__rast::__private::edge_info::<__G, __from, __to>(
                __text, __rast::__private::Spec { __spec ..__rast::__private::Spec::NONE }
            ),",
            edge.from.span(),
            &parts,
        )
    }

    /// What the attributes say.
    fn spec(&self, edge: &Edge) -> TokenStream {
        let attributes = edge.attributes.iter().map(|attribute| {
            let value: TokenStream = attribute.value.iter().cloned().collect();
            let at = attribute.name.span();
            let template = match attribute.name.to_string().as_str() {
                "cap" => "capacity: __some(__value),",
                "burst" => "burst: __some(__value),",
                "ceiling" => "ceiling: __some(__value),",
                "lanes" => "lanes: __some(__value),",
                "bytes" => "bytes: __value,",
                "route" => "any: true,",
                "keep" => "keep: true,",
                "high" => "high: true,",
                "rings" => "rings: true,",
                "unbounded" => "kind: __rast::EdgeKind::Unbounded,",
                "reject" => "kind: __rast::EdgeKind::Reject,",
                "drop_newest" => "kind: __rast::EdgeKind::DropNewest,",
                "drop_oldest" => "kind: __rast::EdgeKind::DropOldest,",
                "latest" => "kind: __rast::EdgeKind::Latest, capacity: __some(1),",
                "reply" => {
                    let request = edge.request.map_or_else(TokenStream::new, number);
                    let template = "kind: __rast::EdgeKind::Reply { request: __request },";
                    return self.quote(template, at, &[("__request", request)]);
                }
                "sends" => {
                    let entries = sends_of(attribute).into_iter();
                    let entries = entries.map(|(to, message)| {
                        let to = to.map(|to| to.to_string());
                        self.sends(to.as_deref(), &text_of(&message), at)
                    });
                    let list = entries.collect();
                    let template = "sends: __rast::Sends::Listed(const { &[__list] }),";
                    return self.quote(template, at, &[("__list", list)]);
                }
                other => unreachable!("`{other}` was removed by the check"),
            };
            let some = self.quote("::core::option::Option::Some", at, &[]);
            self.quote(template, at, &[("__value", value), ("__some", some)])
        });
        attributes.collect()
    }

    fn sends(&self, to: Option<&str>, message: &str, at: Span) -> TokenStream {
        let mut names = self.graph.processors.iter();
        let to = match to {
            None => self.quote("None", at, &[]),
            Some("egress") => self.quote("Some(__rast::End::Egress)", at, &[]),
            Some(to) => {
                let index = names.position(|processor| processor.name.to_string() == to);
                let index = number(index.unwrap_or(0));
                self.quote("Some(__rast::End::Processor(__at))", at, &[("__at", index)])
            }
        };
        self.quote(
            "__rast::__private::SendsTo { to: ::core::option::Option::__end, message: __text },",
            at,
            &[("__end", to), ("__text", text(message))],
        )
    }

    fn wire(&self, at: usize) -> TokenStream {
        let edge = &self.graph.edges[at];
        self.quote(
            "wiring.edge::<__G, __from, __to, __message>();",
            edge.from.span(),
            &self.types(edge),
        )
    }

    fn edge(&self, at: usize) -> TokenStream {
        let edge = &self.graph.edges[at];
        let before = &self.graph.edges[..at];
        let from = edge.ends.map(|(from, _)| from);
        let is_before = |other: &&Edge| other.ends.map(|(from, _)| from) == from;
        let mut parts = self.types(edge);
        parts.push(("__at", number(at)));
        parts.push(("__out", number(before.iter().filter(is_before).count())));
        // What the trait gives by itself is not written: a graph has many edges.
        let copy = edge.attribute("keep").map_or("", |_| {
            "const COPY: ::core::option::Option<fn(&Self) -> Self> =
                ::core::option::Option::Some(<__message as ::core::clone::Clone>::clone);"
        });
        let weigh = edge.attribute("bytes").map_or("", |_| {
            "const WEIGH: ::core::option::Option<fn(&Self) -> usize> =
                ::core::option::Option::Some(<__message as __rast::Weight>::weight);"
        });
        self.quote(
            &format!(
                "impl __rast::Edge<__G, __from, __to> for __message {{
                    const ID: usize = __at;
                    const OUT: usize = __out;
                    {copy}
                    {weigh}
                }}"
            ),
            edge.from.span(),
            &parts,
        )
    }
}
