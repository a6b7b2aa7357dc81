//! `unstall watch`: which calls hold another process's event loop, with no change to it.

mod view;

use std::time::{Duration, Instant};

use console::Term;
use unstall_loop_monitor::outside::{Watch, WatchOptions};
use unstall_loop_monitor::watched::WatchSummary;

use self::view::{CAUSES_AT_END, CAUSES_LIVE};
use crate::arguments::WatchArguments;
use crate::console::{Console, Outcome};
use crate::interrupt;

/// On a terminal the view is drawn again this often: quick for an eye.
const REDRAW_EVERY: Duration = Duration::from_millis(500);
/// Elsewhere a line says that it goes on.
const LINE_EVERY: Duration = Duration::from_secs(5);

pub(crate) fn execute(arguments: &WatchArguments, console: &Console) -> anyhow::Result<Outcome> {
    let stop = interrupt::listen_saying("\nStopping; this is what was seen.")?;
    let options = WatchOptions {
        peers: arguments.names.clone(),
        ..WatchOptions::default()
    };
    console.note(format!(
        "Looking for event loops in process {} …",
        arguments.pid
    ));
    let is_stopped = || stop.is_requested();
    let mut watch = Watch::attach_unless(arguments.pid, &options, is_stopped)?;
    let until = arguments.duration.map(|duration| Instant::now() + duration);
    console.note(match until {
        Some(_) => "Watching; Ctrl-C sums up earlier.",
        None => "Watching until Ctrl-C or the end of the process.",
    });
    let mut view = View::new(console);
    let is_over = || is_stopped() || until.is_some_and(|until| Instant::now() >= until);
    let every = view.every();
    let summary = watch.run(is_over, every, |summary| view.show(summary));
    view.clear();
    let mut outcome = Outcome {
        text: view::render(&summary, CAUSES_AT_END),
        ..Outcome::default()
    };
    outcome.content.watch = Some(summary);
    Ok(outcome)
}

/// What is shown meanwhile, on stderr.
struct View {
    terminal: Option<Term>,
    /// Lines drawn last, which the next drawing takes back.
    lines: usize,
}

impl View {
    fn new(console: &Console) -> Self {
        Self {
            terminal: console.interactive.then(Term::buffered_stderr),
            lines: 0,
        }
    }

    fn every(&self) -> Duration {
        match self.terminal {
            Some(_) => REDRAW_EVERY,
            None => LINE_EVERY,
        }
    }

    fn show(&mut self, summary: &WatchSummary) {
        if self.terminal.is_none() {
            crate::console::to_stderr(&view::line(summary));
            return;
        }
        self.clear();
        let Some(terminal) = &self.terminal else {
            return;
        };
        let (height, width) = terminal.size();
        let rows = usize::from(height).saturating_sub(1);
        let text = view::render(summary, CAUSES_LIVE);
        // A line that wraps could not be taken back.
        let width = usize::from(width).saturating_sub(1);
        for line in text.lines().take(rows) {
            // A terminal that is gone shows nothing; the summary comes at the end all the same.
            let _ = terminal.write_line(&console::truncate_str(line, width, "…"));
            self.lines += 1;
        }
        let _ = terminal.flush();
    }

    /// Takes back what was drawn last.
    fn clear(&mut self) {
        if let Some(terminal) = &self.terminal {
            let _ = terminal.clear_last_lines(self.lines);
            let _ = terminal.flush();
        }
        self.lines = 0;
    }
}
