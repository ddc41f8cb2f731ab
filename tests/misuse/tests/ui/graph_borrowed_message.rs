//! Edges whose messages borrow.
use rast::msgpass::{Cx, Process, Receive, graph};

struct Split;
struct Count;

graph! {
    graph App {
        processors { split: Split, count: Count }
        edges {
            ingress -> split: &str;
            split -> count: &[u8] [cap = 16];
            split -> count: &Count;
            split -> count: std::borrow::Cow<'a, str>;
            // Both of these own what they are.
            split -> count: &'static str;
            split -> count: fn(&str) -> usize;
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
