//! The same edge twice, in two ways of writing its type.
use rast::msgpass::{Cx, Process, Receive, graph};

struct Split;
struct Count;

graph! {
    graph App {
        processors { split: Split, count: Count }
        edges {
            ingress -> split: String;
            split -> count: Vec<u8>;
            split -> count: Vec < u8 > [cap = 4];
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
