//! A processor without a `Process` impl.
use rast_msgpass::graph;

struct Reader;

graph! {
    graph App {
        processors { reader: Reader [source] }
        edges {}
    }
}

fn main() {
    let _ = App::builder(Reader);
}
