//! A message that borrows what it carries.
use rast::msgpass::{Cx, Ingress, Process, Receive, graph};

struct Split;
struct Count;

graph! {
    graph App {
        processors { split: Split, count: Count }
        edges {
            ingress -> split: String;
            split -> count: String;
        }
    }
}

impl Process<App> for Split {}
impl Process<App> for Count {}
impl Receive<App, Ingress, String> for Split {
    fn receive(&mut self, text: String, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Count>().send(text.as_str());
    }
}
impl Receive<App, Split, String> for Count {
    fn receive(&mut self, _: String, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
