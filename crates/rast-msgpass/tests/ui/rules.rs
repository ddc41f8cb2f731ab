//! Attributes that do not go together, and an attribute of a processor that is unknown.
use rast_msgpass::{Cx, Process, Receive, graph};

struct Split;
struct Count;

graph! {
    graph App {
        processors { split: Split [sink], count: Count }
        edges {
            ingress -> split: u8 [latest];
            ingress -> split: u16 [bytes = 64];
            split -> count: u8 [reject, latest];
            split -> count: u16 [latest, cap = 4, burst = 2];
            split -> count: u32 [drop_newest, route = any];
            split -> count: String [unbounded, bytes = 64];
            split -> count: Vec<u8> [bytes];
            split -> egress: u8 [latest];
            split -> egress: u16 [high];
            split -> count: Vec<u16> [bytes = 64];
            count -> split: i16 [reply = Vec<u16>];
            ingress -> split: i32 [rings];
            split -> count: i64 [rings];
            split -> count: u64 [rings, drop_oldest];
            count -> split: i64 [reply = i64, rings];
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
