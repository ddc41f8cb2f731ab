//! What leaves has no handler, so there is nothing to keep it for.
use rast_msgpass::{Process, graph};

struct Reader;

graph! {
    graph App {
        processors { reader: Reader [source] }
        edges { reader -> egress: u64 [keep]; }
    }
}

impl Process<App> for Reader {}

fn main() {}
