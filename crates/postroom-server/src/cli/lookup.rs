//! Finds messages by the id that an operator has from a log line, from `failed` or from `send`.

use anyhow::Result;
use postroom::{Inbox, InboxKey, Message, Origin, Outbox, Queue, Record, TableNames};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection};

use crate::ask;
use crate::database::Database;
use crate::open::Opened;
use crate::problem::Problem;

/// A row and its queue.
pub(super) struct Found {
    pub(super) queue: Queue,
    pub(super) record: Record,
}

/// All rows with that id; an error if there is none.
///
/// An id of the outbox is a UUID and may have one row for each destination. An id of the inbox is any text, given with
/// its source (`stripe/evt_1`) or without.
pub(super) async fn by_id(opened: &Opened, database: &Database, id: &str) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    if let Ok(uuid) = uuid::Uuid::try_parse(id) {
        let records = Outbox::of(opened.store()).find(uuid).await?;
        found.extend(records.into_iter().map(|record| Found { queue: Queue::Outbox, record }));
    }
    let inbox = Inbox::of(opened.store());
    for key in inbox_keys(opened, database, id).await? {
        let record = inbox.get(&key).await?;
        found.extend(record.map(|record| Found { queue: Queue::Inbox, record }));
    }
    if found.is_empty() {
        let what = format!("no message has the id {id}");
        let advice = "`postroom failed` or `postroom stats`; done messages are deleted after their retention time";
        return Err(Problem::nothing_found(what, advice).into());
    }
    Ok(found)
}

async fn inbox_keys(opened: &Opened, database: &Database, id: &str) -> Result<Vec<InboxKey>> {
    let keys = match (opened, database) {
        (Opened::Sqlite(store), _) => {
            let (table, id) = (TableNames::default().of(Queue::Inbox).to_owned(), id.to_owned());
            let read = store.read(move |conn| {
                let matches = "message_id = ?1 OR source || '/' || message_id = ?1";
                let mut select = conn.prepare(&select(&table, matches))?;
                let keys = select.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
                Ok(keys.collect::<Result<Vec<(String, String)>, _>>()?)
            });
            read.await?
        }
        (Opened::Postgres(_), Database::Postgres(url)) => postgres_keys(url, id).await?,
        (Opened::MySql(_), Database::MySql(url)) => mysql_keys(url, id).await?,
        (Opened::Mssql(_), Database::Mssql(url)) => mssql_keys(url, id).await?,
        _ => Vec::new(),
    };
    keys.into_iter().map(|(source, id)| Ok(InboxKey::new(source, id)?)).collect()
}

fn select(table: &str, matches: &str) -> String {
    format!("SELECT source, message_id FROM {table} WHERE {matches} ORDER BY seq")
}

async fn postgres_keys(url: &str, id: &str) -> Result<Vec<(String, String)>> {
    let names = TableNames::infra_schema();
    let table = format!("{}.{}", names.schema().unwrap_or_default(), names.of(Queue::Inbox));
    let sql = select(&table, "message_id = $1 OR source || '/' || message_id = $1");
    let mut conn = PgConnection::connect(url).await?;
    Ok(sqlx::query_as(AssertSqlSafe(sql)).bind(id).persistent(false).fetch_all(&mut conn).await?)
}

async fn mysql_keys(url: &str, id: &str) -> Result<Vec<(String, String)>> {
    let names = TableNames::infra_prefix();
    let sql = select(names.of(Queue::Inbox), "message_id = ? OR concat(source, '/', message_id) = ?");
    let mut conn = MySqlConnection::connect(url).await?;
    // The columns hold bytes, which are compared as they are.
    let keys: Vec<(Vec<u8>, Vec<u8>)> =
        sqlx::query_as(AssertSqlSafe(sql)).bind(id.as_bytes()).bind(id.as_bytes()).fetch_all(&mut conn).await?;
    let text = |bytes| String::from_utf8(bytes);
    keys.into_iter().map(|(source, id)| Ok((text(source)?, text(id)?))).collect()
}

async fn mssql_keys(url: &str, id: &str) -> Result<Vec<(String, String)>> {
    let names = TableNames::infra_capitals();
    let table = format!("{}.{}", names.schema().unwrap_or_default(), names.of(Queue::Inbox));
    let sql = select(&table, "message_id = @P1 OR source + N'/' + message_id = @P1");
    let mut conn = ask::mssql(url).await?;
    let rows = ask::answer(async { conn.query(sql, &[&id]).await?.into_first_result().await }).await?;
    let text = |row: &tiberius::Row, column: usize| row.get::<&str, _>(column).unwrap_or_default().to_owned();
    Ok(rows.iter().map(|row| (text(row, 0), text(row, 1))).collect())
}

/// The id that `show` and `retry` accept.
pub(super) fn id_of(message: &Message) -> String {
    match &message.origin {
        Origin::Inbox { key, .. } => key.to_string(),
        _ => message.id(),
    }
}
