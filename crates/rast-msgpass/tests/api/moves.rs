//! Load that is skewed moves processors between workers, while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};

use crate::LONG;

struct Part {
    handled: u64,
}
struct Work {
    spin: Duration,
    number: u64,
}

graph! {
    graph Skew {
        processors { part: [Part; 8] }
        edges {
            ingress -> part: Work [cap = 64];
            part -> egress: u64 [cap = 64];
        }
    }
}

impl Process<Skew> for Part {}
impl Receive<Skew, Ingress, Work> for Part {
    fn receive(&mut self, work: Work, cx: &mut Cx<'_, Skew, Self>) {
        self.handled += 1;
        let start = Instant::now();
        while start.elapsed() < work.spin {
            std::hint::spin_loop();
        }
        cx.to::<Egress>().send(work.number);
    }
}

#[test]
fn skewed_load_moves_processors_and_no_message_is_lost() {
    let app = Skew::builder((0..8).map(|_| Part { handled: 0 }))
        .workers(2)
        .period(Duration::from_millis(5))
        .start()
        .unwrap();
    let into = app.ingress::<Part, Work>();
    let mut out = app.egress::<Part, u64>(0);
    let enough = Arc::new(AtomicBool::new(false));
    let stop = enough.clone();
    let sender = std::thread::spawn(move || {
        let mut number = 0;
        while !stop.load(SeqCst) {
            // The even parts are dealt to one worker, and are the hot ones.
            let (part, micros) = match number % 4 {
                0 => (0, 40),
                1 => (2, 30),
                2 => (4, 20),
                _ => (1 + number / 4 % 4 * 2, 2),
            };
            let work = Work {
                spin: Duration::from_micros(micros),
                number,
            };
            into.at(part as usize % 8).send(work).unwrap();
            number += 1;
        }
        number
    });
    let start = Instant::now();
    let mut seen = Vec::new();
    // Until something moved and then a while more: progress is the condition.
    let mut after = 0;
    while after < 1000 {
        assert!(start.elapsed() < LONG, "nothing moved: {}", app.report());
        seen.push(out.recv_timeout(LONG).unwrap());
        after += u64::from(seen.len() % 64 == 0 && app.metrics().moves > 0) * 64;
    }
    enough.store(true, SeqCst);
    let receiver = std::thread::spawn(move || {
        while let Ok(number) = out.recv() {
            seen.push(number);
        }
        seen
    });
    let sent = sender.join().unwrap();
    let report = app.drain(LONG).unwrap();
    let mut seen = receiver.join().unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (0..sent).collect::<Vec<_>>());
    assert!(report.metrics.moves > 0);
    assert!(report.metrics.epochs > 0);
    assert!(
        report
            .metrics
            .instances
            .iter()
            .any(|one| one.busy.as_nanos() > 0)
    );
    assert_eq!(report.undelivered_total(), 0);
}
