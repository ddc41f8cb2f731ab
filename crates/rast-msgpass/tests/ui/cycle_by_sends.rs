//! Handlers that send requests to the client of the request in hand, by their own words.
use rast_msgpass::{Cx, Process, Receive, graph};

struct Voter;
struct Vote;
struct Granted;

graph! {
    graph App {
        processors { voter: [Voter; 3] [source] }
        edges {
            voter -> voter: Vote [sends = (Vote)];
            voter -> voter: Granted [reply = Vote];
        }
    }
}

impl Process<App> for Voter {}
impl<F> Receive<App, F, Vote> for Voter {
    fn receive(&mut self, _: Vote, _: &mut Cx<'_, App, Self>) {}
}
impl<F> Receive<App, F, Granted> for Voter {
    fn receive(&mut self, _: Granted, _: &mut Cx<'_, App, Self>) {}
}

fn main() {}
