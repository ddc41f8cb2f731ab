//! A send to replicas says which; one to a single processor does not.
use rast_msgpass::{Cx, Ingress, Process, Receive, graph};

struct Reader;
struct Worker;

graph! {
    graph App {
        processors { reader: Reader, worker: [Worker; 2] }
        edges {
            ingress -> reader: u8;
            reader -> worker: u8;
            worker -> reader: u16 [unbounded];
        }
    }
}

impl Process<App> for Reader {}
impl Process<App> for Worker {}
impl Receive<App, Ingress, u8> for Reader {
    fn receive(&mut self, byte: u8, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Worker>().send(byte);
    }
}
impl Receive<App, Worker, u16> for Reader {
    fn receive(&mut self, _: u16, _: &mut Cx<'_, App, Self>) {}
}
impl Receive<App, Reader, u8> for Worker {
    fn receive(&mut self, byte: u8, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Reader>().key(1).send(u16::from(byte));
    }
}

fn main() {}
