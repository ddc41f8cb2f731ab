//! Processors that nothing can reach: one without inputs, and a circle.
use rast::msgpass::{Cx, Process, Receive, graph};

struct Split;
struct Tick;
struct Ping;
struct Pong;

graph! {
    graph App {
        processors { split: Split, tick: [Tick; 2], ping: Ping, pong: Pong }
        edges {
            ingress -> split: String;
            tick -> split: u8;
            ping -> pong: u8;
            pong -> ping: u8 [unbounded];
            pong -> split: u16;
        }
    }
}

impl Process<App> for Split {}
impl Process<App> for Tick {}
impl Process<App> for Ping {}
impl Process<App> for Pong {}
impl<F, M> Receive<App, F, M> for Split {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}
impl<F, M> Receive<App, F, M> for Ping {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}
impl<F, M> Receive<App, F, M> for Pong {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
