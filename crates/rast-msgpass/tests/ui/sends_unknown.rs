//! An entry of `sends` that no edge carries.
use rast_msgpass::{Cx, Process, Receive, graph};

struct Reader;
struct Parser;
struct Line;
struct Record;

graph! {
    graph App {
        processors { reader: Reader, parser: Parser }
        edges {
            ingress -> reader: u8 [sends = (Record)];
            reader -> parser: Line;
        }
    }
}

impl Process<App> for Reader {}
impl Process<App> for Parser {}
impl<F> Receive<App, F, u8> for Reader {
    fn receive(&mut self, _: u8, _: &mut Cx<'_, App, Self>) {}
}
impl<F> Receive<App, F, Line> for Parser {
    fn receive(&mut self, _: Line, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
