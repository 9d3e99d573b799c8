//! A separate database for a test on a server that the environment names.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use postroom::mssql::MssqlOptions;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection};

/// Tables, views, procedures and schemas on SQL Server.
const OBJECTS: &str = "objects WHERE type IN ('U', 'V', 'P')";
const SCHEMAS: &str = "schemas";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    Postgres,
    MariaDb,
    Mssql,
}

impl Server {
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "POSTROOM_TEST_POSTGRES_URL",
            Self::MariaDb => "POSTROOM_TEST_MYSQL_URL",
            Self::Mssql => "POSTROOM_TEST_MSSQL_URL",
        }
    }
}

/// A separate database on a server.
pub(crate) struct Database {
    pub(crate) server: Server,
    server_url: String,
    name: String,
    pub(crate) url: String,
}

impl Database {
    pub(crate) fn create(server: Server, server_url: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let name = format!("pr_cli_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let (address, query) = server_url.split_once('?').unwrap_or((server_url, ""));
        let (host, _) = address.rsplit_once('/').unwrap();
        let url = format!("{host}/{name}?{query}");
        let database = Self { server, server_url: server_url.to_owned(), name, url };
        database.run_alone(&format!("CREATE DATABASE {}", database.name));
        database
    }

    pub(crate) fn remove(&self) {
        let force = if matches!(self.server, Server::Postgres) { " WITH (FORCE)" } else { "" };
        self.run_alone(&format!("DROP DATABASE {}{force}", self.name));
    }

    /// Babelfish creates and drops one database at a time.
    fn run_alone(&self, text: &str) {
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        self.run(&self.server_url, text);
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.run(&self.url, sql);
    }

    /// Runs printed SQL by the client of the database, as a person would. Returns whether that client is installed.
    pub(crate) fn run_by_client(&self, sql: &str) -> bool {
        let Server::MariaDb = self.server else { return false };
        let options: MySqlConnectOptions = self.url.parse().unwrap();
        let port = options.get_port().to_string();
        let way = match options.get_socket() {
            Some(socket) => ["--socket", socket.to_str().unwrap()],
            None => ["--port", &port],
        };
        let mut client = Command::new("mariadb");
        let user_and_host = self.url.strip_prefix("mysql://").and_then(|rest| rest.split_once('@')).unwrap().0;
        let (user, password) = user_and_host.split_once(':').unwrap_or((user_and_host, ""));
        client.args(["--no-defaults", "--user", user, "--host", options.get_host()]).args(way).arg(&self.name);
        client.env("MYSQL_PWD", password).stdin(Stdio::piped()).stderr(Stdio::piped());
        let Ok(mut running) = client.spawn() else { return false };
        running.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        let ended = running.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        true
    }

    /// The URL of a user who may only log in, and how to drop that user.
    pub(crate) fn user_without_rights(&self) -> Option<(String, String)> {
        let user = format!("{}_u", self.name);
        match self.server {
            Server::Postgres => {
                self.execute(&format!("CREATE ROLE {user} LOGIN"));
                Some((self.url.replace("user=postgres", &format!("user={user}")), format!("DROP ROLE {user}")))
            }
            Server::MariaDb => {
                self.execute(&format!("CREATE USER {user}"));
                Some((self.url.replace("root@", &format!("{user}@")), format!("DROP USER {user}")))
            }
            Server::Mssql => None,
        }
    }

    fn run(&self, url: &str, text: &str) {
        let sql = AssertSqlSafe(text.to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            match self.server {
                Server::Postgres => {
                    let mut conn = PgConnection::connect(url).await.unwrap();
                    sqlx::raw_sql(sql).execute(&mut conn).await.map(drop).unwrap();
                }
                Server::MariaDb => {
                    let mut conn = MySqlConnection::connect(url).await.unwrap();
                    sqlx::raw_sql(sql).execute(&mut conn).await.map(drop).unwrap();
                }
                Server::Mssql => {
                    let mut conn = MssqlOptions::new(url).unwrap().connect().await.unwrap();
                    for batch in text.split("\nGO\n") {
                        conn.simple_query(batch.trim_end_matches("\nGO")).await.unwrap().into_results().await.unwrap();
                    }
                }
            }
        });
    }

    /// The number of tables and routines, without those of the server itself.
    pub(crate) fn objects(&self) -> i64 {
        let count = |kind: &str| {
            let system = "('information_schema', 'pg_catalog', 'mysql', 'sys', 'performance_schema')";
            let of_others = "NOT IN (SELECT schema_name FROM information_schema.schemata WHERE schema_name <> ";
            let only_ours = match self.server {
                Server::Postgres => String::new(),
                // The schema of the tables counts as an object too.
                Server::Mssql => {
                    return format!("(SELECT COUNT(*) FROM sys.{})", if kind == "table" { OBJECTS } else { SCHEMAS });
                }
                Server::MariaDb => format!(" AND {kind}_schema {of_others} '{}')", self.name),
            };
            format!("(SELECT count(*) FROM information_schema.{kind}s WHERE {kind}_schema NOT IN {system}{only_ours})")
        };
        let text = format!("SELECT {} + {}", count("table"), count("routine"));
        let sql = AssertSqlSafe(text.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            match self.server {
                Server::Postgres => {
                    let mut conn = PgConnection::connect(&self.url).await.unwrap();
                    sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap()
                }
                Server::MariaDb => {
                    let mut conn = MySqlConnection::connect(&self.url).await.unwrap();
                    sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap()
                }
                Server::Mssql => {
                    let mut conn = MssqlOptions::new(&self.url).unwrap().connect().await.unwrap();
                    let row = conn.simple_query(text).await.unwrap().into_row().await.unwrap().unwrap();
                    i64::from(row.get::<i32, _>(0).unwrap())
                }
            }
        })
    }

    /// The name of the outbox there.
    pub(crate) fn outbox(&self) -> &'static str {
        match self.server {
            Server::Postgres | Server::Mssql => "infra.outbox",
            Server::MariaDb => "infra_outbox",
        }
    }

    /// The name of the inbox there.
    pub(crate) fn inbox(&self) -> &'static str {
        match self.server {
            Server::Postgres | Server::Mssql => "infra.inbox",
            Server::MariaDb => "infra_inbox",
        }
    }
}
