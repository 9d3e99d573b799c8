//! The databases' own command-line clients, and for SQLite a program with nothing but rusqlite.

use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use postroom::clock::Clock;
use postroom::mssql::{Mssql, MssqlStore};
use postroom::mysql::{MySql, MySqlStore};
use postroom::postgres::{Postgres, PostgresStore};
use postroom::sqlite::{Sqlite, SqliteStore};
use postroom::{MessageId, WorkerOptions};
use rusqlite::fallible_iterator::FallibleIterator;
use sqlx::mysql::MySqlConnectOptions;

use crate::harness::{Place, Testable};
use crate::mssql;
use crate::on_server::PASSWORD;
use crate::servers::{self, Client};
use crate::suite::databases::processes;

const GUIDE: &str = include_str!("../../../../../../guides/any-language.md");

/// A client that reads statements and stops at the first that fails.
pub(super) trait Terminal: Testable {
    /// Its section in the guide.
    const SECTION: &'static str;
    /// How its statement begins that takes a unique key.
    const TAKE: &'static str = "there are no unique keys";
    /// Takes the session far from UTC.
    const FAR_AWAY: &'static str;

    /// The case's store again, by another clock.
    fn reopen(place: &Place, clock: Clock) -> impl Future<Output = postroom::Result<Self::Store>> + Send;

    /// How a worker hears of other programs' messages.
    fn hearing() -> WorkerOptions {
        WorkerOptions::default()
    }

    /// A statement that enqueues under topic `a`, unless this field says otherwise.
    fn enqueue_with(place: &Place, field: &str, value: &str) -> String;

    /// A statement that enqueues for a service, due when that year begins.
    fn call_due(place: &Place, year: u16) -> String;

    /// The client, as some role or as ourselves.
    fn client(place: &Place, role: Option<&str>) -> anyhow::Result<Command>;

    /// An example of the guide.
    fn example(place: &Place, number: usize) -> anyhow::Result<String> {
        let section = GUIDE.split("\n## ").find(|section| section.starts_with(Self::SECTION));
        let example = section.and_then(|section| section.split("```sql\n").nth(number + 1)?.split("```").next());
        let example = example.with_context(|| format!("the guide has no example {number} for {}", Self::SECTION))?;
        Ok(example.replace("infra.", &format!("{}.", place.own_name())))
    }

    /// The guide's statement that takes a unique key.
    fn take_example(place: &Place) -> anyhow::Result<String> {
        let line = GUIDE.lines().find(|line| line.starts_with(Self::TAKE)).context("the guide takes no key")?;
        Ok(line.replace("infra.", &format!("{}.", place.own_name())))
    }

    /// What the client prints.
    fn run(place: &Place, sql: &str) -> impl Future<Output = anyhow::Result<String>> + Send {
        typed(Self::client(place, None), sql)
    }
}

/// Types statements into a client.
async fn typed(client: anyhow::Result<Command>, sql: &str) -> anyhow::Result<String> {
    let (mut client, sql) = (client?, sql.to_owned());
    let ended = tokio::task::spawn_blocking(move || {
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = client.spawn()?;
        let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(sql.as_bytes()));
        let output = child.wait_with_output()?;
        // A client that stops at an error reads no further.
        written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })?;
        std::io::Result::Ok(output)
    });
    let output = ended.await?.context("the client cannot be started")?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// A server, where each program has the rights of its role.
pub(super) trait Server: Terminal {
    /// A statement that enqueues under topic `a`.
    fn call(place: &Place, destination: Option<&str>, id: Option<MessageId>) -> String;

    /// The outbox's table.
    fn outbox(place: &Place) -> String;

    /// Somebody who may log in and nothing else.
    fn create_role(role: &str) -> String;

    /// What the guide says a role needs.
    fn grant(place: &Place, role: &str) -> String;

    /// What it needs to take unique keys.
    fn grant_keys(_: &Place, _: &str) -> String {
        String::new()
    }

    fn drop_role(role: &str) -> String;

    /// What the client prints when a role runs it.
    fn run_as(place: &Place, role: &str, sql: &str) -> impl Future<Output = anyhow::Result<String>> + Send {
        typed(Self::client(place, Some(role)), sql)
    }
}

fn quoted(text: Option<String>) -> String {
    text.map_or_else(|| "NULL".to_owned(), |text| format!("'{text}'"))
}

fn arguments(destination: Option<&str>, id: Option<MessageId>) -> String {
    let (destination, id) = (quoted(destination.map(str::to_owned)), quoted(id.map(|id| id.to_string())));
    format!("('a', '{{}}', {destination}, {id})")
}

impl Terminal for Postgres {
    const SECTION: &'static str = "PostgreSQL";
    const TAKE: &'static str = "INSERT INTO infra.outbox_take";
    const FAR_AWAY: &'static str = "SET TIME ZONE 'Asia/Kathmandu'";

    async fn reopen(place: &Place, clock: Clock) -> postroom::Result<PostgresStore> {
        place.postgres_options()?.clock(clock).open().await
    }

    /// The function itself tells the worker.
    fn hearing() -> WorkerOptions {
        let hour = Duration::from_secs(3600);
        WorkerOptions::default().poll(hour).poll_max(hour)
    }

    fn enqueue_with(place: &Place, field: &str, value: &str) -> String {
        let topic = if field == "topic" { "" } else { "topic => 'a', " };
        format!("SELECT {}_enqueue({topic}payload => '{{}}', {field} => {value})", Self::outbox(place))
    }

    fn call_due(place: &Place, year: u16) -> String {
        format!("SELECT {}_enqueue('a', '{{}}', 'billing', due_at => '{year}-01-01Z')", Self::outbox(place))
    }

    fn client(place: &Place, role: Option<&str>) -> anyhow::Result<Command> {
        let role = role.map(|role| format!(" -c role={role}")).unwrap_or_default();
        let mut psql = Command::new("psql");
        psql.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", &servers::url(servers::POSTGRES)]);
        psql.env("PGOPTIONS", format!("-c search_path={}{role}", place.own_name()));
        Ok(psql)
    }
}

impl Server for Postgres {
    fn call(place: &Place, destination: Option<&str>, id: Option<MessageId>) -> String {
        format!("SELECT {}_enqueue{}", Self::outbox(place), arguments(destination, id))
    }

    fn outbox(place: &Place) -> String {
        format!("{}.outbox", place.own_name())
    }

    fn create_role(role: &str) -> String {
        format!("CREATE ROLE {role}")
    }

    fn grant(place: &Place, role: &str) -> String {
        let (schema, outbox) = (place.own_name(), Self::outbox(place));
        format!("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT INSERT ON {outbox} TO {role}")
    }

    fn grant_keys(place: &Place, role: &str) -> String {
        format!("GRANT INSERT ON {}_take TO {role}", Self::outbox(place))
    }

    fn drop_role(role: &str) -> String {
        format!("DROP OWNED BY {role}; DROP ROLE {role}")
    }
}

impl Terminal for MySql {
    const SECTION: &'static str = "MySQL";
    const TAKE: &'static str = "CALL infra_outbox_take";
    const FAR_AWAY: &'static str = "SET time_zone = '+05:45'";

    async fn reopen(place: &Place, clock: Clock) -> postroom::Result<MySqlStore> {
        place.mysql_options()?.clock(clock).open().await
    }

    fn enqueue_with(_: &Place, field: &str, value: &str) -> String {
        let fields = ["topic", "payload", "destination", "message_id", "headers", "correlation_id", "due_at", "kind"];
        let fields = fields.into_iter().chain(["ttl_seconds", "max_attempts", "lane"]);
        let values = fields.map(|name| match name {
            name if name == field => value,
            "topic" => "'a'",
            "payload" => "'{}'",
            _ => "NULL",
        });
        format!("CALL infra_outbox_enqueue_with({})", values.collect::<Vec<_>>().join(", "))
    }

    fn call_due(_: &Place, year: u16) -> String {
        let due = format!("NULL, NULL, NULL, '{year}-01-01', NULL, NULL, NULL, NULL");
        format!("CALL infra_outbox_enqueue_with('a', '{{}}', 'billing', {due})")
    }

    fn client(place: &Place, role: Option<&str>) -> anyhow::Result<Command> {
        let url = servers::url_of_database(servers::MYSQL, &place.own_name());
        let target = MySqlConnectOptions::from_str(&url)?;
        let mut client = Command::new(if is_installed("mariadb") { "mariadb" } else { "mysql" });
        client.args(["--no-defaults", "--default-character-set=utf8mb4", "--database", &place.own_name()]);
        client.args(["--user", role.unwrap_or(target.get_username())]);
        match target.get_socket() {
            Some(socket) => client.arg("--socket").arg(socket),
            None => client.args(["--host", target.get_host(), "--port", &target.get_port().to_string()]),
        };
        let login = url.split_once("://").and_then(|(_, rest)| rest.split_once('@')).map(|(login, _)| login);
        if let (None, Some((_, password))) = (role, login.and_then(|login| login.split_once(':'))) {
            client.env("MYSQL_PWD", password);
        }
        Ok(client)
    }
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok()
}

impl Server for MySql {
    fn call(_: &Place, destination: Option<&str>, id: Option<MessageId>) -> String {
        format!("CALL infra_outbox_enqueue{}", arguments(destination, id))
    }

    fn outbox(_: &Place) -> String {
        "infra_outbox".to_owned()
    }

    fn create_role(role: &str) -> String {
        format!("CREATE USER {role}; GRANT CREATE TEMPORARY TABLES ON * TO {role}")
    }

    fn grant(_: &Place, role: &str) -> String {
        format!("GRANT EXECUTE ON PROCEDURE infra_outbox_enqueue TO {role}")
    }

    fn grant_keys(_: &Place, role: &str) -> String {
        format!("GRANT EXECUTE ON PROCEDURE infra_outbox_take TO {role}")
    }

    fn drop_role(role: &str) -> String {
        format!("DROP USER {role}")
    }
}

impl Terminal for Mssql {
    const SECTION: &'static str = "SQL Server";
    const FAR_AWAY: &'static str = "SET DATEFORMAT dmy";

    async fn reopen(place: &Place, clock: Clock) -> postroom::Result<MssqlStore> {
        place.mssql_options()?.clock(clock).open().await
    }

    fn enqueue_with(place: &Place, field: &str, value: &str) -> String {
        let topic = if field == "topic" { "" } else { "@topic = N'a', " };
        format!("EXEC {}_enqueue {topic}@payload = N'{{}}', @{field} = {value}", Self::outbox(place))
    }

    fn call_due(place: &Place, year: u16) -> String {
        let due = format!("@due_at = '{year}-01-01T00:00:00+00:00'");
        format!("EXEC {}_enqueue N'a', N'{{}}', N'billing', {due}", Self::outbox(place))
    }

    /// A program with nothing but tiberius: sqlcmd is not to be had everywhere.
    fn client(place: &Place, role: Option<&str>) -> anyhow::Result<Command> {
        let mut client = Command::new(std::env::current_exe()?);
        processes::as_child(&mut client, "plain-mssql", std::path::Path::new(&place.own_name()));
        client.env(LOGIN, role.unwrap_or_default());
        Ok(client)
    }
}

impl Server for Mssql {
    fn call(place: &Place, destination: Option<&str>, id: Option<MessageId>) -> String {
        let (destination, id) = (quoted(destination.map(str::to_owned)), quoted(id.map(|id| id.to_string())));
        format!("EXEC {}_enqueue N'a', N'{{}}', {destination}, {id}", Self::outbox(place))
    }

    fn outbox(place: &Place) -> String {
        format!("{}.outbox", place.own_name())
    }

    fn create_role(role: &str) -> String {
        format!("CREATE LOGIN {role} WITH PASSWORD = '{PASSWORD}'\nGO\nCREATE USER {role} FOR LOGIN {role}")
    }

    fn grant(place: &Place, role: &str) -> String {
        let outbox = Self::outbox(place);
        // On Babelfish a procedure or a trigger has no more rights than who calls it.
        let babelfish = format!("IF @@VERSION LIKE '%Babelfish%' GRANT SELECT (id), INSERT ON {outbox} TO {role}");
        let line = format!("IF @@VERSION LIKE '%Babelfish%' GRANT INSERT ON {outbox}_line TO {role}");
        format!("GRANT EXECUTE ON {outbox}_enqueue TO {role}\nGO\n{babelfish}\nGO\n{line}")
    }

    fn drop_role(role: &str) -> String {
        // Babelfish wants what was granted to be taken back first.
        let outbox = format!("{}.outbox", role.trim_end_matches("_r"));
        format!(
            "REVOKE EXECUTE ON {outbox}_enqueue FROM {role}\nGO\nREVOKE SELECT (id), INSERT ON {outbox} FROM {role}
GO\nREVOKE INSERT ON {outbox}_line FROM {role}\nGO\nDROP USER {role}\nGO\nDROP LOGIN {role}"
        )
    }
}

/// Who the program with nothing but tiberius is; nobody else than ourselves when it is empty.
const LOGIN: &str = "POSTROOM_CHILD_LOGIN";

/// That program: it runs what it reads, in one transaction if it says so, and prints what comes back.
pub(in crate::suite) async fn plain_mssql(space: &str) -> anyhow::Result<()> {
    let (login, url) = (std::env::var(LOGIN)?, servers::url(servers::MSSQL));
    let login = Some((login.as_str(), PASSWORD)).filter(|(login, _)| !login.is_empty());
    let mut client = mssql::connect(&url, login).await?;
    let sql = std::io::read_to_string(std::io::stdin())?.replace(" orders", &format!(" {space}.orders"));
    let sql = sql.replace("START TRANSACTION", "BEGIN TRANSACTION");
    for batch in sql.split("\nGO\n") {
        for row in client.ask(batch).await? {
            println!("{}", row.join(" "));
        }
    }
    Ok(())
}

impl Terminal for Sqlite {
    const SECTION: &'static str = "SQLite";
    const TAKE: &'static str = "INSERT OR REPLACE INTO outbox_messages_unique";
    const FAR_AWAY: &'static str = "PRAGMA busy_timeout = 5000";

    async fn reopen(place: &Place, clock: Clock) -> postroom::Result<SqliteStore> {
        place.sqlite_options().clock(clock).open().await
    }

    /// Only the watch on the file can tell it.
    fn hearing() -> WorkerOptions {
        let hour = Duration::from_secs(3600);
        WorkerOptions::default().poll(hour).poll_max(hour)
    }

    fn enqueue_with(_: &Place, field: &str, value: &str) -> String {
        let topic = if field == "topic" { ("", "") } else { ("topic, ", "'a', ") };
        format!("INSERT INTO outbox_messages ({}payload, {field}) VALUES ({}'{{}}', {value})", topic.0, topic.1)
    }

    fn call_due(_: &Place, year: u16) -> String {
        let due = format!("CAST(strftime('%s', '{year}-01-01') AS INTEGER) * 1000000");
        format!(
            "INSERT INTO outbox_messages (topic, payload, destination, due_at) VALUES ('a', '{{}}', 'billing', {due})"
        )
    }

    fn client(place: &Place, _: Option<&str>) -> anyhow::Result<Command> {
        let mut client = Command::new(std::env::current_exe()?);
        processes::as_child(&mut client, "plain-sqlite", &place.path("store.db"));
        Ok(client)
    }
}

/// The program with nothing but rusqlite: it runs what it reads, and prints the first column of each answer.
pub(in crate::suite) fn plain_sqlite(path: &std::path::Path) -> anyhow::Result<()> {
    let sql = std::io::read_to_string(std::io::stdin())?;
    let conn = rusqlite::Connection::open(path)?;
    conn.busy_timeout(Duration::from_secs(5))?;
    let mut statements = rusqlite::Batch::new(&conn, &sql);
    while let Some(mut statement) = statements.next()? {
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            println!("{:?}", row.get_ref(0)?);
        }
    }
    Ok(())
}
