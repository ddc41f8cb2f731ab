//! A graph on the thread of a test: a seed determines the order of turns, and the test moves the
//! clock.
//!
//! [`Builder::test`](crate::Builder::test) makes a [`TestGraph`] from the builder of the program's
//! own graph. Edges, room, credit, timers, drain and report use the same code as a graph on
//! threads; only the choice of the next turn differs. Equal seeds and equal calls give equal runs.
//!
//! [`TestCx`] runs one processor of a graph alone.
//!
//! Turns do not overlap, not even those of different workers.
//!
//! ```
//! use rast_msgpass::testing::for_each_seed;
//! use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};
//!
//! struct Doubler;
//! struct Adder(u64);
//!
//! graph! {
//!     graph App {
//!         processors { doubler: Doubler, adder: Adder }
//!         edges {
//!             ingress -> doubler: u64;
//!             doubler -> adder: u64;
//!             adder -> egress: u64;
//!         }
//!     }
//! }
//! impl Process<App> for Doubler {}
//! impl Receive<App, Ingress, u64> for Doubler {
//!     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
//!         cx.to::<Adder>().send(2 * number);
//!     }
//! }
//! impl Process<App> for Adder {}
//! impl Receive<App, Doubler, u64> for Adder {
//!     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
//!         self.0 += number;
//!         cx.to::<Egress>().send(self.0);
//!     }
//! }
//!
//! for_each_seed(0..20, |seed| {
//!     let mut app = App::builder(Doubler, Adder(0)).test(seed).unwrap();
//!     let between = app.probe::<Doubler, Adder, u64>();
//!     let sums = app.collect::<Adder, u64>(0);
//!     app.feed::<Doubler, u64>(1..=3);
//!     app.run_until_idle();
//!     assert_eq!(between.messages(), [2, 4, 6]);
//!     assert_eq!(sums.take(), [2, 6, 12]);
//!     let report = app.drain().unwrap();
//!     assert!(report.panics.is_empty());
//! });
//! ```

mod alone;
mod driver;
mod graph;
mod outside;
mod probe;
mod seed;
mod stub;

pub use alone::TestCx;
pub(crate) use driver::Driver;
pub use graph::TestGraph;
pub use outside::{Collected, Feed};
pub use probe::{Passed, Probe};
pub use seed::for_each_seed;

pub use crate::trial::{Armed, Room};
