//! Both databases, as the parent sees and locks them.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::runtime::Runtime;

use super::ground::{Base, Ground, Line};
use super::pace::now;
use super::place::Place;

/// How long a server may take to let us in again.
const OUTAGE_MAX: Duration = Duration::from_secs(30);

/// An inbox row that is held, by whom, and by the how-manieth claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    seq: i64,
    claim_no: i64,
    owner: String,
}

/// What the one holds who claimed last. Others may have died lately and seem to hold something still.
pub(crate) fn latest(held: impl Iterator<Item = Held>) -> Vec<Held> {
    let held: Vec<Held> = held.collect();
    let owner = held.last().map(|last| last.owner.clone());
    held.into_iter().filter(|lease| Some(&lease.owner) == owner.as_ref()).collect()
}

/// Both databases, as the parent sees and locks them.
pub(crate) trait Sight {
    fn ask(&mut self, base: Base, sql: &str) -> Result<Vec<Line>>;

    /// Nobody else writes to it until all is unlocked: on a server, no handler.
    fn lock(&mut self, base: Base) -> Result<()>;

    /// The same, where a writer that is stopped stops everybody.
    fn lock_one_writer_of(&mut self, base: Base) -> Result<()>;

    fn unlock(&mut self) -> Result<()>;

    fn digits_of(&self, column: &str) -> String;

    fn id(&self, id: uuid::Uuid) -> String;

    /// The messages of a queue with their state.
    fn states(&self, base: Base) -> String;

    /// The messages of a queue that stand in no place or in two.
    fn misplaced(&self, base: Base) -> Option<String>;
}

struct Eyes<G: Ground> {
    place: Place,
    runtime: Runtime,
    looking: Vec<(Base, G::Own)>,
    locking: Vec<G::Own>,
}

impl<G: Ground> Eyes<G> {
    fn look(&mut self, base: Base, sql: &str) -> Result<Vec<Line>> {
        let known = self.looking.iter().position(|(known, _)| *known == base);
        let (_, mut conn) = match known {
            Some(known) => self.looking.swap_remove(known),
            None => (base, self.runtime.block_on(G::connect(&self.place, base))?),
        };
        let lines = self.runtime.block_on(G::ask(&mut conn, sql))?;
        self.looking.push((base, conn));
        Ok(lines)
    }
}

impl<G: Ground> Sight for Eyes<G> {
    /// A connection that broke is replaced; a server that was killed is back soon.
    fn ask(&mut self, base: Base, sql: &str) -> Result<Vec<Line>> {
        let until = now() + OUTAGE_MAX;
        loop {
            match self.look(base, sql) {
                Err(_) if !G::ONE_WRITER && now() < until => super::pace::wait(Duration::from_millis(20)),
                looked => return looked.with_context(|| format!("{} does not answer {sql}", base.name())),
            }
        }
    }

    fn lock(&mut self, base: Base) -> Result<()> {
        let mut conn = self.runtime.block_on(G::connect(&self.place, base))?;
        self.runtime.block_on(G::say(&mut conn, G::LOCK))?;
        self.locking.push(conn);
        Ok(())
    }

    fn lock_one_writer_of(&mut self, base: Base) -> Result<()> {
        if G::ONE_WRITER { self.lock(base) } else { Ok(()) }
    }

    fn unlock(&mut self) -> Result<()> {
        self.locking.drain(..).try_for_each(|mut conn| self.runtime.block_on(G::say(&mut conn, G::UNLOCK)))
    }

    fn digits_of(&self, column: &str) -> String {
        G::digits_of(column)
    }

    fn id(&self, id: uuid::Uuid) -> String {
        G::id(id)
    }

    fn states(&self, base: Base) -> String {
        format!("{}{}", base.queue(), G::STATES)
    }

    fn misplaced(&self, base: Base) -> Option<String> {
        (!G::STATES.is_empty()).then(|| format!("{}_misplaced", base.queue()))
    }
}

/// What the parent wants to know of the rows.
pub(crate) struct Rows(Box<dyn Sight>);

impl Rows {
    pub(crate) fn open<G: Ground>(place: &Place) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(place.create::<G>())?;
        Ok(Self(Box::new(Eyes::<G> { place: place.clone(), runtime, looking: Vec::new(), locking: Vec::new() })))
    }

    pub(crate) fn sight(&mut self) -> &mut dyn Sight {
        self.0.as_mut()
    }

    pub(crate) fn count(&mut self, base: Base, sql: &str) -> Result<u64> {
        let lines = self.0.ask(base, sql)?;
        let count = lines.first().and_then(|line| line.first()).context("no count")?;
        Ok(count.parse()?)
    }

    /// The first column.
    pub(crate) fn texts(&mut self, base: Base, sql: &str) -> Result<Vec<String>> {
        Ok(self.0.ask(base, sql)?.into_iter().flatten().collect())
    }

    /// Messages that wait or are held, in both databases. Accepted is before acknowledged: none is between the two.
    pub(crate) fn backlog(&mut self) -> Result<u64> {
        let [unsent, unhandled] = Base::BOTH
            .map(|base| (base, format!("SELECT count(*) FROM {} WHERE state IN (0, 1)", self.0.states(base))));
        Ok(self.count(unsent.0, &unsent.1)? + self.count(unhandled.0, &unhandled.1)?)
    }

    /// The inbox rows that are held, in the order in which they were claimed.
    pub(crate) fn leases(&mut self) -> Result<Vec<Held>> {
        let owner = self.0.digits_of("owner");
        let inbox = self.0.states(Base::Ledger);
        let sql = format!("SELECT seq, claim_no, {owner} FROM {inbox} WHERE state = 1 ORDER BY last_attempt_at");
        let held = |line: Line| match <[String; 3]>::try_from(line) {
            Ok([seq, claim_no, owner]) => Ok(Held { seq: seq.parse()?, claim_no: claim_no.parse()?, owner }),
            Err(line) => Err(anyhow!("not a lease: {line:?}")),
        };
        self.0.ask(Base::Ledger, &sql)?.into_iter().map(held).collect()
    }

    /// Whether one of these rows is in this state under a later claim.
    pub(crate) fn is_taken_over(&mut self, leases: &[Held], state: i64) -> Result<bool> {
        for Held { seq, claim_no, .. } in leases {
            let inbox = self.0.states(Base::Ledger);
            let sql = format!("SELECT 1 FROM {inbox} WHERE seq = {seq} AND claim_no > {claim_no} AND state = {state}");
            if !self.0.ask(Base::Ledger, &sql)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether an outbox message is settled.
    pub(crate) fn is_sent(&mut self, message: &str) -> Result<bool> {
        let id = self.0.id(uuid::Uuid::try_parse(message)?);
        let outbox = self.0.states(Base::Orders);
        let sql = format!("SELECT 1 FROM {outbox} WHERE message_id = {id} AND state > 1");
        Ok(!self.0.ask(Base::Orders, &sql)?.is_empty())
    }
}
