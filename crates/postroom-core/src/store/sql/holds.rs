//! Held places, and the messages that wait for them.

use super::rows::{int, text, uuid};
use super::{Session, SqlVerbs};
use crate::message::error_text;
use crate::queue::{Cause, Place, Queue};
use crate::sql::{Row, Value};
use crate::store::holds::WAITING_COUNTED;
use crate::store::{Hold, HoldChange};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl SqlVerbs {
    pub(crate) async fn hold(
        &self,
        session: &mut impl Session,
        queue: Queue,
        change: &HoldChange,
        now: Timestamp,
    ) -> Result<()> {
        let statements = self.statements.of(queue);
        let owner = uuid(Some(change.owner.as_uuid()));
        let stale = int(Hold::stale_before(now).as_micros());
        for place in change.lifted.iter().chain(change.held.iter().map(|hold| &hold.place)) {
            let values = place_values(place).into_iter().chain([owner.clone(), stale.clone()]).collect();
            session.execute(&statements.hold_remove.with(values)).await?;
        }
        for hold in &change.held {
            let mut values: Vec<Value> = place_values(&hold.place).into();
            values.extend([
                owner.clone(),
                int(hold.since.as_micros()),
                int(hold.tried_at.as_micros()),
                text(hold.cause.map(Cause::code)),
                Value::Text(error_text(&hold.why)),
            ]);
            session.execute(&statements.hold_add.with(values)).await?;
        }
        Ok(())
    }

    pub(crate) async fn holds(&self, session: &mut impl Session, queue: Queue, now: Timestamp) -> Result<Vec<Hold>> {
        let statements = self.statements.of(queue);
        let found = session.query(&statements.hold_list.with(Vec::new()), read).await?;
        let mut holds = Hold::merged(found.into_iter().flatten().collect(), now);
        for hold in &mut holds {
            hold.waiting = self.count_waiting_for(session, queue, &hold.place, WAITING_COUNTED).await?;
        }
        Ok(holds)
    }
}

fn place_values(place: &Place) -> [Value; 2] {
    [text(Some(place.kind())), text(Some(place.name()))]
}

/// Returns `None` if a newer program wrote the hold.
fn read(row: &dyn Row) -> Result<Option<Hold>> {
    let (kind, name) = (row.text(0)?.unwrap_or_default(), row.text(1)?.unwrap_or_default());
    let moment = |column| Ok::<_, crate::Error>(Timestamp::from_micros(row.int(column)?.unwrap_or(0)));
    let (since, tried_at) = (moment(2)?, moment(3)?);
    let cause = row.str(4)?.and_then(Cause::of_code);
    let why = row.text(5)?.unwrap_or_default();
    Ok(Place::read(&kind, &name).map(|place| Hold { place, since, tried_at, cause, why, waiting: 0 }))
}
