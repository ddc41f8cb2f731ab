//! An edge whose receiver does not receive names the processor, the sender and
//! the message.
use rast_msgpass::{Process, graph};

struct Reader;
struct Parser;
struct Line;

graph! {
    graph App {
        processors { reader: Reader [source], parser: Parser }
        edges { reader -> parser: Line; }
    }
}

impl Process<App> for Reader {}
impl Process<App> for Parser {}

fn main() {}
