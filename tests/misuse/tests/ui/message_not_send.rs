//! A message that may not change threads.
use std::rc::Rc;

use rast::msgpass::{Cx, Process, Receive, graph};

graph! {
    graph App {
        processors { from: From [source], to: To }
        edges { from -> to: Message; }
    }
}

struct Message(Rc<u8>);
struct From;
struct To;

impl Process<App> for From {}
impl Process<App> for To {}

impl Receive<App, From, Message> for To {
    fn receive(&mut self, _: Message, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
