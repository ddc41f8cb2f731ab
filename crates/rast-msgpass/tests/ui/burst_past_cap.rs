//! A burst that never finds room.
use rast_msgpass::{Cx, Process, Receive, graph};

struct Reader;
struct Parser;

graph! {
    graph App {
        processors { reader: Reader [source], parser: Parser }
        edges { reader -> parser: u8 [cap = 4, burst = 5]; }
    }
}

impl Process<App> for Reader {}
impl Process<App> for Parser {}
impl Receive<App, Reader, u8> for Parser {
    fn receive(&mut self, _: u8, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
