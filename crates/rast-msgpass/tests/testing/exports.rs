//! What an exporter passes on to a recorder.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{Key, KeyName, Metadata, Recorder, SharedString, Unit};
use rast_msgpass::{Cx, Exporter, Ingress, Process, Receive, Restart, graph};

struct Sum(u64);

graph! {
    graph Exported {
        processors { sum: [Sum; 2] }
        edges { ingress -> sum: u64; }
    }
}

impl Process<Exported> for Sum {}
impl Receive<Exported, Ingress, u64> for Sum {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, Exported, Self>) {
        assert!(number < 100, "too large");
        self.0 += number;
    }
}

type Values = Arc<Mutex<BTreeMap<String, Vec<f64>>>>;

/// Keeps all values by name and labels.
#[derive(Clone, Default)]
struct Kept(Values);

/// One metric of it.
struct One(Values, String);

impl One {
    fn add(&self, value: f64) {
        let mut values = self.0.lock().unwrap();
        values.entry(self.1.clone()).or_default().push(value);
    }
}

impl metrics::CounterFn for One {
    fn increment(&self, _: u64) {
        unreachable!("counts are absolute");
    }

    fn absolute(&self, value: u64) {
        self.add(value as f64);
    }
}

impl metrics::GaugeFn for One {
    fn increment(&self, _: f64) {
        unreachable!("gauges are set");
    }

    fn decrement(&self, _: f64) {
        unreachable!("gauges are set");
    }

    fn set(&self, value: f64) {
        self.add(value);
    }
}

impl metrics::HistogramFn for One {
    fn record(&self, value: f64) {
        self.add(value);
    }
}

impl Kept {
    fn one(&self, key: &Key) -> Arc<One> {
        let labels: Vec<&str> = key.labels().map(|label| label.value()).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Arc::new(One(Arc::clone(&self.0), name))
    }

    fn values(&self, name: &str) -> Vec<f64> {
        let values = self.0.lock().unwrap();
        values.get(name).cloned().unwrap_or_default()
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(self.one(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::from_arc(self.one(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::from_arc(self.one(key))
    }
}

#[test]
fn counts_are_passed_on_and_each_measured_message_once() {
    let restart = Restart::new().limit(1, Duration::from_secs(1));
    let builder = Exported::builder([Sum(0), Sum(0)]).restart(restart, |_| Sum(0));
    let mut app = builder.sample(1).test(1).unwrap();
    let kept = Kept::default();
    let viewer = app.handle().viewer();
    let mut exporter = metrics::with_local_recorder(&kept, || Exporter::new(viewer));
    let numbers = app.handle().ingress::<Sum, u64>();
    numbers.at(0).send(5).unwrap();
    numbers.at(1).send(5).unwrap();
    app.advance(Duration::from_nanos(5));
    app.run_until_idle();
    exporter.export();
    numbers.at(1).send(500).unwrap();
    app.run_for(Duration::from_secs(1));
    exporter.export();
    exporter.export();
    let edge = "Exported ingress -> Sum: u64";
    let received = kept.values(&format!("rast_edge_received_total {edge}"));
    assert_eq!(received, [2.0, 3.0, 3.0]);
    let waited = kept.values(&format!("rast_edge_waiting_seconds {edge}"));
    assert_eq!(waited, [5e-9, 5e-9, 0.0]);
    let handled = kept.values("rast_processor_handling_seconds Exported sum");
    assert_eq!(handled.len(), 3);
    let restarts = kept.values("rast_processor_restarts_total Exported sum 1");
    assert_eq!(restarts, [0.0, 1.0, 1.0]);
    assert_eq!(
        kept.values("rast_processor_retired Exported sum 0"),
        [0.0; 3]
    );
    assert_eq!(kept.values("rast_moves_total Exported"), [0.0; 3]);
}
