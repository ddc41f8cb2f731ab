//! A send that no edge allows names the graph, both ends and the message.
use rast_msgpass::{Cx, Ingress, Process, Receive, graph};

struct Reader;
struct Parser;
struct Line;

graph! {
    graph App {
        processors { reader: Reader, parser: Parser }
        edges {
            ingress -> reader: u8;
            reader -> parser: Line;
        }
    }
}

impl Process<App> for Reader {}
impl Process<App> for Parser {}
impl Receive<App, Ingress, u8> for Reader {
    fn receive(&mut self, byte: u8, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Parser>().send(byte);
    }
}
impl Receive<App, Reader, Line> for Parser {
    fn receive(&mut self, _: Line, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Reader>().send(Line);
    }
}

fn main() {}
