//! `graph!`: the declaration of a graph.
//!
//! No rule recurses over the entries: each processor and each edge expands on its own, so hundreds
//! of them stay within the default recursion limit. What needs to know its own position, the index
//! of an edge, looks it up in a constant table at compile time. Names of ends (`reader`, `ingress`)
//! become variants of an enum inside a `const _` block, so they leak nowhere and hide no module of
//! the same name; `At` leads from the number of a variant to the type. Everything is called by
//! `$crate`, so the crate may be known under any name, or only through a re-export.

/// Declares a graph: its processors, its edges, and the type that names it.
///
/// ```text
/// graph! {
///     /// Documentation of the graph.
///     pub graph App {
///         processors {
///             reader: Reader,                       // one instance
///             worker: [Worker; 8],                  // eight replicas
///             second: (struct Reader2(Reader)),     // a newtype, emitted here
///         }
///         edges {
///             ingress -> reader: Command [cap = 1024];      // a door in
///             reader -> worker: Job [cap = 256, burst = 4];
///             worker -> reader: Done [reply = Job];
///             worker -> egress: Report [lanes = 2];         // a door out
///         }
///     }
/// }
/// ```
///
/// Attributes of an edge: `cap = N` messages of room (256), `burst = N`
/// messages that one invocation of the sender may `send` (1), `unbounded`, `ceiling = N` messages
/// without room that one sender of an unbounded edge keeps before the graph stops (1,048,576),
/// `reply = Request`, `lanes = N` receivers of an edge to `egress` (1),
/// `route = any`, `keep` to have each message cloned before its handler for
/// [`Builder::on_failure`](crate::Builder::on_failure), and `sends = (Job, egress: Report)`: the
/// messages, with their receivers where that matters, that the handlers of this edge's messages
/// send (all). Each at most once.
/// Documentation comments may be above every entry.
///
/// The graph's type gets `PROCESSORS`, `EDGES`, `builder(..)` (one argument per
/// processor, in order; replicas by anything that iterates over them), `dot()`
/// and `mermaid()`.
///
/// # Errors at compile time
///
/// A type that is listed twice, an edge that is listed twice (both as
/// conflicting implementations), an edge whose receiver has no
/// [`Receive`](crate::Receive), an attribute given twice or where it says
/// nothing, an entry of `sends` that no edge carries, a burst past the capacity, and a cycle of
/// edges that are all plainly bounded, each sent on by the handlers of the one before: such a
/// cycle can fill up and block for ever, so one of its edges has to be `unbounded` or a `reply`.
#[macro_export]
macro_rules! graph {
    (
        $(#[$meta:meta])*
        $v:vis graph $g:ident {
            processors {
                $( $(#[doc = $about:literal])* $n:ident :
                    $( [ $many:path ; $count:expr ] )?
                    $( ( struct $new:ident ( $old:path ) ) )?
                    $( $one:path )?
                ),+ $(,)?
            }
            edges {
                $( $(#[doc = $says:literal])* $f:ident -> $t:ident : $msg:ty $( [ $($attr:tt)* ] )? ; )*
            }
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $v struct $g;

        $( $(
            #[doc = concat!("Another `", stringify!($old), "`: the processor `", stringify!($n), "` of [`", stringify!($g), "`].")]
            $v struct $new(pub $old);

            impl ::core::ops::Deref for $new {
                type Target = $old;
                fn deref(&self) -> &$old {
                    &self.0
                }
            }

            impl ::core::ops::DerefMut for $new {
                fn deref_mut(&mut self) -> &mut $old {
                    &mut self.0
                }
            }
        )? )+

        const _: () = {
            /// The ends, in an enum of the graph's name: that is what the error
            /// about an end that is not declared speaks of.
            mod __ends_of {
                #[allow(non_camel_case_types, dead_code, clippy::upper_case_acronyms)]
                pub(super) enum $g { $($n,)+ ingress, egress }
            }

            /// The ends and the message of each edge: what an edge finds itself by.
            const __RAST_KEYS: &[$crate::__private::Key] = &[ $(
                (
                    __ends_of::$g::$f as usize,
                    __ends_of::$g::$t as usize,
                    stringify!($msg),
                ),
            )* ];

            impl $crate::Graph for $g {
                const NAME: &'static str = stringify!($g);
                const PROCESSORS: &'static [$crate::ProcessorInfo] = &[ $(
                    $crate::__private::processor_info(
                        stringify!($n),
                        concat!( $( stringify!($many), )? $( stringify!($new), )? $( stringify!($one), )? ),
                        &[ $( $count )? ],
                    ),
                )+ ];
                const EDGES: &'static [$crate::EdgeInfo] = &[ $(
                    $crate::__private::edge_info::<
                        $g,
                        <__ends_of::$g as $crate::__private::At<{ __ends_of::$g::$f as usize }>>::End,
                        <__ends_of::$g as $crate::__private::At<{ __ends_of::$g::$t as usize }>>::End,
                    >(
                        stringify!($msg),
                        $crate::__edge_spec!($g $f $t ($crate::__private::Spec::new()) $($($attr)*)?),
                    ),
                )* ];

                fn wire(wiring: &mut $crate::__private::Wiring) {
                    $(
                        <$msg as $crate::Edge<
                            $g,
                            <__ends_of::$g as $crate::__private::At<{ __ends_of::$g::$f as usize }>>::End,
                            <__ends_of::$g as $crate::__private::At<{ __ends_of::$g::$t as usize }>>::End,
                        >>::wire(wiring);
                    )*
                }
            }

            $(
                impl $crate::__private::At<{ __ends_of::$g::$n as usize }> for __ends_of::$g {
                    type End = $( $many )? $( $new )? $( $one )?;
                }
                impl $crate::Node<<__ends_of::$g as $crate::__private::At<{ __ends_of::$g::$n as usize }>>::End> for $g {
                    const END: $crate::End = $crate::End::Processor(__ends_of::$g::$n as usize);
                    const ID: usize = __ends_of::$g::$n as usize;
                    const TYPE_NAME: &'static str =
                        concat!( $( stringify!($many), )? $( stringify!($new), )? $( stringify!($one), )? );
                }
                $( impl $crate::Replicated<$many> for $g {} )?
                $( impl $crate::Single<$new> for $g {} )?
                $( impl $crate::Single<$one> for $g {} )?
            )+

            impl $crate::__private::At<{ __ends_of::$g::ingress as usize }> for __ends_of::$g {
                type End = $crate::Ingress;
            }
            impl $crate::__private::At<{ __ends_of::$g::egress as usize }> for __ends_of::$g {
                type End = $crate::Egress;
            }
            impl $crate::Node<$crate::Ingress> for $g {
                const END: $crate::End = $crate::End::Ingress;
                const ID: usize = usize::MAX - 1;
                const TYPE_NAME: &'static str = "ingress";
            }
            impl $crate::Node<$crate::Egress> for $g {
                const END: $crate::End = $crate::End::Egress;
                const ID: usize = usize::MAX;
                const TYPE_NAME: &'static str = "egress";
            }
            impl $crate::Single<$crate::Egress> for $g {}

            $(
                impl $crate::Edge<
                    $g,
                    <__ends_of::$g as $crate::__private::At<{ __ends_of::$g::$f as usize }>>::End,
                    <__ends_of::$g as $crate::__private::At<{ __ends_of::$g::$t as usize }>>::End,
                > for $msg {
                    const ID: usize = $crate::__private::find(
                        __RAST_KEYS,
                        __ends_of::$g::$f as usize,
                        __ends_of::$g::$t as usize,
                        stringify!($msg),
                    );
                    const COPY: ::core::option::Option<fn(&Self) -> Self> =
                        $crate::__edge_copy!($msg; $($($attr)*)?);
                    fn wire(wiring: &mut $crate::__private::Wiring) {
                        wiring.edge::<
                            $g,
                            <__ends_of::$g as $crate::__private::At<{ __ends_of::$g::$f as usize }>>::End,
                            <__ends_of::$g as $crate::__private::At<{ __ends_of::$g::$t as usize }>>::End,
                            $msg,
                        >();
                    }
                }
            )*

            const _: () = $crate::__private::check::<$g>();

            impl $g {
                /// The processors, in the order of the declaration.
                $v const PROCESSORS: &'static [$crate::ProcessorInfo] =
                    <$g as $crate::Graph>::PROCESSORS;
                /// The edges, in the order of the declaration.
                $v const EDGES: &'static [$crate::EdgeInfo] = <$g as $crate::Graph>::EDGES;

                /// Begins to build the graph from its processors.
                #[allow(dead_code, clippy::too_many_arguments)]
                $v fn builder(
                    $( $n:
                        $( impl ::core::iter::IntoIterator<Item = $many> )?
                        $( $new )?
                        $( $one )?
                    ),+
                ) -> $crate::Builder<$g> {
                    let mut given = $crate::__private::Given::<$g>::new();
                    $(
                        $( given.many::<$many>(::core::iter::IntoIterator::into_iter($n)); )?
                        $( given.one::<$new>($n); )?
                        $( given.one::<$one>($n); )?
                    )+
                    $crate::Builder::new(given)
                }

                /// Returns the indices of the edges that enter a processor.
                #[allow(dead_code)]
                $v fn incoming(processor: usize) -> impl ::core::iter::Iterator<Item = usize> {
                    $crate::__private::incoming::<$g>(processor)
                }

                /// Returns the indices of the edges that leave a processor.
                #[allow(dead_code)]
                $v fn outgoing(processor: usize) -> impl ::core::iter::Iterator<Item = usize> {
                    $crate::__private::outgoing::<$g>(processor)
                }

                /// Returns the indices of the edges between two processors, in
                /// either direction.
                #[allow(dead_code)]
                $v fn connecting(
                    one: usize,
                    other: usize,
                ) -> impl ::core::iter::Iterator<Item = usize> {
                    $crate::__private::connecting::<$g>(one, other)
                }

                /// Draws the graph in the language of Graphviz.
                #[allow(dead_code)]
                $v fn dot() -> $crate::__private::String {
                    $crate::__private::dot::<$g>()
                }

                /// Draws the graph in the language of Mermaid.
                #[allow(dead_code)]
                $v fn mermaid() -> $crate::__private::String {
                    $crate::__private::mermaid::<$g>()
                }
            }
        };
    };
}

/// Reads the attributes of one edge, one after the other.
#[doc(hidden)]
#[macro_export]
macro_rules! __edge_spec {
    ($g:ident $f:ident $t:ident ($spec:expr)) => { $spec };
    ($g:ident $f:ident $t:ident ($spec:expr) cap = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__edge_spec!($g $f $t ($spec.capacity($value)) $($($rest)*)?)
    };
    ($g:ident $f:ident $t:ident ($spec:expr) burst = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__edge_spec!($g $f $t ($spec.burst($value)) $($($rest)*)?)
    };
    ($g:ident $f:ident $t:ident ($spec:expr) lanes = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__edge_spec!($g $f $t ($spec.lanes($value)) $($($rest)*)?)
    };
    ($g:ident $f:ident $t:ident ($spec:expr) ceiling = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__edge_spec!($g $f $t ($spec.ceiling($value)) $($($rest)*)?)
    };
    ($g:ident $f:ident $t:ident ($spec:expr) unbounded $(, $($rest:tt)*)?) => {
        $crate::__edge_spec!($g $f $t ($spec.unbounded()) $($($rest)*)?)
    };
    ($g:ident $f:ident $t:ident ($spec:expr) reply = $request:ty $(, $($rest:tt)*)?) => {
        $crate::__edge_spec!(
            $g $f $t
            ($spec.reply(
                <$request as $crate::Edge<
                    $g,
                    <__ends_of::$g as $crate::__private::At<{ __ends_of::$g::$t as usize }>>::End,
                    <__ends_of::$g as $crate::__private::At<{ __ends_of::$g::$f as usize }>>::End,
                >>::ID
            ))
            $($($rest)*)?
        )
    };
    ($g:ident $f:ident $t:ident ($spec:expr) route = any $(, $($rest:tt)*)?) => {
        $crate::__edge_spec!($g $f $t ($spec.any()) $($($rest)*)?)
    };
    ($g:ident $f:ident $t:ident ($spec:expr) keep $(, $($rest:tt)*)?) => {
        $crate::__edge_spec!($g $f $t ($spec.keep()) $($($rest)*)?)
    };
    ($g:ident $f:ident $t:ident ($spec:expr) sends = ($($list:tt)*) $(, $($rest:tt)*)?) => {
        $crate::__edge_spec!(
            $g $f $t
            ($spec.sends(const { $crate::__edge_sends!($g [] $($list)*) }))
            $($($rest)*)?
        )
    };
    ($g:ident $f:ident $t:ident ($spec:expr) $other:ident $($rest:tt)*) => {
        compile_error!(concat!(
            "unknown attribute `", stringify!($other), "` on the edge ",
            stringify!($f), " -> ", stringify!($t), " of graph `", stringify!($g),
            "`: known are `cap = N`, `burst = N`, `unbounded`, `ceiling = N`, `reply = Request`, \
             `lanes = N`, `route = any`, `keep`, `sends = (Message, ..)`"
        ))
    };
}

/// Finds `keep` among the attributes of one edge; what follows `=` is none.
#[doc(hidden)]
#[macro_export]
macro_rules! __edge_copy {
    ($msg:ty;) => { ::core::option::Option::None };
    ($msg:ty; keep $($rest:tt)*) => {
        ::core::option::Option::Some(<$msg as ::core::clone::Clone>::clone)
    };
    ($msg:ty; = $value:tt $($rest:tt)*) => { $crate::__edge_copy!($msg; $($rest)*) };
    ($msg:ty; $other:tt $($rest:tt)*) => { $crate::__edge_copy!($msg; $($rest)*) };
}

/// Reads the entries of `sends`, one after the other.
#[doc(hidden)]
#[macro_export]
macro_rules! __edge_sends {
    ($g:ident [$($done:expr,)*]) => { &[$($done),*] };
    ($g:ident [$($done:expr,)*] $to:ident : $msg:ty $(, $($rest:tt)*)?) => {
        $crate::__edge_sends!(
            $g
            [$($done,)* $crate::__private::SendsTo {
                to: ::core::option::Option::Some(
                    <$g as $crate::Node<
                        <__ends_of::$g as $crate::__private::At<{ __ends_of::$g::$to as usize }>>::End,
                    >>::END
                ),
                message: stringify!($msg),
            },]
            $($($rest)*)?
        )
    };
    ($g:ident [$($done:expr,)*] $msg:ty $(, $($rest:tt)*)?) => {
        $crate::__edge_sends!(
            $g
            [$($done,)* $crate::__private::SendsTo {
                to: ::core::option::Option::None,
                message: stringify!($msg),
            },]
            $($($rest)*)?
        )
    };
}
