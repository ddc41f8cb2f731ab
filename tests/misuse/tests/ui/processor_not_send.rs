//! A processor that may not change threads.
use std::rc::Rc;

use rast::msgpass::{Process, graph};

graph! {
    graph App {
        processors { local: Local [source] }
        edges {}
    }
}

struct Local(Rc<u8>);

impl Process<App> for Local {}

fn main() {}
