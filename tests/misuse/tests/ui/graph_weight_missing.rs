//! A bound in bytes, and a message without a weight.
use rast::msgpass::{Cx, Ingress, Process, Receive, graph};

struct Split;
struct Count;
struct Job;

graph! {
    graph App {
        processors { split: Split, count: Count }
        edges {
            ingress -> split: u8;
            split -> count: Job [bytes = 64];
        }
    }
}

impl Process<App> for Split {}
impl Process<App> for Count {}
impl Receive<App, Ingress, u8> for Split {
    fn receive(&mut self, _: u8, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Count>().send(Job);
    }
}
impl<F, M> Receive<App, F, M> for Count {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
