//! The node looks at itself, so that nothing a stranger asks reaches the database.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::Desk;
use super::cached::TIMES;
use super::health::Health;

/// So often it is asked whether the database is there.
const REACH_EVERY: Duration = Duration::from_secs(3);
/// A look counts messages: one that takes long comes rarely, within these bounds.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(3);
const LOOK_RARELY: Duration = Duration::from_secs(300);
/// One that has no end must not be the last.
const LOOK_MAX: Duration = Duration::from_secs(30);

/// Looks again and again.
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
    /// How it stands, looked at just now or a moment ago.
    pub(super) async fn health(&self) -> Arc<Health> {
        self.0.health.get(examine(self.clone()), Health::is_bad).await
    }

    /// How it stood when the node looked last; whether the database is there is looked at more often.
    pub(super) async fn health_seen(&self) -> Arc<Health> {
        if self.reached_seen().await {
            return self.0.health.seen(examine(self.clone()), Health::is_bad).await;
        }
        Arc::new(Health::of(None))
    }

    async fn reached(&self) -> Arc<bool> {
        self.0.reached.get(reach(self.clone()), is_away).await
    }

    /// Whether the database answered last.
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
