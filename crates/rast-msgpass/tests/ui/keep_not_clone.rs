//! `keep` clones each message.
use rast_msgpass::{Cx, Ingress, Process, Receive, graph};

struct Reader;
struct Command;

graph! {
    graph App {
        processors { reader: Reader }
        edges { ingress -> reader: Command [cap = 4, keep]; }
    }
}

impl Process<App> for Reader {}
impl Receive<App, Ingress, Command> for Reader {
    fn receive(&mut self, _: Command, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
