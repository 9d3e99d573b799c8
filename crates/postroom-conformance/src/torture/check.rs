//! The checker. It knows nothing but the producer's book, the orders, the effects and where the messages stand.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use uuid::Uuid;

use super::book::Entries;
use super::ground::Base;
use super::place::Place;
use super::rows::Rows;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) acknowledged: u64,
    pub(crate) effects: u64,
    /// Acknowledged, and without an effect.
    pub(crate) lost: u64,
    /// Effects beyond the first of their message.
    pub(crate) doubled: u64,
    /// Effects whose order is not there.
    pub(crate) ghosts: u64,
    /// Halves of what must be whole: an order without its message, an effect without its settled inbox row, or the
    /// other way round.
    pub(crate) torn: u64,
    /// Effects of a lane that came before the effect of an earlier order.
    pub(crate) inverted: u64,
    /// Settles by somebody else than the one who held the row.
    pub(crate) stale_applied: u64,
    /// Messages that are dead.
    pub(crate) dead: u64,
    /// What they died of.
    pub(crate) causes: Vec<String>,
    /// Messages that stand in no place or in two.
    pub(crate) misplaced: u64,
}

pub(crate) fn check(place: &Place, rows: &mut Rows) -> Result<Findings> {
    let entries = Entries::read(&place.book_path())?;
    let outbox_id = rows.sight().digits_of("message_id");
    let orders = set(rows, Base::Orders, "SELECT message_id FROM orders")?;
    let sent = set(rows, Base::Orders, &format!("SELECT {outbox_id} FROM outbox_messages"))?;
    let inbox = rows.sight().states(Base::Ledger);
    let handled = set(rows, Base::Ledger, &format!("SELECT message_id FROM {inbox} WHERE state = 2"))?;
    let mut effects: BTreeMap<Uuid, u64> = BTreeMap::new();
    for message in ids(rows, Base::Ledger, "SELECT message_id FROM effects")? {
        *effects.entry(message).or_default() += 1;
    }
    let applied: BTreeSet<Uuid> = effects.keys().copied().collect();
    let torn = orders.symmetric_difference(&sent).count() + applied.symmetric_difference(&handled).count();
    let mut found = Findings {
        acknowledged: u64::try_from(entries.acknowledged.len())?,
        effects: effects.values().sum(),
        doubled: effects.values().map(|times| times - 1).sum(),
        ghosts: u64::try_from(applied.difference(&orders).count())?,
        torn: u64::try_from(torn)?,
        ..Findings::default()
    };
    found.inverted = inverted(place, rows)?;
    for order in &entries.acknowledged {
        found.lost += u64::from(!applied.contains(&place.message_id(*order)?.as_uuid()));
    }
    for base in Base::BOTH {
        found.stale_applied += rows.count(base, "SELECT count(*) FROM stale_settles")?;
        let given_up = format!("SELECT count(*) FROM {} WHERE state IN (3, 4)", rows.sight().states(base));
        found.dead += rows.count(base, &given_up)?;
        let causes = format!("SELECT last_error FROM {} WHERE state = 3", rows.sight().states(base));
        found
            .causes
            .extend(rows.texts(base, &causes)?.into_iter().map(|cause| format!("dead in {}: {cause}", base.name())));
        if let Some(misplaced) = rows.sight().misplaced(base) {
            found.misplaced += rows.count(base, &format!("SELECT count(*) FROM {misplaced}"))?;
        }
    }
    Ok(found)
}

/// Handlers of one lane follow one another, so each effect is written after the commit of the one before it.
fn inverted(place: &Place, rows: &mut Rows) -> Result<u64> {
    if place.lanes == 0 {
        return Ok(0);
    }
    let mut orders = BTreeMap::new();
    for order in 0..place.messages {
        orders.insert(place.message_id(order)?.as_uuid(), order);
    }
    let (mut last, mut inverted) = (BTreeMap::new(), 0);
    for message in ids(rows, Base::Ledger, "SELECT message_id FROM effects ORDER BY at")? {
        let Some(order) = orders.get(&message).copied() else { continue };
        let before = last.insert(place.lane(order), order);
        inverted += u64::from(before.is_some_and(|before| before > order));
    }
    Ok(inverted)
}

fn set(rows: &mut Rows, base: Base, sql: &str) -> Result<BTreeSet<Uuid>> {
    Ok(ids(rows, base, sql)?.into_iter().collect())
}

fn ids(rows: &mut Rows, base: Base, sql: &str) -> Result<Vec<Uuid>> {
    rows.texts(base, sql)?.iter().map(|text| Ok(Uuid::try_parse(text)?)).collect()
}
