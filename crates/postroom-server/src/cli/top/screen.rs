//! Draws a snapshot on a terminal, in place.

use std::io::{Read, Write};
use std::time::Duration;

use anyhow::Result;

use super::snapshot::{Failed, Named, Names, Snapshot, View};
use crate::{duration, output};

/// Switch to the alternate screen and hide the cursor; undo both.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Move to the upper left; clear the rest of the line; clear the rest of the screen.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";
const WIDTH: usize = 100;

/// The terminal in full-screen mode. Drop restores it.
pub(super) struct Screen {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Screen {
    pub(super) fn open() -> Result<Self> {
        let screen = Self {
            #[cfg(unix)]
            before: hear_single_keys(),
        };
        write(ENTER)?;
        Ok(screen)
    }

    /// Waits until the user presses q.
    pub(super) async fn left() {
        let (left, is_left) = tokio::sync::oneshot::channel();
        // The thread ends with the process: nothing else reads stdin.
        std::thread::spawn(move || {
            if std::io::stdin().lock().bytes().map_while(Result::ok).any(|key| key.eq_ignore_ascii_case(&b'q')) {
                let _ = left.send(());
            }
        });
        if is_left.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn draw(&mut self, lines: &[String]) -> Result<()> {
        let (columns, rows) = size();
        let mut frame = HOME.to_owned();
        for (index, line) in lines.iter().take(rows).enumerate() {
            let end = if index + 1 < lines.len().min(rows) { "\r\n" } else { "" };
            frame.push_str(&format!("{}{REST_OF_LINE}{end}", output::cut(line, columns)));
        }
        frame.push_str(REST_OF_SCREEN);
        write(&frame)
    }
}

/// Turns off line mode and echo; Ctrl-C still works. Returns the old settings if stdin is a terminal.
#[cfg(unix)]
fn hear_single_keys() -> Option<rustix::termios::Termios> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let before = tcgetattr(std::io::stdin()).ok()?;
    let mut now = before.clone();
    now.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    tcsetattr(std::io::stdin(), OptionalActions::Now, &now).ok()?;
    Some(before)
}

impl Drop for Screen {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            let _ = rustix::termios::tcsetattr(std::io::stdin(), rustix::termios::OptionalActions::Now, before);
        }
        let _ = write(LEAVE);
    }
}

fn write(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout())
        && size.ws_col > 0
        && size.ws_row > 0
    {
        return (usize::from(size.ws_col), usize::from(size.ws_row));
    }
    (80, 24)
}

/// The lines of the view.
pub(super) fn lines(title: &str, snapshot: &Snapshot) -> Vec<String> {
    let mut lines = vec![format!("{title}  {}", snapshot.at.split('.').next().unwrap_or_default()), String::new()];
    let titles = ["ready", "leased", "done", "dead", "expired"].map(|title| format!("{title:>10}"));
    lines.push(format!("{:<7}{}{:>8}{:>8}  oldest", "", titles.concat(), "in/s", "out/s"));
    lines.push(counts("outbox", &snapshot.outbox));
    lines.push(counts("inbox", &snapshot.inbox));
    for (queue, view, services) in [("outbox", &snapshot.outbox, "destinations"), ("inbox", &snapshot.inbox, "sources")]
    {
        lines.extend(names(&format!("{queue} ready"), &view.most_waiting, view.counts.ready, services));
        lines.extend(names(&format!("{queue} dead"), &view.most_dead, view.counts.dead, services));
    }
    lines.push(String::new());
    lines.push(if snapshot.errors.is_empty() { "no attempt has failed" } else { "last failed attempts" }.to_owned());
    lines.extend(snapshot.errors.iter().map(|failed| error(failed, snapshot)));
    lines
}

/// Fits into 80 columns.
fn counts(name: &str, view: &View) -> String {
    let counts = &view.counts;
    let columns = [counts.ready, counts.leased, counts.done, counts.dead, counts.expired];
    let columns = columns.map(|count| format!("{:>10}", output::thousands(count)));
    let oldest = counts.oldest_waiting_ms.and_then(|millis| u64::try_from(millis).ok());
    let oldest = oldest.map_or_else(|| "-".into(), |millis| duration::short(Duration::from_millis(millis)));
    let seen = match counts.seen + counts.processing {
        0 => String::new(),
        seen => format!("  {} only seen", output::thousands(seen)),
    };
    format!("{name:<7}{}{:>8.1}{:>8.1}  {oldest}{seen}", columns.concat(), view.in_per_second, view.out_per_second)
}

fn names(heading: &str, names: &Names, all: u64, services: &str) -> Vec<String> {
    if names.of_rows == 0 {
        return Vec::new();
    }
    let part = if names.of_rows < all {
        format!(", of the first {}", output::thousands(names.of_rows))
    } else {
        String::new()
    };
    let mut lines = vec![String::new(), format!("{heading}{part}"), told("topics", &names.topics)];
    if !names.services.is_empty() {
        lines.push(told(services, &names.services));
    }
    lines
}

fn told(what: &str, names: &[Named]) -> String {
    let named = |named: &Named| {
        format!("{} {}", output::cut(&output::one_line(&named.name), 40), output::thousands(named.count))
    };
    format!("  {what:<13}{}", names.iter().map(named).collect::<Vec<_>>().join(", "))
}

fn error(failed: &Failed, snapshot: &Snapshot) -> String {
    let at = postroom::clock::Timestamp::from_micros(failed.micros);
    let ago = snapshot.now.map_or_else(String::new, |now| duration::short(now.since(at)));
    let line = format!("  {ago:>4} ago  {} {}  {}", failed.queue, output::one_line(&failed.topic), failed.error);
    output::cut(&line, WIDTH)
}
