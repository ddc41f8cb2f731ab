//! A choice among replicas where there are none.
use rast::msgpass::{Cx, Egress, Ingress, Process, Receive, graph};

struct Split;

graph! {
    graph App {
        processors { split: Split }
        edges {
            ingress -> split: String;
            split -> egress: String;
        }
    }
}

impl Process<App> for Split {}
impl Receive<App, Ingress, String> for Split {
    fn receive(&mut self, text: String, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Egress>().key(7).send(text);
    }
}

fn main() {}
