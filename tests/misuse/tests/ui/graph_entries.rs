//! Processors and attributes that cannot be read.
use rast::msgpass::{Cx, Process, Receive, graph};

struct Split;
struct Count;

graph! {
    graph App {
        processors { split: Split, count: [Count], other: struct Other(Split), ingress: u8 }
        edges {
            ingress -> split: String [cap, keep = true];
            split -> other: u8 [capacity = 4];
            split -> other: u16 [cap = 4, cap = 8];
            split -> other: u32 [reply = u64];
            split -> other: u64 [sends = (u8)];
        }
    }
}

impl Process<App> for Split {}
impl Process<App> for Other {}
impl<F, M> Receive<App, F, M> for Split {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}
impl<F, M> Receive<App, F, M> for Other {
    fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
