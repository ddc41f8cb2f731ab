//! A message that may not change threads.
use std::rc::Rc;

use rast_msgpass::{Cx, Process, Receive, graph};

struct Reader;
struct Parser;
struct Line(Rc<u8>);

graph! {
    graph App {
        processors { reader: Reader [source], parser: Parser }
        edges { reader -> parser: Line; }
    }
}

impl Process<App> for Reader {}
impl Process<App> for Parser {}
impl Receive<App, Reader, Line> for Parser {
    fn receive(&mut self, _: Line, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
