//! Spans and events of a graph, as a subscriber gets them.
//!
//! A program of its own: `tracing` keeps for the whole process whether an event has a subscriber,
//! and a test without one may be the first to reach an event.
#![cfg(all(feature = "testing", feature = "tracing", not(rast_loom)))]

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use rast_msgpass::{Cx, Ingress, Process, Receive, Restart, graph};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

struct Sum;

graph! {
    graph Traced {
        processors { sum: [Sum; 2] }
        edges { ingress -> sum: u64; }
    }
}

impl Process<Traced> for Sum {}
impl Receive<Traced, Ingress, u64> for Sum {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, Traced, Self>) {
        tracing::info!(number, "mine");
        assert!(number < 100, "too large");
    }
}

/// Keeps the spans, and the events with the span in which they were.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    spans: Vec<String>,
    within: Vec<u64>,
    events: Vec<(Option<String>, String)>,
}

/// Writes fields to a text.
struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write as _;
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Kept {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = format!("{} ", span.metadata().name());
        span.record(&mut Fields(&mut text));
        let mut log = self.0.lock().unwrap();
        log.spans.push(text);
        Id::from_u64(log.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut Fields(&mut text));
        let mut log = self.0.lock().unwrap();
        let span = log
            .within
            .last()
            .map(|&id| log.spans[id as usize - 1].clone());
        log.events.push((span, text));
    }

    fn enter(&self, id: &Id) {
        self.0.lock().unwrap().within.push(id.into_u64());
    }

    fn exit(&self, id: &Id) {
        assert_eq!(self.0.lock().unwrap().within.pop(), Some(id.into_u64()));
    }
}

#[test]
fn what_happens_to_a_processor_is_in_its_span() {
    let kept = Kept::default();
    tracing::subscriber::with_default(kept.clone(), || {
        let restart = Restart::new().limit(1, Duration::from_secs(9));
        let builder = Traced::builder([Sum, Sum]).restart(restart, |_| Sum);
        let mut app = builder.test(1).unwrap();
        let numbers = app.handle().ingress::<Sum, u64>();
        numbers.at(1).send(7).unwrap();
        numbers.at(0).send(700).unwrap();
        app.run_for(Duration::from_secs(1));
        let _ = app.stop();
    });
    let log = kept.0.lock().unwrap();
    assert!(log.within.is_empty());
    assert_eq!(log.spans.len(), 2, "{:?}", log.spans);
    let find = |part: &str| {
        let found = log.events.iter().find(|(_, text)| text.contains(part));
        found.unwrap_or_else(|| panic!("{part} in {:?}", log.events))
    };
    let span_of = |part: &str| find(part).0.clone().unwrap_or_default();
    let second = "processor graph=\"Traced\" processor=\"sum\" replica=1 ";
    assert_eq!(span_of("number=7 "), second);
    for part in ["number=700 ", "follows=Restarts(", "restarts=1 "] {
        assert!(span_of(part).contains("replica=0"), "{part}");
    }
    assert!(find("panicked").1.contains("too large"));
    assert_eq!(find("by=").0, None);
    assert_eq!(
        log.events
            .iter()
            .filter(|(_, text)| text.contains("ended"))
            .count(),
        1
    );
}

/// Panics at each event of the crate.
struct Faulty;

impl Subscriber for Faulty {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if event.metadata().target().starts_with("rast_msgpass") {
            std::panic::resume_unwind(Box::new("no event"));
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_subscriber_that_panics_costs_no_message_and_no_state() {
    let restart = Restart::new().limit(1, Duration::from_secs(9));
    for (restart, restarts) in [(None, 0), (Some(restart), 1)] {
        let report = tracing::subscriber::with_default(Faulty, || {
            let mut builder = Traced::builder([Sum, Sum]);
            if let Some(restart) = restart {
                builder = builder.restart(restart, |_| Sum);
            }
            let mut app = builder.test(1).unwrap();
            let numbers = app.handle().ingress::<Sum, u64>();
            for number in [700, 7] {
                numbers.at(0).send(number).unwrap();
            }
            app.run_for(Duration::from_secs(1));
            app.drain().unwrap_or_else(|error| panic!("{error}"))
        });
        assert_eq!(report.received_total(), 2, "{report}");
        assert_eq!(report.panics.len(), 1, "{report}");
        assert_eq!(report.metrics.instances[0].restarts, restarts);
        assert_eq!(report.take_states::<Traced, Sum>().len(), 2);
        assert!(report.faults.iter().any(|fault| fault.contains("no event")));
    }
}
