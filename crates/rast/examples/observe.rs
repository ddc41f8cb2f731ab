//! Observing: the histograms, pictures and metrics of a graph while it runs.
//!
//! `cargo run --release --example observe --features metrics`

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Key, KeyName, Metadata, Recorder, SharedString, Unit};
use rast::msgpass::{Cx, Egress, Exporter, Ingress, Process, Receive, graph};

graph! {
    graph App {
        processors { split: Split, count: [Count; 2] }
        edges {
            ingress -> split: String;
            split -> count: Word [burst = 16];
            count -> egress: usize;
        }
    }
}

struct Word(String);

struct Split;
impl Process<App> for Split {}
impl Receive<App, Ingress, String> for Split {
    fn receive(&mut self, line: String, cx: &mut Cx<'_, App, Self>) {
        for word in line.split_whitespace().take(16) {
            let key = word.len() as u64;
            cx.to::<Count>().key(key).send(Word(word.to_owned()));
        }
    }
}

struct Count;
impl Process<App> for Count {}
impl Receive<App, Split, Word> for Count {
    fn receive(&mut self, Word(word): Word, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Egress>().send(word.len());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // A program has one of the recorders that are published, for Prometheus and others.
    let kept = Kept::default();
    metrics::set_global_recorder(kept.clone())?;

    let app = App::builder(Split, [Count, Count])
        .workers(2)
        // One message in eight: a busy graph takes 1,024.
        .sample(8)
        .start()?;
    let viewer = app.viewer();
    let mut exporter = Exporter::new(viewer.clone());
    let lines = app.ingress::<Split, String>();
    let mut lengths = app.egress::<Count, usize>(0);
    for _ in 0..500 {
        lines.send("a rose is a rose is a rose".to_owned())?;
        for _ in 0..8 {
            lengths.recv()?;
        }
    }

    // All of this is read while the graph runs.
    let timings = viewer.timings().ok_or("nothing is measured")?;
    println!("{timings}\n");
    let words = &timings.edges[1].waiting;
    println!(
        "{} words were measured: {} ns at most\n",
        words.count(),
        words.max()
    );
    println!("{}", viewer.dot());
    exporter.export();
    for (name, value) in kept.read() {
        println!("{name} {value}");
    }

    let report = app.drain(Duration::from_secs(10))?;
    let counted = report.metrics.edge::<App, Split, Count, Word>();
    assert_eq!(counted.received, 4_000);
    // One in each block of eight, of two queues.
    assert!(words.count().abs_diff(500) <= 2);
    Ok(())
}

/// A recorder that keeps the latest value of each counter and gauge, and the number of values of
/// each histogram.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, Arc<Value>>>>);

/// A value of a metric.
#[derive(Default)]
struct Value(AtomicU64);

impl Kept {
    fn value(&self, key: &Key) -> Arc<Value> {
        let labels = key.labels();
        let labels: Vec<String> = labels.map(|label| label.value().to_owned()).collect();
        let name = format!("{} {{{}}}", key.name(), labels.join(", "));
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(values.entry(name).or_default())
    }

    fn read(&self) -> Vec<(String, f64)> {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |(name, value): (&String, &Arc<Value>)| {
            // Relaxed: a number alone.
            let bits = value.0.load(Ordering::Relaxed);
            (name.clone(), f64::from_bits(bits))
        };
        values.iter().map(read).collect()
    }
}

impl Value {
    /// One thread exports, so that no change is lost.
    fn change(&self, change: impl FnOnce(f64) -> f64) {
        // Relaxed, twice: a number alone.
        let value = f64::from_bits(self.0.load(Ordering::Relaxed));
        self.0.store(change(value).to_bits(), Ordering::Relaxed);
    }
}

impl metrics::CounterFn for Value {
    fn increment(&self, more: u64) {
        self.change(|value| value + more as f64);
    }

    fn absolute(&self, value: u64) {
        self.change(|_| value as f64);
    }
}

impl metrics::GaugeFn for Value {
    fn increment(&self, more: f64) {
        self.change(|value| value + more);
    }

    fn decrement(&self, less: f64) {
        self.change(|value| value - less);
    }

    fn set(&self, value: f64) {
        self.change(|_| value);
    }
}

impl metrics::HistogramFn for Value {
    fn record(&self, _: f64) {
        self.change(|count| count + 1.0);
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(self.value(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::from_arc(self.value(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::from_arc(self.value(key))
    }
}
