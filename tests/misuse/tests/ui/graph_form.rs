//! A declaration without its parts.
use rast::msgpass::graph;

graph! {
    pub graph App {
        edges { ingress -> split: String; }
    }
}

graph! {
    App { processors { split: Split } edges {} }
}

fn main() {}
