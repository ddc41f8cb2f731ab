//! A message that no edge carries, and one against the direction of its edge: the hints can be
//! pasted (`tests/hints.rs`).
use rast::msgpass::{Cx, Egress, Ingress, Process, Receive, graph};

struct Split;
struct Count;
struct Line(u64);

graph! {
    graph App {
        processors { split: Split, count: Count }
        edges {
            ingress -> split: String;
            split -> count: Line;
            count -> egress: u64;
        }
    }
}

impl Process<App> for Split {}
impl Process<App> for Count {}
impl Receive<App, Ingress, String> for Split {
    fn receive(&mut self, text: String, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Count>().send(text);
    }
}
impl Receive<App, Split, Line> for Count {
    fn receive(&mut self, line: Line, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Egress>().send(line.0);
        cx.to::<Split>().send(line);
    }
}

fn main() {}
