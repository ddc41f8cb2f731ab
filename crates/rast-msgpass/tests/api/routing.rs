//! Replicas: by key, any, all, by index; and a second instance of a type.

use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};

use crate::LONG;

#[derive(Clone, Debug)]
enum Order {
    Key(u64),
    Any(u64),
    All(u64),
    At(usize),
}

#[derive(Clone)]
struct Job(u64);

/// Which replica handled which job.
struct Seen {
    replica: usize,
    job: u64,
}

struct Router;
struct Worker;

graph! {
    graph Routes {
        processors { router: Router, worker: [Worker; 3] }
        edges {
            ingress -> router: Order;
            router -> worker: Job [cap = 4];
            worker -> egress: Seen;
        }
    }
}

impl Process<Routes> for Router {}
impl Receive<Routes, Ingress, Order> for Router {
    fn receive(&mut self, order: Order, cx: &mut Cx<'_, Routes, Self>) {
        match order {
            Order::Key(key) => cx.to::<Worker>().key(key).send(Job(key)),
            Order::Any(job) => cx.to::<Worker>().any().send(Job(job)),
            Order::All(job) => cx.to::<Worker>().all().send(Job(job)),
            Order::At(index) => cx.to::<Worker>().at(index).send(Job(index as u64)),
        }
    }
}
impl Process<Routes> for Worker {}
impl Receive<Routes, Router, Job> for Worker {
    fn receive(&mut self, job: Job, cx: &mut Cx<'_, Routes, Self>) {
        let replica = cx.replica();
        assert_eq!(cx.sender(), 0);
        cx.to::<Egress>().send(Seen {
            replica,
            job: job.0,
        });
    }
}

fn route(orders: &[Order], results: usize) -> Vec<(usize, u64)> {
    let app = Routes::builder(Router, [Worker, Worker, Worker])
        .workers(2)
        .start()
        .unwrap();
    let mut out = app.egress::<Worker, Seen>(0);
    let into = app.ingress::<Router, Order>();
    for order in orders {
        into.send(order.clone()).unwrap();
    }
    let seen = (0..results).map(|_| out.recv_timeout(LONG).unwrap());
    let mut seen: Vec<_> = seen.map(|seen| (seen.replica, seen.job)).collect();
    let report = app.drain(LONG).unwrap();
    assert!(report.panics.is_empty(), "{report}");
    assert!(out.try_recv().is_err());
    seen.sort_unstable();
    seen
}

#[test]
fn equal_keys_meet_at_one_replica() {
    let orders: Vec<_> = (0..30).map(Order::Key).collect();
    for (replica, job) in route(&orders, 30) {
        assert_eq!(replica, rast_msgpass::replica_of(job, 3));
    }
}

#[test]
fn any_takes_turns() {
    let orders: Vec<_> = (0..30).map(Order::Any).collect();
    let seen = route(&orders, 30);
    for replica in 0..3 {
        assert!(seen.iter().any(|seen| seen.0 == replica));
    }
    let mut jobs: Vec<_> = seen.iter().map(|seen| seen.1).collect();
    jobs.sort_unstable();
    assert_eq!(jobs, (0..30).collect::<Vec<_>>());
}

#[test]
fn all_get_a_copy_each() {
    let seen = route(&[Order::All(7), Order::At(2)], 4);
    assert_eq!(seen, [(0, 7), (1, 7), (2, 2), (2, 7)]);
}

mod twins {
    use super::*;

    #[derive(Default)]
    pub(super) struct Count(pub(super) u64);

    graph! {
        /// Two processors of one type.
        pub(super) graph Twins {
            processors { first: Count, second: (struct Second(Count)) }
            edges {
                ingress -> first: u64;
                first -> second: u64;
                second -> egress: u64;
            }
        }
    }

    impl Process<Twins> for Count {}
    impl Receive<Twins, Ingress, u64> for Count {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Twins, Self>) {
            self.0 += number;
            cx.to::<Second>().send(self.0);
        }
    }
    impl Process<Twins> for Second {}
    impl Receive<Twins, Count, u64> for Second {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Twins, Self>) {
            // Through Deref to the processor inside.
            self.0.0 += number;
            cx.to::<Egress>().send(self.0.0);
        }
    }
}

#[test]
fn a_second_instance_is_a_newtype() {
    use twins::{Count, Second, Twins};
    let app = Twins::builder(Count(0), Second(Count(100)))
        .start()
        .unwrap();
    let mut out = app.egress::<Second, u64>(0);
    let into = app.ingress::<Count, u64>();
    into.send(1).unwrap();
    into.send(2).unwrap();
    assert_eq!(out.recv(), Ok(101));
    assert_eq!(out.recv(), Ok(104));
}
