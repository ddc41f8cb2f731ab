//! The tables of a graph, its pictures, and its names from outside.

use rast_msgpass::{Edge, EdgeKind, Egress, End, Ingress, Node};

mod nowhere {
    pub(super) struct Alpha;
    pub(super) struct Beta;

    ::rast_msgpass::graph! {
        pub(super) graph Tables {
            processors { alpha: Alpha, beta: [Beta; 1 + 1] }
            edges {
                ingress -> alpha: u8 [cap = 7];
                alpha -> beta: u8 [burst = 3,];
                alpha -> beta: ::std::vec::Vec<u8> [cap = 2, burst = 2];
                beta -> alpha: bool [reply = u8, cap = 16];
                beta -> egress: u8 [lanes = 3];
            }
        }
    }

    impl otherwise::Process<Tables> for Alpha {}
    impl otherwise::Process<Tables> for Beta {}
    impl<F, M> otherwise::Receive<Tables, F, M> for Alpha {
        fn receive(&mut self, _: M, _: &mut otherwise::Cx<'_, Tables, Self>) {}
    }
    impl<F, M> otherwise::Receive<Tables, F, M> for Beta {
        fn receive(&mut self, _: M, _: &mut otherwise::Cx<'_, Tables, Self>) {}
    }
    use ::rast_msgpass as otherwise;
}

/// What `graph!` writes and the program does not use causes no warning.
mod private {
    #![deny(warnings, dead_code, unused)]

    struct Alone;

    ::rast_msgpass::graph! {
        graph Private {
            processors { alone: Alone }
            edges { ingress -> alone: u8; }
        }
    }
    impl ::rast_msgpass::Process<Private> for Alone {}
    impl ::rast_msgpass::Receive<Private, ::rast_msgpass::Ingress, u8> for Alone {
        fn receive(&mut self, _: u8, _: &mut ::rast_msgpass::Cx<'_, Private, Self>) {}
    }

    #[test]
    fn the_rest_is_not_used() {
        Private::builder(Alone).start().expect("it is one thread");
    }
}

use nowhere::{Alpha, Beta, Tables};

#[test]
fn indices_are_constants() {
    const BETA: usize = <Tables as Node<Beta>>::ID;
    const LAST: usize = <u8 as Edge<Tables, Beta, Egress>>::ID;
    assert_eq!(BETA, 1);
    assert_eq!(LAST, 4);
    assert_eq!(<u8 as Edge<Tables, Ingress, Alpha>>::ID, 0);
    assert_eq!(<Vec<u8> as Edge<Tables, Alpha, Beta>>::ID, 2);
    assert_eq!(<Vec<u8> as Edge<Tables, Alpha, Beta>>::OUT, 1);
    assert_eq!(<Tables as Node<Egress>>::END, End::Egress);
}

#[test]
fn tables_say_what_was_declared() {
    let [alpha, beta] = Tables::PROCESSORS else {
        panic!("there are two processors");
    };
    assert_eq!(
        (alpha.name, alpha.replicas, alpha.replicated),
        ("alpha", 1, false)
    );
    assert_eq!(
        (beta.type_name, beta.replicas, beta.replicated),
        ("Beta", 2, true)
    );
    let edges = Tables::EDGES;
    assert_eq!((edges[0].capacity, edges[0].burst), (7, 1));
    assert_eq!((edges[1].capacity, edges[1].burst), (256, 3));
    assert_eq!(edges[3].kind, EdgeKind::Reply { request: 1 });
    assert_eq!((edges[4].lanes, edges[4].to), (3, End::Egress));
    assert_eq!(edges[1].to.processor(), Some(1));
    assert_eq!(edges[0].from.processor(), None);
    assert_eq!(edges[2].message, "::std::vec::Vec<u8>");
}

#[test]
fn tools_find_their_way() {
    assert_eq!(Tables::incoming(1).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(Tables::outgoing(1).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(Tables::connecting(0, 1).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(Tables::connecting(1, 0).count(), 3);
}

#[test]
fn pictures_show_every_processor_and_edge() {
    let dot = Tables::dot();
    assert!(dot.starts_with("digraph \"Tables\" {"), "{dot}");
    assert!(
        dot.contains("\"alpha\" -> \"beta\" [label=\"u8 [256]\"];"),
        "{dot}"
    );
    assert!(dot.contains("beta: Beta x 2"), "{dot}");
    let mermaid = Tables::mermaid();
    assert!(mermaid.starts_with("flowchart LR\n"), "{mermaid}");
    assert!(
        mermaid.contains("ingress -->|\"u8 [7]\"| alpha"),
        "{mermaid}"
    );
    assert!(mermaid.contains("Vec&lt;u8&gt;"), "{mermaid}");
    assert_eq!(mermaid.lines().count(), 1 + 2 + 2 + 5);
}

mod modules {
    //! Processors and messages that live in modules of their processor's name.
    pub(super) mod reader {
        pub(in crate::tables) struct Reader;
        pub(in crate::tables) struct Line(pub(in crate::tables) u64);
    }
    pub(super) mod parser {
        pub(in crate::tables) struct Parser(pub(in crate::tables) u64);
    }

    use rast_msgpass::{Cx, Ingress, Process, Receive, graph};

    graph! {
        pub(super) graph Named {
            processors { reader: reader::Reader, parser: [parser::Parser; 2] }
            edges {
                ingress -> reader: reader::Line;
                reader -> parser: reader::Line;
            }
        }
    }

    impl Process<Named> for reader::Reader {}
    impl Receive<Named, Ingress, reader::Line> for reader::Reader {
        fn receive(&mut self, line: reader::Line, cx: &mut Cx<'_, Named, Self>) {
            cx.to::<parser::Parser>().key(line.0).send(line);
        }
    }
    impl Process<Named> for parser::Parser {}
    impl Receive<Named, reader::Reader, reader::Line> for parser::Parser {
        fn receive(&mut self, line: reader::Line, _: &mut Cx<'_, Named, Self>) {
            self.0 += line.0;
        }
    }
}

#[test]
fn a_processor_may_have_the_name_of_its_module() {
    use modules::{
        Named,
        parser::Parser,
        reader::{Line, Reader},
    };
    let app = Named::builder(Reader, [Parser(0), Parser(0)])
        .workers(1)
        .start()
        .unwrap();
    app.ingress::<Reader, Line>().send(Line(3)).unwrap();
    assert_eq!(app.drain(crate::LONG).unwrap().received_total(), 2);
}
