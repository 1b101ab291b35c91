//! Progress as a person sees it: bars on a terminal, lines in a log, nothing when asked to be quiet.
//!
//! ```text
//! step ──► drawn ──► done: a ✓ line stays
//!            ├─────► another step: the same, without a remark
//!            └─────► dropped (failed, interrupted): the bar goes, a ✗ line stays
//! ```

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentiso_core::progress::{Progress, Silent};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::human::duration;
use super::style::harmless;
use super::{Paint, Stream};

/// How often a spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// The progress display that suits standard error, or none at all if `quiet`.
pub fn progress(quiet: bool) -> Box<dyn Progress> {
    let stream = Stream::stderr();
    if quiet {
        Box::new(Silent)
    } else if stream.is_terminal() {
        Box::new(Bars::new(ProgressDrawTarget::stderr(), columns(), stream.paint()))
    } else {
        Box::new(Lines::new(stream))
    }
}

/// The columns of the terminal that standard error is.
fn columns() -> u16 {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col,
        _ => 80,
    }
}

/// The step that is under way.
struct Step {
    what: String,
    begun: Instant,
    bar: ProgressBar,
}

/// Bars and spinners on a terminal.
pub struct Bars {
    screen: MultiProgress,
    paint: Paint,
    columns: u16,
    current: Mutex<Option<Step>>,
}

impl Bars {
    /// Draws on `target`, which has so many columns.
    pub fn new(target: ProgressDrawTarget, columns: u16, paint: Paint) -> Self {
        let screen = MultiProgress::with_draw_target(target);
        Self { screen, paint, columns, current: Mutex::new(None) }
    }

    fn finish(&self, step: Step, mark: &str, remark: &str) {
        step.bar.finish_and_clear();
        self.screen.remove(&step.bar);
        let time = self.paint.faint(&duration(step.begun.elapsed()));
        let remark = if remark.is_empty() { String::new() } else { format!("  {}", harmless(remark)) };
        let line = format!("{mark} {}{}  {time}", step.what, self.paint.faint(&remark));
        // A terminal that went away is no reason to stop the work.
        let _ = self.screen.println(line);
    }
}

impl Progress for Bars {
    fn step(&self, what: &str, total: Option<u64>) {
        let mut current = lock(&self.current);
        if let Some(unfinished) = current.take() {
            self.finish(unfinished, &self.paint.good("✓"), "");
        }
        let what = harmless(what);
        let look = look(total.is_some(), self.columns);
        let bar = self.screen.add(ProgressBar::new(total.unwrap_or(0)).with_style(look));
        bar.set_message(what.clone());
        bar.enable_steady_tick(TICK);
        *current = Some(Step { what, begun: Instant::now(), bar });
    }

    fn advance(&self, amount: u64) {
        if let Some(step) = &*lock(&self.current) {
            step.bar.inc(amount);
        }
    }

    fn note(&self, remark: &str) {
        if let Some(step) = &*lock(&self.current) {
            step.bar.set_message(format!("{}  {}", step.what, self.paint.faint(&harmless(remark))));
        }
    }

    fn done(&self, remark: &str) {
        let step = lock(&self.current).take();
        if let Some(step) = step {
            self.finish(step, &self.paint.good("✓"), remark);
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        let step = lock(&self.current).take();
        if let Some(step) = step {
            self.finish(step, &self.paint.bad("✗"), "");
        }
    }
}

/// Narrower than this, a bar shows only how far it is.
const WIDE: u16 = 70;

/// The message takes what room is left and is cut there: a line that wraps is drawn again and again below itself.
fn look(measured: bool, columns: u16) -> ProgressStyle {
    let template = match (measured, columns >= WIDE) {
        (true, true) => "{spinner} {wide_msg}  {bar:20} {bytes} of {total_bytes}  {eta} left",
        (true, false) => "{spinner} {wide_msg} {percent}%",
        (false, _) => "{spinner} {wide_msg} {elapsed}",
    };
    // The templates are constants; should one be wrong, the plain look is better than none.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// One line per step, for logs and pipes.
pub struct Lines {
    state: Mutex<LinesState>,
}

struct LinesState {
    stream: Stream,
    begun: Option<Instant>,
}

impl Lines {
    /// Writes to `stream`.
    pub fn new(stream: Stream) -> Self {
        Self { state: Mutex::new(LinesState { stream, begun: None }) }
    }
}

impl LinesState {
    fn end(&mut self, outcome: &str, remark: &str) {
        if let Some(begun) = self.begun.take() {
            let time = duration(begun.elapsed());
            let remark = if remark.is_empty() { String::new() } else { format!("{}, ", harmless(remark)) };
            let _ = writeln!(self.stream, " {outcome} ({remark}{time})");
        }
    }
}

impl Progress for Lines {
    fn step(&self, what: &str, _total: Option<u64>) {
        let mut state = lock(&self.state);
        state.end("done", "");
        state.begun = Some(Instant::now());
        let _ = write!(state.stream, "{} ...", harmless(what)).and_then(|()| state.stream.flush());
    }

    fn advance(&self, _amount: u64) {}

    fn done(&self, remark: &str) {
        lock(&self.state).end("done", remark);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        lock(&self.state).end("stopped", "");
    }
}

/// A panic while drawing spoils no data, so the lock stays usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use indicatif::InMemoryTerm;

    use super::*;

    fn bars() -> (Bars, InMemoryTerm) {
        let term = InMemoryTerm::new(10, 110);
        let target = ProgressDrawTarget::term_like(Box::new(term.clone()));
        (Bars::new(target, 110, Paint::new(false)), term)
    }

    #[test]
    fn a_measured_step_shows_how_far_it_is() {
        let (bars, term) = bars();
        bars.step("downloading", Some(4 << 20));
        bars.advance(1 << 20);
        lock(&bars.current).as_ref().unwrap().bar.tick();
        let drawn = term.contents();
        assert!(drawn.contains("downloading") && drawn.contains("of 4.00 MiB"), "{drawn}");
        assert!(drawn.contains("left"), "{drawn}");
    }

    #[test]
    fn a_bar_never_wraps_however_narrow_the_terminal_and_long_the_path() {
        for columns in [20, 40, 80, 120] {
            for total in [Some(4 << 20), None] {
                let term = InMemoryTerm::new(10, columns);
                let target = ProgressDrawTarget::term_like(Box::new(term.clone()));
                let bars = Bars::new(target, columns, Paint::new(false));
                bars.step(&format!("Copying /a/{}/path", "very-long/".repeat(20)), total);
                bars.advance(1 << 20);
                lock(&bars.current).as_ref().unwrap().bar.tick();
                let drawn = term.contents();
                assert_eq!(drawn.lines().count(), 1, "{columns} columns: {drawn}");
                assert!(drawn.contains("Copying"), "{drawn}");
            }
        }
    }

    #[test]
    fn a_step_that_cannot_be_measured_says_how_it_stands() {
        let (bars, term) = bars();
        bars.note("nothing to say it of");
        bars.step("compiling", None);
        bars.note("612 of about 1700 files");
        lock(&bars.current).as_ref().unwrap().bar.tick();
        let drawn = term.contents();
        assert!(drawn.contains("compiling  612 of about 1700 files"), "{drawn}");
        bars.done("");
        assert!(term.contents().starts_with("✓ compiling  "), "{}", term.contents());
    }

    #[test]
    fn finished_steps_stay_on_the_screen_and_bars_do_not() {
        let (bars, term) = bars();
        bars.step("kernel", None);
        bars.done("6.1.0");
        bars.step("image", Some(10));
        bars.step("template", None);
        bars.done("");
        let contents = term.contents();
        let lines: Vec<&str> = contents.lines().collect();
        assert_eq!(lines.len(), 3, "{contents}");
        assert!(lines[0].starts_with("✓ kernel  6.1.0  "), "{contents}");
        assert!(lines[1].starts_with("✓ image  "), "{contents}");
        assert!(lines[2].starts_with("✓ template  "), "{contents}");
    }

    #[test]
    fn a_step_that_never_finished_is_not_shown_as_done() {
        let (bars, term) = bars();
        bars.step("image", None);
        drop(bars);
        assert!(term.contents().starts_with("✗ image  "), "{}", term.contents());
    }

    #[test]
    fn advancing_or_finishing_without_a_step_does_nothing() {
        let (bars, term) = bars();
        bars.advance(3);
        bars.done("x");
        assert_eq!(term.contents(), "");
    }

    #[test]
    fn a_log_gets_one_line_per_step() {
        let (stream, capture) = Stream::captured(false, false);
        let lines = Lines::new(stream);
        lines.step("kernel", None);
        assert_eq!(capture.text(), "kernel ...");
        lines.done("already there");
        lines.step("image", Some(3));
        lines.advance(3);
        lines.step("template", None);
        drop(lines);
        let written = capture.text();
        let beginnings = ["kernel ... done (already there, ", "image ... done (", "template ... stopped ("];
        assert_eq!(written.lines().count(), beginnings.len(), "{written}");
        for (line, beginning) in written.lines().zip(beginnings) {
            assert!(line.starts_with(beginning) && line.ends_with("s)"), "{line}");
        }
    }
}
