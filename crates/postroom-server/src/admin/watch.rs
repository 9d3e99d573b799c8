//! Checks the health of the node in the background, so that requests without a token never reach the database.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::Desk;
use super::cached::TIMES;
use super::health::Health;

/// How often to check that the database answers.
const REACH_EVERY: Duration = Duration::from_secs(3);
/// A health check counts messages. A slow check runs less often, within these bounds.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(3);
const LOOK_RARELY: Duration = Duration::from_secs(300);
/// The longest time for one check.
const LOOK_MAX: Duration = Duration::from_secs(30);

/// Runs the checks in a loop.
pub(super) async fn keep_looking(desk: Desk) {
    let reaching = again(&desk, |_| REACH_EVERY, async |desk| drop(desk.reached().await));
    let looking =
        again(&desk, |took| (took * TIMES).clamp(LOOK_EVERY, LOOK_RARELY), async |desk| drop(desk.health().await));
    tokio::join!(reaching, looking);
}

async fn again(desk: &Desk, pause: fn(Duration) -> Duration, look: impl AsyncFn(&Desk)) {
    loop {
        let began = Instant::now();
        let _ = timeout(LOOK_MAX, look(desk)).await;
        sleep_until(Instant::now() + pause(began.elapsed())).await;
    }
}

impl Desk {
    /// The current health, at most a moment old.
    pub(super) async fn health(&self) -> Arc<Health> {
        self.0.health.get(examine(self.clone()), Health::is_bad).await
    }

    /// The health at the last check. Whether the database answers is checked more often.
    pub(super) async fn health_seen(&self) -> Arc<Health> {
        if self.reached_seen().await {
            return self.0.health.seen(examine(self.clone()), Health::is_bad).await;
        }
        Arc::new(Health::of(None))
    }

    async fn reached(&self) -> Arc<bool> {
        self.0.reached.get(reach(self.clone()), is_away).await
    }

    /// Whether the database answered the last check.
    pub(super) async fn reached_seen(&self) -> bool {
        *self.0.reached.seen(reach(self.clone()), is_away).await
    }
}

async fn examine(desk: Desk) -> Health {
    Health::of(desk.look().await.as_ref())
}

async fn reach(desk: Desk) -> bool {
    desk.is_reached().await
}

fn is_away(is_reached: &bool) -> bool {
    !is_reached
}
