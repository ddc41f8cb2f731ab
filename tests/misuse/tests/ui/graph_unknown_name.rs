//! Names that are no processors: a type, other letters, one letter too few, and a stranger.
use rast::msgpass::{Cx, Process, Receive, graph};

struct Split;
struct Count;

graph! {
    graph App {
        processors { split: Split, count: Count }
        edges {
            Ingress -> split: String;
            Split -> count: String;
            split -> cont: u8;
            split -> third_count: u16;
            egress -> count: u32;
        }
    }
}

impl Process<App> for Split {}
impl Process<App> for Count {}
impl<F, M> Receive<App, F, M> for Split {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}
impl<F, M> Receive<App, F, M> for Count {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
