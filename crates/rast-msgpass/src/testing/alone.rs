//! `TestCx`: one processor, with stubs in place of the others.

use core::fmt;
use core::marker::PhantomData;
use std::collections::VecDeque;
use std::panic::resume_unwind;

use super::driver::Driver;
use super::graph::TestGraph;
use super::probe::Passed;
use super::stub::{Around, Seen, Stub};
use crate::batch::Batch;
use crate::clock::GraphClock;
use crate::door::Doors;
use crate::egress::LaneTap;
use crate::ending::EndedBy;
use crate::graph::{Edge, EdgeKind, End, Graph, Node, Tables};
use crate::handle::{Handle, Run};
use crate::instance::AnyInstance;
use crate::instance_core::Core;
use crate::policy::{OnPanic, Policy};
use crate::primitive::panics::{contain, discard};
use crate::primitive::sync::{Arc, Mutex};
use crate::process::Process;
use crate::queue::Full;
use crate::runtime::Runtime;
use crate::sharder::{ShardId, Sharder};
use crate::shared::{Hooks, Shared};
use crate::timers::{Instant, ManualClock, Nanos};
use crate::trial::{Armed, Place};
use crate::wiring::{Wired, Wiring, join};

/// One processor of a graph alone, on the thread of a test. The test sends messages to the
/// processor, and reads those that the processor sends.
///
/// The edges are those of the graph, with their room, bursts and credit. So the processor can
/// answer only a request that it got, and a `send` past the burst panics. At the other ends of the
/// edges are stubs, which accept everything at once. A panic of a handler propagates to the call
/// that ran the turn.
///
/// ```
/// use std::time::Duration;
/// use rast_msgpass::testing::TestCx;
/// use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, Timer, graph};
///
/// struct Front;
/// struct Server(u64);
/// struct Ask;
/// #[derive(Debug, PartialEq)]
/// struct Answer(u64);
///
/// graph! {
///     graph App {
///         processors { front: Front, server: Server }
///         edges {
///             ingress -> front: Ask;
///             front -> server: Ask;
///             server -> front: Answer [reply = Ask];
///             front -> egress: Answer;
///         }
///     }
/// }
/// # impl Process<App> for Front {}
/// # impl Receive<App, Ingress, Ask> for Front {
/// #     fn receive(&mut self, ask: Ask, cx: &mut Cx<'_, App, Self>) {
/// #         cx.to::<Server>().send(ask);
/// #     }
/// # }
/// # impl Receive<App, Server, Answer> for Front {
/// #     fn receive(&mut self, answer: Answer, cx: &mut Cx<'_, App, Self>) {
/// #         cx.to::<Egress>().send(answer);
/// #     }
/// # }
/// impl Process<App> for Server {}
/// impl Receive<App, Front, Ask> for Server {
///     fn receive(&mut self, _: Ask, cx: &mut Cx<'_, App, Self>) {
///         cx.to::<Front>().send(Answer(self.0));
///         cx.after(Duration::from_millis(1), 1_u64);
///     }
/// }
/// impl Receive<App, Timer, u64> for Server {
///     fn receive(&mut self, more: u64, _: &mut Cx<'_, App, Self>) {
///         self.0 += more;
///     }
/// }
///
/// let mut server = TestCx::<App, Server>::new(Server(7));
/// server.receive::<Front, Ask>(Ask);
/// assert_eq!(server.sent::<Front, Answer>(), [Answer(7)]);
/// assert_eq!(server.armed()[0].after, Duration::from_millis(1).into());
/// server.advance(Duration::from_millis(1));
/// server.receive::<Front, Ask>(Ask);
/// assert_eq!(server.sent::<Front, Answer>(), [Answer(8)]);
/// assert_eq!(server.into_inner().0, 8);
/// ```
pub struct TestCx<G: Graph, P> {
    graph: TestGraph<G>,
    shard: ShardId,
    replica: usize,
    around: Arc<Mutex<Around>>,
    /// Of the edges to egress.
    lanes: Vec<Lane>,
    /// What handlers panicked with.
    failed: Arc<Mutex<Vec<String>>>,
    processor: PhantomData<fn() -> P>,
}

struct Lane {
    edge: usize,
    number: usize,
    tap: LaneTap,
}

impl<G: Node<P>, P: Process<G>> TestCx<G, P> {
    /// Sets a processor up as the first replica, and gives it its first turn, with the ping.
    ///
    /// # Panics
    ///
    /// As [`on_start`](Process::on_start) and the ping.
    #[must_use]
    pub fn new(processor: P) -> Self
    where
        G: Wired,
    {
        Self::at(0, processor)
    }

    /// As [`new`](Self::new), for the replica with this number. If the builder gets the number of
    /// replicas, there are just enough of `P`, and the minimum of the others.
    ///
    /// # Panics
    ///
    /// As `new`; and when there is no such replica.
    #[must_use]
    pub fn at(replica: usize, processor: P) -> Self
    where
        G: Wired,
    {
        let node = <G as Node<P>>::ID;
        let counts = G::PROCESSORS
            .iter()
            .enumerate()
            .map(|(at, info)| match at == node {
                // Where the builder gets the number: as many as it takes for this one.
                true => info
                    .replicas
                    .max(replica.saturating_add(1))
                    .min(info.replicas_max),
                false => info.replicas,
            });
        let counts: Vec<usize> = counts.collect();
        let clock = ManualClock::new();
        let policies = vec![Policy::Plain(OnPanic::Continue); G::PROCESSORS.len()];
        let failed: Arc<Mutex<Vec<String>>> = Arc::default();
        let texts = Arc::clone(&failed);
        let hooks = Hooks {
            on_failure: Some(Box::new(move |failure| {
                texts.lock().push(failure.to_string())
            })),
            ..Hooks::default()
        };
        let own_clock = GraphClock::new(clock.clone());
        let shared = Shared::new(
            Tables::of::<G>(),
            1,
            policies,
            hooks,
            own_clock,
            &counts,
            &[],
        );
        let shard = shared.shard_of(node, replica);
        let shards = shared.stats.len();
        let around = Arc::new(Mutex::new(Around {
            orders: (0..shards).map(|_| VecDeque::new()).collect(),
            ..Around::default()
        }));
        let Wiring {
            mut parts, outside, ..
        } = Wiring::alone::<G>(Arc::clone(&shared), shard.index());
        let routes = parts.iter_mut();
        let routes = routes.map(|parts| core::mem::take(&mut parts.routes));
        let routes = routes.collect();
        let mut processor = Some(processor);
        let instances = parts.into_iter().enumerate().map(|(at, parts)| {
            let core = Core::new(&shared, at);
            let own = processor.take_if(|_| at == shard.index());
            let instance: Box<dyn AnyInstance> = match own {
                Some(processor) => join::<G, P>(processor, parts, core, Batch::messages(64), None),
                None => Box::new(Stub::new(parts, core, at, Arc::clone(&around))),
            };
            instance
        });
        let instances = instances.collect();
        let runtime = Runtime {
            shared: Arc::clone(&shared),
            routes,
        };
        let sharder = Sharder::builder(runtime)
            .shards(instances)
            .workers(1)
            .period(core::time::Duration::ZERO)
            .clock(clock.clone())
            .build();
        let sharder = sharder.unwrap_or_else(|error| panic!("graph `{}`: {error}", G::NAME));
        let stepper = sharder.stepper();
        let run = Run::new(Arc::clone(&shared), stepper.handle(), outside);
        let lanes = lanes(&run, <G as Node<P>>::END);
        let batches = vec![64; G::PROCESSORS.len()];
        let driver = Driver::new(shared, stepper, clock, batches, 0);
        let mut alone = Self {
            graph: TestGraph::new(Handle::new(run), driver),
            shard,
            replica,
            around,
            lanes,
            failed,
            processor: PhantomData,
        };
        alone.graph.driver.core(shard).trial().armed = Some(Vec::new());
        alone.turn();
        alone
    }

    /// Returns the graph of the processor and its stubs: to stall one of these by
    /// [`pause`](TestGraph::pause), or for [`set_room`](TestGraph::set_room) and
    /// [`panic_at`](TestGraph::panic_at).
    pub fn graph(&mut self) -> &mut TestGraph<G> {
        &mut self.graph
    }

    /// Sends a message to the processor from the stub of `F` (the first one if `F` has replicas, or
    /// a sender outside for [`Ingress`](crate::Ingress)), and gives the processor a turn. The
    /// message is handled in that turn, unless the processor waits for room or credit. Then an edge
    /// with `drop_newest`, `drop_oldest` or `latest` drops what finds no room, as in the graph. An
    /// `unbounded` edge at its ceiling stops the graph.
    ///
    /// # Panics
    ///
    /// If there is no room or credit for the message, also on an edge with `reject`. If it is an
    /// answer, and no request waits for one. Also as [`turn`](Self::turn).
    pub fn receive<F, M>(&mut self, message: M)
    where
        G: Node<F> + Node<P>,
        M: Edge<G, F, P>,
    {
        self.receive_from::<F, M>(0, message);
    }

    /// As [`receive`](Self::receive), from the replica with this number.
    ///
    /// # Panics
    ///
    /// As `receive`; and when there is no such replica.
    pub fn receive_from<F, M>(&mut self, sender: usize, message: M)
    where
        G: Node<F> + Node<P>,
        M: Edge<G, F, P>,
    {
        let target = self.replica;
        let run = &self.graph.handle().run;
        if let End::Processor(_) = <G as Node<F>>::END {
            let shard = self.graph.handle().shard_of::<F>(sender);
            assert!(shard != self.shard, "the processor does not send to itself");
            self.around.lock().orders[shard.index()].push_back(Box::new(move |core, tickets| {
                let invocation = core.invocation;
                let out = core.out::<M>(M::OUT);
                let sent = match M::INFO.kind {
                    EdgeKind::Reply { .. } => match tickets.take(M::OUT, target) {
                        Some(ticket) => Ok(out.answer_by(ticket, message)),
                        None => out.request_fault(),
                    },
                    EdgeKind::DropOldest | EdgeKind::Latest => {
                        Ok(out.send_evicting(target, message))
                    }
                    EdgeKind::DropNewest => Ok(out.send_or_drop(target, message, false)),
                    EdgeKind::Reject => out.offer(target, message),
                    // By `put`, another replica could get it.
                    EdgeKind::Bounded if M::INFO.any => {
                        out.try_send(target, message, invocation, false)
                    }
                    EdgeKind::Bounded if !out.queue_has_room(target, 1) => Err(Full(message)),
                    _ => Ok(out.put(target, message)),
                };
                match sent {
                    Ok(news) => core.note(M::OUT, news),
                    Err(Full(message)) => {
                        discard(message);
                        panic!(
                            "graph `{}`, edge {}: the test sends a message for which there is no \
                             room or credit",
                            G::NAME,
                            M::INFO,
                        )
                    }
                }
            }));
            run.sharder.wake(shard);
        } else {
            let doors: Option<&Arc<Doors<M>>> = run.door(<M as Edge<G, F, P>>::ID);
            let doors = doors.expect("an edge from ingress has doors for its message");
            if let Err(error) = doors.doors[target].try_send(message) {
                panic!("graph `{}`, edge {}: {error}", G::NAME, M::INFO);
            }
            run.sharder.wake(self.shard);
        }
        self.turn();
    }

    /// Gives the processor a turn if it wants one: messages, timers that are due, a ping. Returns
    /// whether it had one. The stubs have theirs before and after it.
    ///
    /// # Panics
    ///
    /// If a handler panics, or an answer that the test sends has no request.
    pub fn turn(&mut self) -> bool {
        let driver = &mut self.graph.driver;
        driver.turns_of_others(self.shard);
        let had_one = driver.turn_of(self.shard);
        driver.turns_of_others(self.shard);
        let mut around = self.around.lock();
        let now = self.graph.now();
        for lane in &mut self.lanes {
            let place = Place {
                sender: self.replica,
                receiver: lane.number,
                at: now,
            };
            let edge = lane.edge;
            (lane.tap)(&mut |message| {
                around.seen.push(Seen {
                    edge,
                    place,
                    message: Some(message),
                });
            });
        }
        let failed = around.failed.take();
        drop(around);
        if let Some(payload) = failed {
            resume_unwind(payload);
        }
        self.fail();
        had_one
    }

    /// Resumes the first panic of a handler since the last look, if there was one.
    fn fail(&self) {
        let failed = core::mem::take(&mut *self.failed.lock());
        if let Some(text) = failed.first() {
            panic!("{text}");
        }
    }

    /// Moves the clock forwards and gives the processor a turn.
    ///
    /// # Panics
    ///
    /// As [`turn`](Self::turn).
    pub fn advance(&mut self, span: impl Into<Nanos>) {
        self.graph.advance(span);
        self.turn();
    }

    /// Returns the time of the graph.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.graph.now()
    }

    /// Tells the processor that a replica of `To` is retired, if it [watches](crate::Cx::watch)
    /// `To`, and gives it a turn. From then on `.any()` passes the replica over.
    ///
    /// # Panics
    ///
    /// As [`turn`](Self::turn); and when there is no such replica.
    pub fn retire<To>(&mut self, replica: usize)
    where
        G: Node<To>,
    {
        let shard = self.graph.handle().shard_of::<To>(replica).index();
        let shared = &self.graph.handle().run.shared;
        if !shared.deaths.has(shard) {
            shared.retire(shard);
        }
        self.turn();
    }

    /// Takes the messages that were sent on the edge to `To` with `M` since the last call, in
    /// order.
    #[must_use]
    pub fn sent<To, M>(&mut self) -> Vec<M>
    where
        G: Node<To>,
        M: Edge<G, P, To>,
    {
        let passed = self.passed::<To, M>().into_iter();
        passed.map(|passed| passed.message).collect()
    }

    /// As [`sent`](Self::sent), with the replica or lane that got each.
    #[must_use]
    pub fn passed<To, M>(&mut self) -> Vec<Passed<M>>
    where
        G: Node<To>,
        M: Edge<G, P, To>,
    {
        let taken = self.take_seen(<M as Edge<G, P, To>>::ID, false).into_iter();
        let passed = taken.filter_map(|seen| {
            let message = seen.message?.downcast::<M>();
            let message = message.expect("an edge carries its own message");
            Some(Passed::new(seen.place, *message))
        });
        passed.collect()
    }

    /// Returns how many requests of `To` were waived since the last call, on the edge of the
    /// answers `M`.
    #[must_use]
    pub fn waived<To, M>(&mut self) -> usize
    where
        G: Node<To>,
        M: Edge<G, P, To>,
    {
        self.take_seen(<M as Edge<G, P, To>>::ID, true).len()
    }

    /// Takes what was seen of an edge: its messages, or its waivers.
    fn take_seen(&mut self, edge: usize, are_waivers: bool) -> Vec<Seen> {
        let mut around = self.around.lock();
        let is_its = |seen: &Seen| seen.edge == edge && seen.message.is_none() == are_waivers;
        let seen = core::mem::take(&mut around.seen).into_iter();
        let (its, left) = seen.partition(is_its);
        around.seen = left;
        its
    }

    /// Takes the timers that were armed since the last call, in order; also those that fired or
    /// were cancelled.
    #[must_use]
    pub fn armed(&mut self) -> Vec<Armed> {
        let armed = &mut self.graph.driver.core(self.shard).trial().armed;
        armed.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Returns when the next timer or ping is due, or an earlier one that was cancelled.
    #[must_use]
    pub fn next_alarm(&mut self) -> Option<Instant> {
        self.graph.next_alarm()
    }

    /// Returns the processor.
    #[must_use]
    pub fn processor(&mut self) -> &P {
        self.graph.processor::<P>(self.replica)
    }

    /// Ends the test and returns the processor. Messages that are queued for it are dropped.
    ///
    /// # Panics
    ///
    /// If its [`on_stop`](Process::on_stop) does.
    #[must_use]
    pub fn into_inner(mut self) -> P {
        let shard = self.shard.index();
        self.graph.end(EndedBy::Stop);
        if let Err(payload) = contain(|| self.fail()) {
            self.graph.handle().run.drop_states();
            resume_unwind(payload);
        }
        let report = self.graph.handle().run.report();
        let processor = report.states.take(shard..shard + 1).pop();
        processor.expect("a shard has a state until it is taken")
    }
}

impl<G: Graph, P> Drop for TestCx<G, P> {
    /// Drops the messages that the test did not take one by one: two destructors that panic in the
    /// drop of a list would abort the process.
    fn drop(&mut self) {
        let around = core::mem::take(&mut *self.around.lock());
        around.seen.into_iter().for_each(discard);
        around.orders.into_iter().flatten().for_each(discard);
        discard(around.failed);
    }
}

/// Takes the lanes of a processor.
fn lanes(run: &Run, from: End) -> Vec<Lane> {
    let mut receivers = run.receivers.lock();
    let edges = run
        .shared
        .edges
        .iter()
        .zip(receivers.iter_mut())
        .enumerate();
    let edges = edges.filter(|(_, (info, _))| info.from == from);
    let lanes = edges.flat_map(|(edge, (_, lanes))| {
        let lanes = lanes.iter_mut().enumerate();
        lanes.filter_map(move |(number, lane)| {
            let tap = lane.take()?.tap(run.sharder.clone());
            Some(Lane { edge, number, tap })
        })
    });
    lanes.collect()
}

impl<G: Graph, P> fmt::Debug for TestCx<G, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestCx")
            .field("graph", &self.graph)
            .field("replica", &self.replica)
            .finish_non_exhaustive()
    }
}
