//! Reasons to stop: a signal, or a closed stdout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use tokio::sync::watch;

/// Asks the workers to stop. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Stop {
    asked: Arc<watch::Sender<bool>>,
    lost_stdout: Arc<AtomicBool>,
}

/// Waits until the workers are asked to stop.
#[derive(Clone)]
pub(crate) struct Stopped(watch::Receiver<bool>);

/// Both ends.
pub(crate) fn stop() -> (Stop, Stopped) {
    let (asked, stopped) = watch::channel(false);
    (Stop { asked: Arc::new(asked), lost_stdout: Arc::default() }, Stopped(stopped))
}

impl Stop {
    pub(crate) fn ask(&self) {
        self.asked.send_replace(true);
    }

    pub(crate) fn ask_without_stdout(&self) {
        self.lost_stdout.store(true, Ordering::Relaxed);
        self.ask();
    }

    pub(crate) fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    pub(crate) fn lost_stdout(&self) -> bool {
        self.lost_stdout.load(Ordering::Relaxed)
    }
}

impl Stopped {
    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) async fn wait(mut self) {
        // An error means that the sender is gone, which also means stop.
        let _ = self.0.wait_for(|asked| *asked).await;
    }
}

/// The signals that stop a program.
#[cfg(unix)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn new() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
        let terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        Ok(Self { interrupt, terminate })
    }

    /// The next one, by its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// The signals that stop a program.
#[cfg(not(unix))]
pub(crate) struct Signals(tokio::signal::windows::CtrlC);

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(tokio::signal::windows::ctrl_c().context("cannot listen for Ctrl-C")?))
    }

    /// The next one, by its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        self.0.recv().await;
        "Ctrl-C"
    }
}

/// The signal that makes a node reload its configuration.
#[cfg(unix)]
pub(crate) struct HangUps(tokio::signal::unix::Signal);

#[cfg(unix)]
impl HangUps {
    pub(crate) fn new() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self(signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?))
    }

    pub(crate) async fn next(&mut self) {
        self.0.recv().await;
    }
}

/// This system has no signal for it.
#[cfg(not(unix))]
pub(crate) struct HangUps;

#[cfg(not(unix))]
impl HangUps {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) {
        std::future::pending().await
    }
}
