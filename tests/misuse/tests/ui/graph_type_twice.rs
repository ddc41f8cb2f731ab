//! One type under two names, and two processors of one name.
use rast::msgpass::{Cx, Process, Receive, graph};

struct Split;
struct Count;

graph! {
    graph App {
        processors { split: Split, count: Count, second_count: Count, split: (struct Other(Split)) }
        edges {
            ingress -> split: String;
            split -> count: String;
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
