//! Reading a graph from other threads.

use rast_msgpass::{Cx, EndedBy, Ingress, Process, Receive, Viewer, graph};

struct Sum(u64);

graph! {
    graph Seen {
        processors { sum: [Sum; _] }
        edges { ingress -> sum: u64; }
    }
}

impl Process<Seen> for Sum {}
impl Receive<Seen, Ingress, u64> for Sum {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, Seen, Self>) {
        assert!(number < 100, "too large");
        self.0 += number;
    }
}

#[test]
fn a_viewer_reads_on_other_threads_and_after_the_end() {
    fn is_shared<T: Send + Sync + Clone>(_: &T) {}
    let app = Seen::builder((0..3).map(Sum)).workers(2).start().unwrap();
    let viewer: Viewer = app.viewer();
    is_shared(&viewer);
    let numbers = app.ingress::<Sum, u64>();
    (0..3).for_each(|replica| numbers.at(replica).send(7).unwrap());
    numbers.at(1).send(100).unwrap();
    let reader = {
        let viewer = viewer.clone();
        std::thread::spawn(move || {
            while viewer.metrics().edges[0].received < 4 {
                std::thread::yield_now();
            }
            viewer.report().panics.len()
        })
    };
    assert_eq!(reader.join().unwrap(), 1);
    assert_eq!(viewer.ended_by(), None);
    let assignment = viewer.assignment().assignment;
    let metrics = viewer.metrics();
    for instance in &metrics.instances {
        let shard = app.shard_of::<Sum>(instance.replica);
        assert!(assignment.owner(shard).index() < 2);
    }
    let report = app.stop();
    assert_eq!(viewer.ended_by(), Some(EndedBy::Stop));
    assert_eq!(viewer.report().received_total(), report.received_total());
    // The states are the report's alone.
    assert!(viewer.report().take_states::<Seen, Sum>().is_empty());
    let sums: Vec<u64> = report
        .take_states::<Seen, Sum>()
        .iter()
        .map(|sum| sum.0)
        .collect();
    assert_eq!(sums, [7, 8, 9]);
}

#[test]
fn a_viewer_keeps_no_processor_alive() {
    struct Tells {
        _alive: std::sync::Arc<()>,
    }
    graph! {
        graph Ended {
            processors { tells: Tells [source] }
            edges {}
        }
    }
    impl Process<Ended> for Tells {}
    let alive = std::sync::Arc::new(());
    let app = Ended::builder(Tells {
        _alive: std::sync::Arc::clone(&alive),
    })
    .start()
    .unwrap();
    let viewer = app.viewer();
    drop(app);
    assert_eq!(std::sync::Arc::strong_count(&alive), 1);
    assert_eq!(viewer.ended_by(), Some(EndedBy::Dropped));
}
