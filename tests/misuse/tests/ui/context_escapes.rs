//! A processor that keeps its context beyond the handler, to send when it is not its turn.
use rast::msgpass::{Cx, Next, Process, graph};

graph! {
    graph App {
        processors { keeper: Keeper [source] }
        edges {}
    }
}

#[derive(Default)]
struct Keeper(Option<&'static mut Cx<'static, App, Keeper>>);

impl Process<App> for Keeper {
    fn ping(&mut self, cx: &mut Cx<'_, App, Self>) -> Next {
        self.0 = Some(cx);
        Next::Idle
    }
}

fn main() {}
