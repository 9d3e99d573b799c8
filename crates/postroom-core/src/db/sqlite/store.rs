//! The store itself: each verb is a job for the writer thread, each question goes to a reader.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::db::sqlite::blocking::{blocking, now};
use crate::db::sqlite::dialect::SQLITE;
use crate::db::sqlite::driver_rusqlite::SqliteConn;
use crate::db::sqlite::job::{UserJob, VerbJob};
use crate::db::sqlite::readers::Readers;
use crate::db::sqlite::schema::{deploy_schema, schema_version};
use crate::db::sqlite::thread::OnFile;
use crate::db::sqlite::writer::{Writer, broken_down};
use crate::db::sqlite::{SqliteOptions, WriteTx, connect, watch};
use crate::message::{ContentHash, InboxKey, Incoming, NewMessage};
use crate::queue::{ClaimRequest, Claims, Lease, Queue, Reaped, Settle, Settled, State, Verb};
use crate::sql::Statement;
use crate::store::outage::Outage;
use crate::store::sql::SqlVerbs;
use crate::store::{
    Admission, Arrival, Audited, BoxFuture, Deed, Failed, FailedGroup, Failure, Filter, Fingerprint, Hold, HoldChange,
    Holding, Identity, ManualMove, Operation, PutMode, QueueStats, Record, Sighting, Store, Stored, Wake,
};
use crate::support::clock::{Clock, Timestamp};
use crate::support::error::Result;
use crate::telemetry;

/// A store in a SQLite file, beside the user's own tables. Cheap to clone.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let dir = tempfile::tempdir().unwrap();
/// let store = postroom::sqlite::SqliteOptions::new(dir.path().join("shop.db")).deploy_schema(true).open().await?;
/// store.write(|tx| {
///     tx.execute_batch("CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (7)")?;
///     tx.enqueue(&postroom::NewMessage::new("order.placed", "7"))
/// }).await?;
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct SqliteStore(pub(crate) Arc<SqliteShared>);

/// What the store, its handlers and its transactions share.
pub(crate) struct SqliteShared {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) verbs: SqlVerbs,
    pub(crate) clock: Clock,
    pub(crate) writer: Writer,
    pub(crate) outbox_wake: Wake,
    pub(crate) inbox_wake: Wake,
    pub(crate) ack_outside: bool,
    pub(crate) outage: Outage,
    pub(super) readers: Readers,
    pub(super) watched: Option<watch::Watched>,
}

impl std::fmt::Debug for SqliteShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// The schema as SQL text, for people with migrations of their own.
    pub fn schema(tables: &crate::TableNames) -> String {
        SqlVerbs::new(&SQLITE, tables.clone(), None, SQLITE.fence).statements.schema
    }

    /// What a claim runs, in order: for a benchmark that counts its steps.
    #[cfg(feature = "testing")]
    pub fn claim_statements(tables: &crate::TableNames, queue: Queue) -> Vec<String> {
        SqlVerbs::new(&SQLITE, tables.clone(), None, SQLITE.fence).statements.of(queue).claim_texts()
    }

    pub(crate) async fn open(options: SqliteOptions) -> Result<Self> {
        let verbs = SqlVerbs::new(&SQLITE, options.tables.clone(), options.dead_letter_topic.clone(), options.fence())
            .by(options.clock.clone());
        let (options, writer) = blocking(move || {
            if options.deploy_schema && options.create_file {
                connect::create_private(&options.path)?;
            }
            let writer = Writer::of(&connect::file_key(&options.path), options.durability, options.idle)?;
            Ok((options, writer))
        })
        .await?;
        // Another store of this process may have had another file open there.
        if writer.place().has_changed() {
            writer.leave().await;
        }
        let place = writer.place().clone();
        let (options, verbs) = blocking(move || {
            if options.deploy_schema {
                deploy_schema(&place.writer(options.durability)?.conn, &verbs)?;
            }
            // Without a write: a file that is not ours stays as it is.
            verbs.check_schema(schema_version(&connect::reader(place.path())?, &verbs)?)?;
            place.accept(&place.writer(options.durability)?);
            Ok((options, verbs))
        })
        .await?;
        let (outbox_wake, inbox_wake) = (Wake::new(), Wake::new());
        let wakes = [outbox_wake.clone(), inbox_wake.clone()];
        let watch = options.watch.then(|| watch::watch(writer.place().clone(), wakes)).flatten();
        let core = Arc::new(SqliteShared {
            path: writer.place().path().to_path_buf(),
            ack_outside: options.ack_outside(),
            writer,
            name: options.name,
            verbs,
            clock: options.clock,
            outbox_wake,
            inbox_wake,
            outage: Outage::default(),
            readers: Readers::new(),
            watched: watch,
        });
        let on_file: Arc<dyn OnFile> = core.clone();
        core.writer.add(Arc::downgrade(&on_file));
        Ok(Self(core))
    }

    /// Closes the file when its work is done: the writer thread ends, and the log is folded into the database if nobody
    /// else has it open. Without it the log stays behind when the program ends, which loses nothing. A later call on
    /// this store or a clone of it opens the file again.
    pub async fn close(self) {
        self.let_go().await;
    }

    async fn let_go(&self) {
        self.0.readers.close();
        if let Some(watched) = &self.0.watched {
            watched.end().await;
        }
        self.0.writer.end().await;
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Runs the user's own writes in one transaction on the writer thread, where they share its fsync. Returns after
    /// the commit. `code` may run more than once, when another job spoils the group it ran in; only its last run
    /// counts.
    pub async fn write<T, F>(&self, mut code: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&WriteTx<'_>) -> Result<T> + Send + 'static,
    {
        let (core, caller) = (self.0.clone(), telemetry::Caller::here());
        let rings = [self.0.outbox_wake.clone(), self.0.inbox_wake.clone()];
        let code = move |conn: &Connection| caller.within(|| code(&WriteTx { conn, core: &core }));
        let (job, answer) = UserJob::new(code, rings);
        self.0.writer.submit(Box::new(job))?;
        answer.await.map_err(|_| broken_down())?
    }

    /// Reads with a connection of the store's own, which cannot write.
    pub async fn read<T, F>(&self, code: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.0.writer.follow().await?;
        let core = self.0.clone();
        blocking(move || core.readers.read(core.writer.place(), code)).await
    }

    /// A verb on the writer thread.
    pub(super) fn verb<'a, T, F>(&'a self, verb: F) -> BoxFuture<'a, Result<T>>
    where
        T: Send + 'static,
        F: FnMut(&SqlVerbs, &mut SqliteConn<'_>, Timestamp) -> Result<T> + Send + 'static,
    {
        Box::pin(self.submit(None, verb))
    }

    /// A verb after which there may be work in line.
    pub(super) fn ringing<'a, T, F>(&'a self, queue: Queue, verb: F) -> BoxFuture<'a, Result<T>>
    where
        T: Send + 'static,
        F: FnMut(&SqlVerbs, &mut SqliteConn<'_>, Timestamp) -> Result<T> + Send + 'static,
    {
        Box::pin(self.submit(Some(queue), verb))
    }

    async fn submit<T, F>(&self, rings: Option<Queue>, mut verb: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&SqlVerbs, &mut SqliteConn<'_>, Timestamp) -> Result<T> + Send + 'static,
    {
        let core = self.0.clone();
        let (mut job, answer) = VerbJob::new(move |conn: &Connection| {
            let mut session = SqliteConn::after_outage(conn, core.outage.at());
            verb(&core.verbs, &mut session, core.clock.now())
        });
        if let Some(queue) = rings {
            job = job.ringing(self.wake(queue).clone());
        }
        self.0.writer.submit(Box::new(job))?;
        answer.await.map_err(|_| broken_down())?
    }

    /// A question, answered by a reader.
    pub(super) fn ask<'a, T, F>(&'a self, verb: F) -> BoxFuture<'a, Result<T>>
    where
        T: Send + 'static,
        F: FnOnce(&SqlVerbs, &mut SqliteConn<'_>, Timestamp) -> Result<T> + Send + 'static,
    {
        let core = self.0.clone();
        Box::pin(self.read(move |conn| verb(&core.verbs, &mut SqliteConn::new(conn), core.clock.now())))
    }
}

impl Store for SqliteStore {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn wake(&self, queue: Queue) -> &Wake {
        match queue {
            Queue::Outbox => &self.0.outbox_wake,
            Queue::Inbox => &self.0.inbox_wake,
        }
    }

    fn holding(&self, queue: Queue) -> &Holding {
        self.0.verbs.holding(queue)
    }

    fn enqueue(&self, messages: Vec<NewMessage>) -> BoxFuture<'_, Result<Vec<Stored>>> {
        self.ringing(Queue::Outbox, move |verbs, conn, time| now(verbs.enqueue(conn, &messages, time)))
    }

    fn claim(&self, queue: Queue, request: ClaimRequest) -> BoxFuture<'_, Result<Claims>> {
        self.verb(move |verbs, conn, time| now(verbs.claim(conn, queue, &request, time)))
    }

    fn settle(&self, queue: Queue, settles: Arc<Vec<Settle>>) -> BoxFuture<'_, Result<Settled>> {
        let at_once = settles.iter().any(|settle| settle.verb == Verb::Release);
        let verb =
            move |verbs: &SqlVerbs, conn: &mut SqliteConn<'_>, time| now(verbs.settle(conn, queue, &settles, time));
        if at_once { self.ringing(queue, verb) } else { self.verb(verb) }
    }

    fn extend(&self, queue: Queue, leases: Vec<Lease>, lease: Duration) -> BoxFuture<'_, Result<Vec<bool>>> {
        Box::pin(async move {
            let core = self.0.clone();
            let (job, answer) = VerbJob::new(move |conn: &Connection| {
                now(core.verbs.extend(&mut SqliteConn::new(conn), queue, &leases, lease, core.clock.now()))
            });
            // In front of everybody: behind slow handlers the leases would run out.
            self.0.writer.submit_first(Box::new(job))?;
            answer.await.map_err(|_| broken_down())?
        })
    }

    fn reap(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Reaped>> {
        self.ringing(queue, move |verbs, conn, time| now(verbs.reap(conn, queue, limit, time)))
    }

    fn expire(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.verb(move |verbs, conn, time| now(verbs.expire(conn, queue, limit, time)))
    }

    fn expire_dead(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.verb(move |verbs, conn, time| now(verbs.expire_dead(conn, queue, limit, time)))
    }

    fn purge(&self, queue: Queue, state: State, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.verb(move |verbs, conn, time| now(verbs.purge(conn, queue, state, time.minus(retention), limit)))
    }

    fn change(&self, queue: Queue, change: Operation, deed: Deed) -> BoxFuture<'_, Result<u64>> {
        self.ringing(queue, move |verbs, conn, time| now(verbs.change(conn, queue, &change, &deed, time)))
    }

    fn audit(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Vec<Audited>>> {
        self.ask(move |verbs, conn, _| now(verbs.audit(conn, queue, limit)))
    }

    fn see(&self, key: InboxKey, hash: Option<ContentHash>) -> BoxFuture<'_, Result<Sighting>> {
        self.verb(move |verbs, conn, time| now(verbs.see(conn, &key, hash.as_ref(), time)))
    }

    fn put(&self, incoming: Incoming, mode: PutMode) -> BoxFuture<'_, Result<Arrival>> {
        self.ringing(Queue::Inbox, move |verbs, conn, time| now(verbs.put(conn, &incoming, mode, time)))
    }

    fn refuse(&self, incoming: Incoming, why: String) -> BoxFuture<'_, Result<Admission>> {
        self.verb(move |verbs, conn, time| now(verbs.refuse(conn, &incoming, &why, time)))
    }

    fn mark(&self, key: InboxKey, mark: ManualMove) -> BoxFuture<'_, Result<bool>> {
        self.verb(move |verbs, conn, time| now(verbs.mark(conn, &key, &mark, time)))
    }

    fn find(&self, id: Identity) -> BoxFuture<'_, Result<Vec<Record>>> {
        self.ask(move |verbs, conn, _| now(verbs.find(conn, &id)))
    }

    fn list(&self, queue: Queue, filter: Filter) -> BoxFuture<'_, Result<Vec<Record>>> {
        self.ask(move |verbs, conn, _| now(verbs.list(conn, queue, &filter)))
    }

    fn failures(&self, queue: Queue, seq: i64) -> BoxFuture<'_, Result<Vec<Failure>>> {
        self.ask(move |verbs, conn, _| now(verbs.failures(conn, queue, seq)))
    }

    fn failed(&self, queue: Queue, filter: Filter) -> BoxFuture<'_, Result<Vec<Failed>>> {
        self.ask(move |verbs, conn, _| now(verbs.failed(conn, queue, &filter)))
    }

    fn failed_groups(&self, queue: Queue, rows: usize) -> BoxFuture<'_, Result<Vec<FailedGroup>>> {
        self.ask(move |verbs, conn, _| now(verbs.failed_groups(conn, queue, rows)))
    }

    fn hold(&self, queue: Queue, change: HoldChange) -> BoxFuture<'_, Result<()>> {
        self.verb(move |verbs, conn, time| now(verbs.hold(conn, queue, &change, time)))
    }

    fn holds(&self, queue: Queue) -> BoxFuture<'_, Result<Vec<Hold>>> {
        self.ask(move |verbs, conn, time| now(verbs.holds(conn, queue, time)))
    }

    fn overdue(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.ask(move |verbs, conn, time| now(verbs.overdue(conn, queue, limit, time)))
    }

    fn purgeable(&self, queue: Queue, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.ask(move |verbs, conn, time| now(verbs.purgeable(conn, queue, time.minus(retention), limit)))
    }

    fn stats(&self, queue: Queue) -> BoxFuture<'_, Result<QueueStats>> {
        self.ask(move |verbs, conn, time| now(verbs.stats(conn, queue, time)))
    }

    fn backlog(&self, queue: Queue) -> BoxFuture<'_, Result<u64>> {
        self.ask(move |verbs, conn, _| now(verbs.backlog(conn, queue)))
    }

    fn inbox_size(&self) -> BoxFuture<'_, Result<u64>> {
        self.ask(move |verbs, conn, _| now(verbs.inbox_size(conn)))
    }

    fn insert_statement(&self, message: &NewMessage) -> Result<Statement> {
        Ok(self.0.verbs.insert(message, self.0.clock.now()))
    }

    fn accept_statement(&self, incoming: &Incoming) -> Result<Statement> {
        Ok(self.0.verbs.accept(incoming, self.0.clock.now()))
    }

    fn ack_statement(&self, queue: Queue, lease: &Lease, response: Option<&str>) -> Result<Statement> {
        Ok(self.0.verbs.ack(queue, lease, response, self.0.clock.now()))
    }

    fn take_maintenance(&self, interval: Duration) -> BoxFuture<'_, Result<bool>> {
        self.verb(move |verbs, conn, time| now(verbs.take_maintenance(conn, interval, time)))
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        connect::fingerprint(&self.0.path)
    }

    fn check_schema(&self) -> BoxFuture<'_, Result<()>> {
        let core = self.0.clone();
        Box::pin(self.read(move |conn| core.verbs.check_schema(schema_version(conn, &core.verbs)?)))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.let_go())
    }
}
