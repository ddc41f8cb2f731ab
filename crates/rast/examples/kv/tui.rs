//! `--tui`: the running graph in a terminal, until `q`.

use std::io;
use std::time::{Duration, Instant};

use rast::msgpass::Viewer;
use ratatui::Terminal;
use ratatui::backend::Backend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};

use crate::screen::Screen;

/// How often the graph is read.
const LOOK: Duration = Duration::from_millis(500);

/// Shows a graph in the terminal of this process, until `q` or until `has_ended` says so.
pub(crate) fn show(title: String, viewer: &Viewer, has_ended: impl Fn() -> bool) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let shown = run(title, viewer, &mut terminal, |span| {
        if has_ended() {
            return Ok(true);
        }
        Ok(event::poll(span)? && is_end(&event::read()?))
    });
    ratatui::restore();
    shown
}

/// Draws the graph until `ends` says so, which waits for so long at most.
pub(crate) fn run<B: Backend>(
    title: String,
    viewer: &Viewer,
    terminal: &mut Terminal<B>,
    mut ends: impl FnMut(Duration) -> io::Result<bool>,
) -> io::Result<()> {
    let mut screen = Screen::new(title, viewer, Instant::now());
    loop {
        let drawn = terminal.draw(|frame| screen.draw(frame));
        drawn.map_err(|error| io::Error::other(error.to_string()))?;
        if ends(LOOK)? {
            return Ok(());
        }
        screen.look(viewer, Instant::now());
    }
}

/// Returns `true` if a key asks for the end: `q`, or what would interrupt the process if the
/// terminal did not pass keys on.
pub(crate) fn is_end(event: &Event) -> bool {
    let Event::Key(key) = event else {
        return false;
    };
    let interrupts = key.modifiers.contains(KeyModifiers::CONTROL);
    key.is_press()
        && match key.code {
            KeyCode::Char('q') => true,
            KeyCode::Char('c') => interrupts,
            _ => false,
        }
}
