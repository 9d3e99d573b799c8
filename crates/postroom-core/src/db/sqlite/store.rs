//! The store itself: each write is a job for the writer thread, each query goes to a reader.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use rusqlite::Connection;

use crate::db::sqlite::blocking::{blocking, now};
use crate::db::sqlite::dialect::SQLITE;
use crate::db::sqlite::driver_rusqlite::SqliteConn;
use crate::db::sqlite::enqueue::Enqueue;
use crate::db::sqlite::job::{claim_job, user_job, verb_job};
use crate::db::sqlite::readers::Readers;
use crate::db::sqlite::schema::{migrate, schema_version};
use crate::db::sqlite::thread::OnFile;
use crate::db::sqlite::writer::{Writer, broken_down};
use crate::db::sqlite::{SqliteOptions, WriteTx, connect, watch};
use crate::message::NewMessage;
use crate::queue::{ClaimRequest, Claims, Lease, Queue, Settle, Settled, Verb};
use crate::sql::steps::Way;
use crate::store::outage::Outage;
use crate::store::sql::SqlVerbs;
use crate::store::{Fingerprint, Stored, Wake};
use crate::support::clock::{Clock, Timestamp};
use crate::support::error::Result;
use crate::support::task::Portable;
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

/// The state that the store, its handlers and its transactions share.
pub(crate) struct SqliteShared {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) verbs: SqlVerbs,
    pub(crate) clock: Clock,
    pub(crate) writer: Writer,
    pub(crate) wakes: [Wake; 2],
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
    /// The schema as SQL text, for people with their own migrations.
    pub fn schema(tables: &crate::TableNames) -> String {
        Way::new(&SQLITE, tables).schema()
    }

    /// The statements of a claim, in order, for a benchmark that counts its steps.
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
        // Another store of this process may have had another file open at this path.
        if writer.place().has_changed() {
            writer.leave().await;
        }
        let place = writer.place().clone();
        let (options, verbs) = blocking(move || {
            if options.deploy_schema {
                migrate(&place, options.durability, &verbs, None)?;
            }
            // Reads only: a file that is not ours is not changed.
            verbs.check_schema(schema_version(&connect::reader(place.path())?, &verbs)?)?;
            place.accept(&place.writer(options.durability)?);
            Ok((options, verbs))
        })
        .await?;
        let wakes = [Wake::new(), Wake::new()];
        let watch = options.watch.then(|| watch::watch(writer.place().clone(), wakes.clone())).flatten();
        let core = Arc::new(SqliteShared {
            path: writer.place().path().to_path_buf(),
            ack_outside: options.ack_outside(),
            writer,
            name: options.name,
            verbs,
            clock: options.clock,
            wakes,
            outage: Outage::default(),
            readers: Readers::new(),
            watched: watch,
        });
        let on_file: Arc<dyn OnFile> = core.clone();
        core.writer.add(Arc::downgrade(&on_file));
        Ok(Self(core))
    }

    /// Closes the file when its work is done: the writer thread ends, and the log is copied back into the database if
    /// nobody else has it open. Without this call the log stays behind when the program ends, which loses nothing. A
    /// later call on this store or a clone of it opens the file again.
    pub async fn close(self) {
        self.0.let_go().await;
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Runs the user's own writes in one transaction on the writer thread, where they share its fsync. Returns after
    /// the commit. `code` may run more than once if another job breaks the group it ran in; only its last run counts.
    pub async fn write<T, F>(&self, mut code: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&WriteTx<'_>) -> Result<T> + Send + 'static,
    {
        let (core, caller) = (self.0.clone(), telemetry::Caller::here());
        let code = move |conn: &Connection| caller.within(|| code(&WriteTx { conn, core: &core }));
        let (job, answer) = user_job(code, self.0.wakes.clone());
        self.0.writer.submit(job)?;
        answer.await.map_err(|_| broken_down())?
    }

    /// Reads with one of the store's own connections, which cannot write.
    pub async fn read<T, F>(&self, code: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.0.read(code).await
    }
}

/// An operation with its arguments passed separately, so that it can run again.
pub(super) type JobFn<A, T> =
    for<'v> fn(&'v SqlVerbs, &'v mut SqliteConn<'v>, &'v A, Timestamp) -> LocalBoxFuture<'v, Result<T>>;

impl SqliteShared {
    pub(super) async fn read<T, F>(self: &Arc<Self>, code: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.writer.follow().await?;
        let core = self.clone();
        blocking(move || core.readers.read(core.writer.place(), code)).await
    }

    /// Runs a query on a reader.
    pub(crate) async fn ask<A: Portable, T: Portable>(self: &Arc<Self>, args: A, verb: JobFn<A, T>) -> Result<T> {
        let core = self.clone();
        self.read(move |conn| now(verb(&core.verbs, &mut SqliteConn::new(conn), &args, core.clock.now()))).await
    }

    /// Runs an operation on the writer thread.
    pub(crate) async fn write<A: Portable, T: Portable>(self: &Arc<Self>, args: A, verb: JobFn<A, T>) -> Result<T> {
        self.submit(None, args, verb).await
    }

    /// Runs an operation after which there may be messages to claim.
    pub(crate) async fn ring<A, T>(self: &Arc<Self>, queue: Queue, args: A, verb: JobFn<A, T>) -> Result<T>
    where
        A: Portable,
        T: Portable,
    {
        self.submit(Some(queue), args, verb).await
    }

    async fn submit<A, T>(self: &Arc<Self>, rings: Option<Queue>, args: A, verb: JobFn<A, T>) -> Result<T>
    where
        A: Portable,
        T: Portable,
    {
        let wake = rings.map(|queue| self.wakes[queue.index()].clone());
        let (job, answer) = verb_job(self.on_writer(args, verb), wake);
        self.writer.submit(job)?;
        answer.await.map_err(|_| broken_down())?
    }

    fn on_writer<A, T>(
        self: &Arc<Self>,
        args: A,
        verb: JobFn<A, T>,
    ) -> impl FnMut(&Connection) -> Result<T> + Send + 'static
    where
        A: Portable,
        T: Portable,
    {
        let core = self.clone();
        move |conn: &Connection| {
            let mut session = SqliteConn::after_outage(conn, core.outage.at());
            now(verb(&core.verbs, &mut session, &args, core.clock.now()))
        }
    }

    pub(crate) async fn enqueue(self: &Arc<Self>, messages: Vec<NewMessage>) -> Result<Vec<Stored>> {
        let (job, answer) = Enqueue::job(self.clone(), messages);
        self.writer.submit(job)?;
        answer.await.map_err(|_| broken_down())?
    }

    pub(crate) async fn claim(self: &Arc<Self>, queue: Queue, request: ClaimRequest) -> Result<Claims> {
        let claim = self.on_writer((queue, request), |verbs, conn, (queue, request), now| {
            Box::pin(verbs.claim(conn, *queue, request, now))
        });
        let (job, answer) = claim_job(claim);
        self.writer.submit(job)?;
        answer.await.map_err(|_| broken_down())?
    }

    pub(crate) async fn settle(self: &Arc<Self>, queue: Queue, settles: Arc<Vec<Settle>>) -> Result<Settled> {
        let at_once = settles.iter().any(|settle| settle.verb == Verb::Release);
        let settle = self.submit(at_once.then_some(queue), (queue, settles), |verbs, conn, (queue, settles), now| {
            Box::pin(verbs.settle(conn, *queue, settles, now))
        });
        settle.await
    }

    pub(crate) async fn extend(
        self: &Arc<Self>,
        queue: Queue,
        leases: Vec<Lease>,
        lease: Duration,
    ) -> Result<Vec<bool>> {
        let core = self.clone();
        let extend = move |conn: &Connection| {
            now(core.verbs.extend(&mut SqliteConn::new(conn), queue, &leases, lease, core.clock.now()))
        };
        let (job, answer) = verb_job(extend, None);
        // Before all other jobs: behind slow handlers the leases would run out.
        self.writer.submit_first(job)?;
        answer.await.map_err(|_| broken_down())?
    }

    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        connect::fingerprint(&self.path)
    }

    pub(crate) async fn let_go(&self) {
        self.readers.close();
        if let Some(watched) = &self.watched {
            watched.end().await;
        }
        self.writer.end().await;
    }
}
