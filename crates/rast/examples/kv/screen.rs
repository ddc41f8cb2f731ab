//! What `--tui` shows of a running graph: workers and their loads, instances coloured by their
//! worker, edges with their rates and waiting times, and the latest moves.

use std::collections::VecDeque;
use std::time::Instant;

use rast::msgpass::{InstanceMetrics, Metrics, Timings, Viewer};
use rast::timers::Nanos;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table};

/// Moves that are shown.
const MOVES: usize = 64;
/// Columns of an instance, with a space.
const CELL: usize = 9;
/// Columns of a bar.
const BAR: usize = 40;

/// The colours of workers, in turn.
const COLOURS: [Color; 6] = [
    Color::Cyan,
    Color::Yellow,
    Color::Green,
    Color::Magenta,
    Color::Blue,
    Color::Red,
];

fn colour(worker: usize) -> Color {
    COLOURS[worker % COLOURS.len()]
}

/// Two readings of a graph, and what happened between readings.
pub(crate) struct Screen {
    title: String,
    at: Instant,
    now: Metrics,
    timings: Option<Timings>,
    /// Per instance: the share of the time between the readings that it was busy.
    loads: Vec<f64>,
    /// Per edge: messages handled per second.
    rates: Vec<f64>,
    /// The latest first.
    moves: VecDeque<String>,
}

impl Screen {
    /// Reads a graph for the first time.
    pub(crate) fn new(title: String, viewer: &Viewer, at: Instant) -> Self {
        let now = viewer.metrics();
        Self {
            title,
            at,
            loads: vec![0.0; now.instances.len()],
            rates: vec![0.0; now.edges.len()],
            timings: viewer.timings(),
            now,
            moves: VecDeque::new(),
        }
    }

    /// Reads the graph again.
    pub(crate) fn look(&mut self, viewer: &Viewer, at: Instant) {
        let before = std::mem::replace(&mut self.now, viewer.metrics());
        let elapsed = at
            .saturating_duration_since(self.at)
            .as_secs_f64()
            .max(1e-9);
        self.at = at;
        self.timings = viewer.timings();
        let instances = self.now.instances.iter().zip(&before.instances);
        for (load, (now, before)) in self.loads.iter_mut().zip(instances.clone()) {
            let busy = now.busy.as_nanos().saturating_sub(before.busy.as_nanos());
            *load = (busy as f64 / 1e9 / elapsed).min(1.0);
        }
        let edges = self.now.edges.iter().zip(&before.edges);
        for (rate, (now, before)) in self.rates.iter_mut().zip(edges) {
            *rate = now.received.saturating_sub(before.received) as f64 / elapsed;
        }
        for (now, before) in instances.filter(|(now, before)| now.worker != before.worker) {
            let (from, to) = (before.worker, now.worker);
            let line = format!("{}: worker {from} to worker {to}", shown(now));
            self.moves.push_front(line);
        }
        self.moves.truncate(MOVES);
    }

    /// Draws what was read last.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>) {
        let width = usize::from(frame.area().width).saturating_sub(2);
        let processors = self.processors(width);
        let height = |lines: usize| Constraint::Length(lines as u16 + 2);
        let rows = Layout::vertical([
            Constraint::Length(1),
            height(self.now.workers.len()),
            height(processors.len()),
            height(self.now.edges.len() + 1),
            Constraint::Min(3),
        ]);
        let [title, workers, middle, edges, moves] = rows.areas(frame.area());
        let (epochs, moved) = (self.now.epochs, self.now.moves);
        let text = format!("{}: epoch {epochs}, {moved} moves; q ends", self.title);
        frame.render_widget(Line::from(text).bold(), title);
        frame.render_widget(framed("workers", self.workers()), workers);
        frame.render_widget(framed("processors: replica, load", processors), middle);
        self.draw_edges(frame, edges);
        let lines = self.moves.iter().map(|line| Line::from(line.as_str()));
        frame.render_widget(framed("moves", lines.collect()), moves);
    }

    /// A line per worker, with a bar of its load.
    fn workers(&self) -> Vec<Line<'_>> {
        let line = |(worker, stats): (usize, &rast::msgpass::WorkerStats)| {
            let instances = self.now.instances.iter().zip(&self.loads);
            let own = instances.filter(|(instance, _)| instance.worker == worker);
            let load = own.map(|(_, load)| load).sum::<f64>().min(1.0);
            let filled = (load * BAR as f64).round() as usize;
            let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled));
            Line::from(vec![
                Span::raw(format!("{worker:>3} ")),
                Span::styled(bar, Style::new().fg(colour(worker))),
                Span::raw(format!(
                    " {:>3.0} %  {} instances",
                    load * 100.0,
                    stats.shards
                )),
            ])
        };
        self.now.workers.iter().enumerate().map(line).collect()
    }

    /// The instances of each processor, in the colours of their workers.
    fn processors(&self, width: usize) -> Vec<Line<'_>> {
        let names = self
            .now
            .instances
            .iter()
            .map(|instance| instance.name.len());
        let margin = names.max().unwrap_or(0) + 1;
        let per_line = (width.saturating_sub(margin) / CELL).max(1);
        let mut lines: Vec<Line<'_>> = Vec::new();
        for (instance, load) in self.now.instances.iter().zip(&self.loads) {
            let name = match instance.replica {
                0 => instance.name,
                _ => "",
            };
            if instance.replica % per_line == 0 {
                lines.push(Line::from(format!("{name:<margin$}")));
            }
            let style = match instance.is_retired {
                true => Style::new().fg(Color::DarkGray),
                false => Style::new().fg(colour(instance.worker)),
            };
            let cell = format!("{:>3} {:>3.0}% ", instance.replica, load * 100.0);
            if let Some(line) = lines.last_mut() {
                line.push_span(Span::styled(cell, style));
            }
        }
        lines
    }

    fn draw_edges(&self, frame: &mut Frame<'_>, area: Rect) {
        let row = |index: usize| {
            let edge = &self.now.edges[index];
            let waiting = self.timings.as_ref().map(|all| &all.edges[index].waiting);
            let waited = |share: f64| match waiting {
                Some(waiting) if !waiting.is_empty() => {
                    format!("{:.1}", Nanos::from_nanos(waiting.quantile(share)))
                }
                _ => "-".to_owned(),
            };
            Row::new([
                edge.edge.to_string(),
                format!("{:.0}", self.rates[index]),
                edge.depth.to_string(),
                edge.dropped.to_string(),
                waited(0.5),
                waited(0.99),
            ])
        };
        let number = Constraint::Length(12);
        let widths = [Constraint::Min(20), number, number, number, number, number];
        let heads = [
            "edge",
            "per second",
            "queued",
            "dropped",
            "p50 wait",
            "p99 wait",
        ];
        let rows = (0..self.now.edges.len()).map(row);
        let table = Table::new(rows, widths).header(Row::new(heads).bold());
        frame.render_widget(table.block(Block::bordered().title("edges")), area);
    }
}

fn shown(instance: &InstanceMetrics) -> String {
    format!("{}[{}]", instance.name, instance.replica)
}

fn framed<'a>(title: &'a str, lines: Vec<Line<'a>>) -> Paragraph<'a> {
    Paragraph::new(lines).block(Block::bordered().title(title))
}
