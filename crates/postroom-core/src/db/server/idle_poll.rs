//! Polls an idle store twice a second. It finds rows that came in without a notification: by plain SQL, or from a
//! process that could not notify. One query covers both queues, and it runs only while a worker waits, so many idle
//! stores cost next to nothing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::db::server::{Engine, Pooled, ServerConnection, ServerShared};
use crate::store::Wake;
use crate::store::sql::SqlVerbs;
use crate::support::clock::{Timestamp, monotonic};
use crate::support::error::Result;

const PAUSE: Duration = Duration::from_millis(500);

/// Polls until the store is dropped.
pub(super) async fn beat<E: Engine>(core: Weak<ServerShared<E>>) {
    loop {
        // The stores of a program do not all poll at the same moment.
        let pause = PAUSE.mul_f64(0.9 + fastrand::f64() / 10.0);
        tokio::time::sleep_until((monotonic() + pause).into()).await;
        let Some(core) = core.upgrade() else { return };
        if core.wakes().iter().any(Wake::is_heard) {
            // An unreachable database is not reported here: the workers poll too, and report it.
            let may_have_work = look(&core).await.unwrap_or_default();
            let rung = core.wakes().iter().zip(may_have_work).filter(|(_, has_work)| *has_work);
            rung.for_each(|(wake, _)| wake.ring());
        }
    }
}

async fn look<E: Engine>(core: &Arc<ServerShared<E>>) -> Result<[bool; 2]> {
    core.write_autocommit(
        (),
        |verbs, link, (), now| Box::pin(async move { felt(verbs, link, now).await.map(Some) }),
        |verbs, link, (), now| Box::pin(felt(verbs, link, now)),
    )
    .await
}

/// Polls once. A read-only server answers too, but its connection is not used again.
async fn felt<E: Engine>(verbs: &SqlVerbs, link: &mut Pooled<E>, now: Timestamp) -> Result<[bool; 2]> {
    let (may_have_work, is_read_only) = verbs.idle_poll(link, now).await?;
    if is_read_only {
        link.patience().spend();
    }
    Ok(may_have_work)
}
