//! `postroom top`: a live view of both queues.

mod screen;
mod snapshot;

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tokio::time::MissedTickBehavior;

use self::screen::Screen;
use self::snapshot::Snapshot;
use super::Global;
use crate::up::signals::Signals;
use crate::{duration, open, output};

/// Watch both queues: counts, rates, and ready and failed messages by topic and destination
///
/// On a terminal, the view refreshes in place; press q or Ctrl-C to quit. Otherwise, a snapshot is printed at every
/// interval; with --json, each snapshot is one line.
#[derive(Args)]
pub(crate) struct Top {
    /// How often to refresh
    #[arg(long, value_name = "DUR", default_value = "2s", value_parser = parse_interval)]
    interval: Duration,

    /// Print one snapshot and exit
    #[arg(long)]
    once: bool,
}

impl Top {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let database = global.database()?;
        let opened = open::existing(&database).await?;
        let title = database.shown();
        let is_live = std::io::stdout().is_terminal() && !self.once && !global.json;
        let mut signals = Signals::new()?;
        let mut screen = is_live.then(Screen::open).transpose()?;
        let is_asked = is_live && std::io::stdin().is_terminal();
        let mut left = Box::pin(async { if is_asked { Screen::left().await } else { std::future::pending().await } });
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = signals.next() => return Ok(()),
                () = &mut left => return Ok(()),
            }
            let snapshot = Snapshot::take(&opened).await?;
            match &mut screen {
                Some(screen) => screen.draw(&screen::lines(&title, &snapshot))?,
                None if global.json => output::json(&snapshot)?,
                None => output::line(screen::lines(&title, &snapshot).join("\n"))?,
            }
            if self.once {
                return Ok(());
            }
            if screen.is_none() && !global.json {
                output::line("")?;
            }
        }
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        interval if interval < Duration::from_millis(100) => Err("it must be at least 100ms".into()),
        interval => Ok(interval),
    }
}
