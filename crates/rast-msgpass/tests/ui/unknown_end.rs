//! An edge to a name that is not declared.
use rast_msgpass::{Process, graph};

struct Reader;

graph! {
    graph App {
        processors { reader: Reader }
        edges { reader -> parser: u8; }
    }
}

impl Process<App> for Reader {}

fn main() {}
