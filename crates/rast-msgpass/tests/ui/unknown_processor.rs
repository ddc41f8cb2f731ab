//! A processor that the graph has not, in a handler and in the declaration.
use rast_msgpass::{Cx, Ingress, Process, Receive, graph};

struct Reader;
struct Stranger;

graph! {
    graph App {
        processors { reader: Reader }
        edges { ingress -> reader: u8; }
    }
}

impl Process<App> for Reader {}
impl Receive<App, Ingress, u8> for Reader {
    fn receive(&mut self, byte: u8, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Stranger>().send(byte);
    }
}

fn main() {}
