//! Processors that borrow their data, and a graph with parameters.
use rast::msgpass::{Cx, Process, Receive, graph};

struct Split<'a>(&'a str);
struct Count;

graph! {
    graph App {
        processors { split: Split<'a>, count: (struct Counts(&Count)) }
        edges {
            ingress -> split: String;
            split -> count: String;
        }
    }
}

impl Process<App> for Split<'static> {}
impl Process<App> for Counts {}
impl<F, M> Receive<App, F, M> for Split<'static> {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}
impl<F, M> Receive<App, F, M> for Counts {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}

graph! {
    pub graph Generic<T: Send, const N: usize> {
        processors { split: Other<T> }
        edges { ingress -> split: T; }
    }
}

fn main() {}
