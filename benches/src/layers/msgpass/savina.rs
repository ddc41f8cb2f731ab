//! The programs of the Savina suite that a static graph can run, against actors, tasks and threads.
//!
//! Source: S. Imam and V. Sarkar, "Savina: An Actor Benchmark Suite", AGERE 2014, with the default
//! parameters of its repository. `fib`, `fjcreate`, `quicksort` and others are left out, because
//! they create actors while they run, and the processors of a graph are fixed.
//!
//! The last column says on which of two workers our processors are. "In turn" means that they
//! alternate between the workers.
//!
//! | program | parameters | ours on two workers |
//! | --- | --- | --- |
//! | ping-pong | 40,000 pings | all on one |
//! | counting | 1,000,000 increments | one on each |
//! | thread ring | 100 actors, 100,000 hops | all on one |
//! | fork-join throughput | 60 actors, 10,000 messages each | actors in turn |
//! | big | 120 actors, 20,000 pings each | all on one |
//! | chameneos | 100 creatures, 200,000 meetings | all on one |
//! | philosophers | 20 philosophers, 10,000 meals each | all on one |
//! | bounded buffer | 40 producers, 40 consumers, room for 50, 1,000 items per producer; making an item and using it cost 25 each | replicas in turn |
//! | concurrent dictionary | 20 workers, 10,000 requests each, 10 % writes | all on one |
//! | banking | 1,000 accounts, 50,000 transfers | all on one |
//! | logistic map | 10 series of 25,000 terms | series in turn |
//! | radix sort | 100,000 values of 60 bits | groups of four neighbours in turn |
//! | trapezoid | 100 workers, 10,000,000 pieces | workers in turn |
//!
//! The programs follow the Akka versions in that repository. An edge of a graph is bounded if its
//! senders may wait, and a source with a bounded edge sends in bursts.
//!
//! Some actors of Savina send a message to themselves to begin their next round. Here, in every
//! contender, they begin the next round at once. Before the first message all threads sleep.
//!
//! The actors of actix are on the same threads as the processors of the graph, with three
//! exceptions. In counting, fork-join and radix sort they are placed so that actix is fastest. The
//! runtime of ractor, kameo and tokio moves tasks between its threads by itself.
//!
//! A run counts only the messages that every run needs. For example, if a philosopher is denied its
//! forks and asks again, these messages do not count.

use std::any::Any;
use std::sync::{Arc, Barrier};

use rast::msgpass::{Builder, Graph, Node};

use self::watch::{Watch, watch};
use super::LAYER;
use super::actors::{Actor, Peers, Rival, Threads};
use crate::harness::Scenario;
use crate::workers::Sample;

mod banking;
mod big;
mod bounded_buffer;
mod chameneos;
mod counting;
mod dictionary;
mod fork_join;
mod logistic_map;
mod philosophers;
mod ping_pong;
mod radix_sort;
pub(crate) mod summary;
mod thread_ring;
mod trapezoid;
pub(super) mod watch;

/// Threads of the rivals, and workers of ours.
const THREADS: usize = 2;

/// The rows of ours, on [`THREADS`] workers and on one.
const OURS: &str = "rast graph, two workers";
const OURS_ALONE: &str = "rast graph, one worker";

/// The most actors for which the program runs on a thread per actor.
const THREADS_MAX: usize = 128;

/// One program of the suite.
trait Program: 'static {
    /// The scenario.
    const NAME: &'static str;
    /// The size of a run: a number of pings, items or values, as the docs of the program say.
    const SIZE: u64;
    /// The size of a smoke run.
    const SMOKE: u64;
    /// Actors that report the end.
    const PARTS: u64 = 1;
    /// The part of the size that a thread per actor runs. It is small if each message costs a
    /// switch of threads.
    const THREADS_SHARE: u64 = 10;

    /// The actors of the rivals.
    type Actor: Actor;

    /// The messages that every run of this size needs.
    fn messages(size: u64) -> u64;

    /// The result of every run of this size.
    fn expected(size: u64) -> u64;

    /// Makes the actors.
    fn actors(size: u64, watch: &Watch) -> Vec<Self::Actor>;

    /// The messages from outside that begin the run.
    fn first() -> Vec<(usize, <Self::Actor as Actor>::Message)>;

    /// The worker of the processor that does an actor's work.
    fn home(actor: usize, threads: usize) -> usize {
        let _ = (actor, threads);
        0
    }

    /// The thread of an actor of actix.
    fn arbiter(actor: usize, threads: usize) -> usize {
        Self::home(actor, threads)
    }

    /// Starts the graph and its run; the graph stops when the result is dropped.
    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any>;
}

/// Pins the replicas of a processor to the workers of their actors, which begin at index `first`.
fn placed<S: Program, G: Graph + Node<P>, P>(
    builder: Builder<G>,
    first: usize,
    count: usize,
    workers: usize,
) -> Builder<G> {
    (0..count).fold(builder, |builder, replica| {
        builder.pin::<P>(replica, S::home(first + replica, workers))
    })
}

/// Starts a graph with the given number of workers. The run begins when all of them sleep, like the
/// threads of a rival before the first message. A thread outside wakes the first worker, and each
/// worker wakes the next one, as the threads of tokio do.
fn started<G: Graph>(builder: Builder<G>, workers: usize, watch: &Watch) -> Box<dyn Any> {
    let began = Arc::new(Barrier::new(workers + 1));
    let gates: Arc<[Barrier]> = (0..workers).map(|_| Barrier::new(2)).collect();
    let (theirs, all_began) = (Arc::clone(&gates), Arc::clone(&began));
    let builder = builder.workers(workers).on_worker_start(move |worker| {
        all_began.wait();
        let (own, next) = (&theirs[worker.index()], theirs.get(worker.index() + 1));
        own.wait();
        if let Some(next) = next {
            next.wait();
        }
    });
    let graph = builder.start().expect("a valid graph");
    began.wait();
    watch.begin();
    gates[0].wait();
    Box::new(graph)
}

/// A run of ours. All runs have the same size, so the expected result is computed once.
fn ours<S: Program>(workers: usize) -> impl FnMut(u64) -> Sample {
    let mut expected = None;
    move |size| {
        let expected = *expected.get_or_insert_with(|| S::expected(size));
        let (watch, end) = watch(S::PARTS);
        let running = S::graph(size, workers, &watch);
        let sample = end.wait(S::messages(size), expected);
        drop(running);
        throughput(sample)
    }
}

/// A run of a rival, of a part of the size.
fn theirs<S: Program, R: Rival>(share: u64) -> impl FnMut(u64) -> Sample {
    let mut expected = None;
    move |size| {
        let size = size.div_ceil(share);
        let expected = *expected.get_or_insert_with(|| S::expected(size));
        let (watch, end) = watch(S::PARTS);
        let actors = S::actors(size, &watch);
        let homes: Vec<usize> = (0..actors.len())
            .map(|actor| S::arbiter(actor, THREADS))
            .collect();
        let sample = R::run(actors, &homes, THREADS, |peers| {
            watch.begin();
            for (to, message) in S::first() {
                peers.send(to, message);
            }
            end.wait(S::messages(size), expected)
        });
        throughput(sample)
    }
}

fn throughput(sample: Sample) -> Sample {
    let millions = sample.done as f64 / sample.elapsed.as_secs_f64() / 1e6;
    sample
        .by(THREADS)
        .with("million messages per second", millions)
}

/// The scenario of a program, with all contenders.
fn row<S: Program>() -> Scenario {
    let scenario = Scenario::new(LAYER, S::NAME, S::SIZE, S::SMOKE)
        .ours(OURS, ours::<S>(THREADS))
        .ours(OURS_ALONE, ours::<S>(1));
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let scenario = {
        use super::actors::{Actix, Kameo, Ractor, Tasks};
        scenario
            .rival(Actix::NAME, theirs::<S, Actix>(1))
            .rival(Ractor::NAME, theirs::<S, Ractor>(1))
            .rival(Kameo::NAME, theirs::<S, Kameo>(1))
            .rival(Tasks::NAME, theirs::<S, Tasks>(1))
    };
    if S::actors(1, &watch(S::PARTS).0).len() > THREADS_MAX {
        return scenario;
    }
    scenario.rival(Threads::NAME, theirs::<S, Threads>(S::THREADS_SHARE))
}

/// The scenarios.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        row::<ping_pong::PingPong>(),
        row::<counting::Counting>(),
        row::<thread_ring::ThreadRing>(),
        row::<fork_join::ForkJoin>(),
        row::<big::Big>(),
        row::<chameneos::Chameneos>(),
        row::<philosophers::Philosophers>(),
        row::<bounded_buffer::BoundedBuffer>(),
        row::<dictionary::ConcurrentDictionary>(),
        row::<banking::Banking>(),
        row::<logistic_map::LogisticMap>(),
        row::<radix_sort::RadixSort>(),
        row::<trapezoid::Trapezoid>(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ours on one and two workers, and a thread per actor, with the checks of a run.
    fn runs<S: Program>() {
        ours::<S>(1)(S::SMOKE);
        ours::<S>(2)(S::SMOKE);
        if S::actors(1, &watch(S::PARTS).0).len() <= THREADS_MAX {
            theirs::<S, Threads>(1)(S::SMOKE);
        }
    }

    macro_rules! each_program_has_its_result {
        ($($name:ident: $program:ty),* $(,)?) => {
            $(
                #[test]
                fn $name() {
                    runs::<$program>();
                }
            )*
        };
    }

    each_program_has_its_result! {
        ping_pong_is_right: ping_pong::PingPong,
        counting_is_right: counting::Counting,
        thread_ring_is_right: thread_ring::ThreadRing,
        fork_join_is_right: fork_join::ForkJoin,
        big_is_right: big::Big,
        chameneos_is_right: chameneos::Chameneos,
        philosophers_are_right: philosophers::Philosophers,
        bounded_buffer_is_right: bounded_buffer::BoundedBuffer,
        dictionary_is_right: dictionary::ConcurrentDictionary,
        banking_is_right: banking::Banking,
        logistic_map_is_right: logistic_map::LogisticMap,
        radix_sort_is_right: radix_sort::RadixSort,
        trapezoid_is_right: trapezoid::Trapezoid,
    }
}
