//! Shows the progress of the demo: a bar on a terminal, otherwise one line per second.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

use crate::output::{count, thousands};

const LINE_EVERY: Duration = Duration::from_secs(1);

/// Shows the progress of the demo.
pub(super) enum Progress {
    Bar(ProgressBar),
    Lines { orders: u64, next_at: Instant },
}

impl Progress {
    pub(super) fn new(orders: u64) -> Result<Self> {
        if !std::io::stderr().is_terminal() {
            return Ok(Self::Lines { orders, next_at: Instant::now() + LINE_EVERY });
        }
        let style = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} orders handled, {msg}");
        Ok(Self::Bar(ProgressBar::new(orders).with_style(style.context("invalid template for the progress bar")?)))
    }

    pub(super) fn show(&mut self, handled: u64, kills: u64) {
        match self {
            Self::Bar(bar) => {
                bar.set_message(format!("worker killed {}", count(kills, "time")));
                bar.set_position(handled);
            }
            Self::Lines { orders, next_at } if *next_at <= Instant::now() => {
                *next_at += LINE_EVERY;
                let (handled, orders) = (thousands(handled), thousands(*orders));
                eprintln!("{handled} of {orders} orders handled, worker killed {}", count(kills, "time"));
            }
            Self::Lines { .. } => {}
        }
    }

    pub(super) fn end(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
