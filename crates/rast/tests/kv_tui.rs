//! The screen of `kv --tui`, drawn into memory.
#![cfg(all(feature = "msgpass", feature = "timers", not(rast_loom)))]
#![allow(dead_code, reason = "the parts offer what the whole example uses")]

#[path = "../examples/kv/screen.rs"]
mod screen;
#[path = "../examples/kv/tui.rs"]
mod tui;

use std::convert::Infallible;
use std::io;
use std::time::{Duration, Instant};

use rast::msgpass::sharder::{Assignment, Balancer, Decision, LoadView, WorkerId};
use rast::msgpass::{
    Cx, Egress, EgressReceiver, Handle, Ingress, Metrics, Process, Receive, graph,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use screen::Screen;

struct Front;
struct Part;

graph! {
    graph Shown {
        processors { front: Front, part: [Part; 3] }
        edges {
            ingress -> front: u64;
            front -> part: u64;
            part -> egress: u64;
        }
    }
}

impl Process<Shown> for Front {}
impl Receive<Shown, Ingress, u64> for Front {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Shown, Self>) {
        cx.to::<Part>().key(number).send(number);
    }
}
impl Process<Shown> for Part {}
impl Receive<Shown, Front, u64> for Part {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Shown, Self>) {
        cx.to::<Egress>().send(number);
    }
}

/// Gives every instance to the other worker.
struct Swap;

impl Balancer for Swap {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, view: &LoadView, current: &Assignment, _: usize) -> Decision {
        let other = |owner: &WorkerId| WorkerId::from_index(1 - owner.index());
        let owners = current.owners().iter().map(other).collect();
        let next = Assignment::new(owners, view.workers());
        Decision::Adopt(next.expect("every shard has an owner"))
    }
}

/// A graph with ten messages through it.
fn shown() -> (Handle<Shown>, EgressReceiver<u64>) {
    let builder = Shown::builder(Front, [Part, Part, Part]).sample(1);
    let builder = builder.workers(2).period(Duration::ZERO).balancer(Swap);
    let app = builder.start().expect("two threads start");
    let mut out = app.egress::<Part, u64>(0);
    let numbers = app.ingress::<Front, u64>();
    for number in 0..10 {
        numbers.send(number).expect("the graph runs");
        out.recv().expect("a number comes out");
    }
    (app, out)
}

fn terminal() -> Terminal<TestBackend> {
    let terminal: Result<_, Infallible> = Terminal::new(TestBackend::new(110, 28));
    terminal.expect("memory does not fail")
}

/// The text of a frame, and the colour of the first place where a text is.
fn text(terminal: &Terminal<TestBackend>) -> String {
    terminal.backend().to_string()
}

fn colour_of(terminal: &Terminal<TestBackend>, row: &str, cell: &str) -> Color {
    let (buffer, all) = (terminal.backend().buffer(), text(terminal));
    let lines: Vec<&str> = all.lines().map(|line| line.trim_matches('"')).collect();
    let y = lines.iter().position(|line| line.contains(row)).expect(row);
    let at = lines[y].find(cell).expect(cell);
    let x = lines[y][..at].chars().count();
    buffer[(x as u16, y as u16)].fg
}

#[test]
fn a_frame_shows_workers_processors_edges_and_moves() {
    let (app, _out) = shown();
    let (viewer, mut terminal) = (app.viewer(), terminal());
    let mut screen = Screen::new("Shown".to_owned(), &viewer, Instant::now());
    let workers = |viewer: &rast::msgpass::Viewer| -> Vec<usize> {
        let metrics = viewer.metrics();
        metrics.instances.iter().map(|one| one.worker).collect()
    };
    let first = workers(&viewer);
    terminal
        .draw(|frame| screen.draw(frame))
        .expect("memory does not fail");
    let frame = text(&terminal);
    for part in [
        "Shown: epoch 0, 0 moves; q ends",
        "workers",
        "  0 ░",
        "  1 ░",
        "front   0   0%",
        "  2   0%",
        "Front -> Part: u64",
        "per second",
        "p99 wait",
    ] {
        assert!(frame.contains(part), "{part}: {frame}");
    }
    let before = colour_of(&terminal, "part ", "  1   0%");
    app.reshard();
    let is_shown = |metrics: &Metrics| (metrics.epochs, metrics.moves) == (1, 4);
    while !is_shown(&viewer.metrics()) || workers(&viewer) == first {
        std::thread::yield_now();
    }
    screen.look(&viewer, Instant::now());
    terminal
        .draw(|frame| screen.draw(frame))
        .expect("memory does not fail");
    let frame = text(&terminal);
    assert!(frame.contains("part[1]: worker "), "{frame}");
    assert!(frame.contains("epoch 1, 4 moves"), "{frame}");
    assert_ne!(colour_of(&terminal, "part ", "  1 "), before);
    app.drain(Duration::from_secs(60)).expect("it drains");
}

#[test]
fn q_ends_and_other_keys_do_not() {
    let (app, _out) = shown();
    let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
    let keys = [
        key(KeyCode::Char('x'), KeyModifiers::NONE),
        key(KeyCode::Char('c'), KeyModifiers::NONE),
        Event::Resize(80, 24),
        key(KeyCode::Char('q'), KeyModifiers::NONE),
        key(KeyCode::Char('c'), KeyModifiers::CONTROL),
    ];
    let mut waits = keys.iter();
    let mut terminal = terminal();
    let shown: io::Result<()> = tui::run("Shown".to_owned(), &app.viewer(), &mut terminal, |_| {
        Ok(waits.next().is_none_or(tui::is_end))
    });
    shown.expect("memory does not fail");
    assert_eq!(waits.len(), 1, "it ended at q");
    assert!(tui::is_end(&keys[4]));
    assert!(text(&terminal).contains("Shown: "));
}
