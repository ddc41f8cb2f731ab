//! A cycle of plainly bounded edges names the graph, its ends and messages.
use rast_msgpass::{Cx, Process, Receive, graph};

struct Reader;
struct Parser;
struct Sink;
struct Line;
struct Record;
struct Ack;

graph! {
    graph App {
        processors { reader: Reader [source], parser: Parser, sink: Sink }
        edges {
            reader -> parser: Line;
            parser -> sink: Record [cap = 16];
            parser -> reader: Ack [unbounded];
            sink -> reader: Ack;
        }
    }
}

impl Process<App> for Reader {}
impl Process<App> for Parser {}
impl Process<App> for Sink {}
impl<F> Receive<App, F, Ack> for Reader {
    fn receive(&mut self, _: Ack, _: &mut Cx<'_, App, Self>) {}
}
impl<F> Receive<App, F, Line> for Parser {
    fn receive(&mut self, _: Line, _: &mut Cx<'_, App, Self>) {}
}
impl<F> Receive<App, F, Record> for Sink {
    fn receive(&mut self, _: Record, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
