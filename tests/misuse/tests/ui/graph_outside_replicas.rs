//! Sends from outside to replicas, without saying to which.
use std::time::Duration;

use rast::msgpass::{Ask, Cx, Handle, Ingress, Process, Receive, graph};

struct Count;

graph! {
    graph App {
        processors { count: [Count; 2] }
        edges {
            ingress -> count: Ask<u64, u64>;
        }
    }
}

impl Process<App> for Count {}
impl Receive<App, Ingress, Ask<u64, u64>> for Count {
    fn receive(&mut self, _: Ask<u64, u64>, _: &mut Cx<'_, App, Self>) {}
}

fn ask(app: &Handle<App>) {
    let count = app.ingress::<Count, Ask<u64, u64>>();
    let _ = count.ask(7, Duration::from_secs(1));
}

fn main() {}
