//! Signs that are missing, or others than they have to be.
use rast::msgpass::{Cx, Process, Receive, graph};

struct Split;
struct Count;
struct Third;

graph! {
    graph App {
        processors { split: Split; count: Count third: Third }
        edges {
            ingress -> split: String
            split -> count: Vec<u8> [cap = 4]
            /// Documented.
            split -> third: u8,
            count -> third;
            count => third: u8;
            third -> egress: u8
        }
    }
}

impl Process<App> for Split {}
impl Process<App> for Count {}
impl Process<App> for Third {}
impl<F, M> Receive<App, F, M> for Split {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}
impl<F, M> Receive<App, F, M> for Count {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}
impl<F, M> Receive<App, F, M> for Third {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
