//! Many idle databases on one PostgreSQL.

use postroom::postgres::{PostgresOptions, PostgresStore};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::runtime::Handle;

use crate::tenants::Tenants;

/// The server's own time is counted too.
pub(crate) struct Databases {
    pub(crate) url: String,
    pub(crate) server: i32,
}

fn url_of(url: &str, index: usize) -> String {
    url.replace("/postgres?", &format!("/tenant_{index}?"))
}

pub(crate) async fn open(url: &str, count: usize) -> anyhow::Result<Vec<PostgresStore>> {
    let mut conn = PgConnection::connect(url).await?;
    let mut stores = Vec::with_capacity(count);
    for index in 0..count {
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE tenant_{index}"))).execute(&mut conn).await?;
        stores.push(PostgresOptions::new(&url_of(url, index))?.connections(2).deploy_schema(true).open().await?);
    }
    Ok(stores)
}

impl Tenants for Databases {
    fn place(&self) -> String {
        self.url.clone()
    }

    fn write(&mut self, store: usize, now: i64) -> anyhow::Result<()> {
        let url = url_of(&self.url, store);
        tokio::task::block_in_place(|| {
            Handle::current().block_on(async {
                let mut conn = PgConnection::connect(&url).await?;
                let enqueue = sqlx::query("SELECT infra.outbox_enqueue('bench', $1)");
                enqueue.bind(now.to_string()).execute(&mut conn).await?;
                Ok(conn.close().await?)
            })
        })
    }

    fn cpu_seconds(&self) -> f64 {
        family(self.server).into_iter().filter_map(cpu_seconds).sum()
    }
}

/// The server and its children.
fn family(server: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| *pid == server || stat(*pid, 1) == Some(f64::from(server))).collect()
}

fn cpu_seconds(pid: i32) -> Option<f64> {
    Some((stat(pid, 11)? + stat(pid, 12)?) / 100.0)
}

/// A field of `/proc/<pid>/stat`, counted from the one after the name.
fn stat(pid: i32, field: usize) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(field)?.parse().ok()
}
