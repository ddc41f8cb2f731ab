//! A timer whose message has no handler.
use std::time::Duration;

use rast::msgpass::{Cx, Ingress, Process, Receive, graph};

struct Count;
struct Tick;

graph! {
    graph App {
        processors { count: Count }
        edges { ingress -> count: u64; }
    }
}

impl Process<App> for Count {}
impl Receive<App, Ingress, u64> for Count {
    fn receive(&mut self, _: u64, cx: &mut Cx<'_, App, Self>) {
        cx.after(Duration::from_secs(1), Tick);
    }
}

fn main() {}
