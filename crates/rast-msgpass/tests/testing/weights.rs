//! Bursts on edges with `bytes`.

use rast_msgpass::testing::for_each_seed;
use rast_msgpass::{Cx, Ingress, Process, Receive, Weight, graph};

const SEEDS: u64 = 50;

struct Bulk;

struct Load(usize);

impl Weight for Load {
    fn weight(&self) -> usize {
        self.0
    }
}

/// Sends a burst of loads of one weight.
struct Loader {
    runs: u64,
}
#[derive(Default)]
struct Scale(Vec<usize>);

const BOUND: usize = 10;
const BURST: usize = 4;

graph! {
    graph Loads {
        processors { loader: Loader, scale: Scale }
        edges {
            ingress -> loader: usize;
            ingress -> loader: Bulk;
            loader -> scale: Load [bytes = 10, burst = 4, cap = 64];
        }
    }
}

impl Process<Loads> for Loader {}
impl Receive<Loads, Ingress, usize> for Loader {
    fn receive(&mut self, weight: usize, cx: &mut Cx<'_, Loads, Self>) {
        self.runs += 1;
        (0..BURST).for_each(|_| cx.to::<Scale>().send(Load(weight)));
    }
}
impl Receive<Loads, Ingress, Bulk> for Loader {
    fn receive(&mut self, _: Bulk, cx: &mut Cx<'_, Loads, Self>) {
        // The rest of the burst is promised; behind it there is room for one at least.
        for left in [4, 3, 2, 1, 1, 1, 1, 1, 1, 1] {
            assert_eq!(cx.to::<Scale>().room::<Load>(), left);
            assert!(cx.to::<Scale>().try_send(Load(1)).is_ok());
        }
        assert_eq!(cx.to::<Scale>().room::<Load>(), 0);
        assert!(cx.to::<Scale>().try_send(Load(1)).is_err());
    }
}
impl Process<Loads> for Scale {}
impl Receive<Loads, Loader, Load> for Scale {
    fn receive(&mut self, load: Load, _: &mut Cx<'_, Loads, Self>) {
        self.0.push(load.0);
    }
}

#[test]
fn queued_messages_weigh_at_most_the_bound_and_one_burst() {
    for_each_seed(0..SEEDS, |seed| {
        for weight in [0, 1, 2, BOUND - 1, BOUND, usize::MAX] {
            let app = Loads::builder(Loader { runs: 0 }, Scale::default());
            let mut app = app.workers(1 + seed as usize % 2).test(seed).unwrap();
            app.pause::<Scale>(0);
            app.feed::<Loader, usize>(vec![weight; 100]);
            app.run_until_idle();
            let runs = app.processor::<Loader>(0).runs as usize;
            // It runs while less than the bound is queued, and while a burst fits beside it.
            let by_bytes = match weight {
                0 => usize::MAX,
                weight => BOUND.div_ceil(weight.saturating_mul(BURST)),
            };
            assert_eq!(runs, by_bytes.min(64 / BURST), "weight {weight}");
            app.resume::<Scale>(0);
            let report = app.drain().unwrap();
            let scale = &report.take_states::<Loads, Scale>()[0];
            assert_eq!(scale.0, vec![weight; 100 * BURST]);
        }
    });
}

#[test]
fn an_edge_with_bytes_has_room_for_one_at_least_until_it_is_full() {
    let app = Loads::builder(Loader { runs: 0 }, Scale::default());
    let mut app = app.test(1).unwrap();
    app.send::<Loader, Bulk>(Bulk).unwrap();
    let report = app.drain().unwrap();
    assert!(report.panics.is_empty(), "{report}");
    assert_eq!(report.take_states::<Loads, Scale>()[0].0, [1; BOUND]);
}

/// Sends each number by each way.
struct Sorter;
#[derive(Default)]
struct Bin(Vec<usize>);

graph! {
    graph Boundless {
        processors { sorter: Sorter, bin: Bin }
        edges {
            ingress -> sorter: usize;
            sorter -> bin: Load [bytes = 10, cap = usize::MAX, burst = usize::MAX];
            sorter -> bin: usize [drop_oldest, cap = usize::MAX];
        }
    }
}

impl Process<Boundless> for Sorter {}
impl Receive<Boundless, Ingress, usize> for Sorter {
    fn receive(&mut self, number: usize, cx: &mut Cx<'_, Boundless, Self>) {
        cx.to::<Bin>().send(Load(number));
        cx.to::<Bin>().send(number);
    }
}
impl Process<Boundless> for Bin {}
impl Receive<Boundless, Sorter, Load> for Bin {
    fn receive(&mut self, load: Load, _: &mut Cx<'_, Boundless, Self>) {
        self.0.push(load.0);
    }
}
impl Receive<Boundless, Sorter, usize> for Bin {
    fn receive(&mut self, number: usize, _: &mut Cx<'_, Boundless, Self>) {
        self.0.push(number);
    }
}

#[test]
fn a_queue_under_a_lock_may_have_any_cap() {
    let mut app = Boundless::builder(Sorter, Bin::default()).test(1).unwrap();
    for number in 0..20 {
        app.send::<Sorter, usize>(number).unwrap();
    }
    let report = app.drain().unwrap();
    assert!(report.panics.is_empty(), "{report}");
    assert_eq!(report.take_states::<Boundless, Bin>()[0].0.len(), 40);
}
