//! A case: a promise, the requirements it proves, and the backends it is run on.

use std::pin::Pin;
use std::sync::Arc;

use crate::capture::Logs;
use crate::meters::Meters;

/// What a case says in the end.
pub type Verdict = anyhow::Result<()>;

/// A case at work.
pub type Running = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// What a case is given: where its log lines and its metrics go.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Its log lines.
    pub logs: Arc<Logs>,
    /// Its metrics.
    pub meters: Arc<Meters>,
    /// Whether PostgreSQL is reached through a pooler.
    pub pooled: bool,
}

/// A case on one backend.
pub type Run = fn(Setup) -> Running;

/// A promise that backends keep.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What is promised: `settle::ack_with_a_stale_lease_changes_nothing`.
    pub name: &'static str,
    /// The numbers of the requirements it proves.
    pub proves: &'static [&'static str],
    /// The backends it applies to.
    pub on: &'static [(&'static str, Run)],
}

/// The cases of one file, one line each: where it runs, what it promises, what that proves.
///
/// `both` takes a harness, and so does `keyed`, for databases with unique keys; `spoken` is about their SQL; `worker`
/// is generic over the backend, `durable` needs a disk, `server` a database server, and `started` one that it can start
/// itself; `sqlite`, `postgres`, `mariadb`, `mssql` and `memory` are about one backend alone, `pooler` about PostgreSQL
/// behind one.
macro_rules! cases {
    ($area:ident: $($kind:ident $case:ident [$($id:literal),* $(,)?];)*) => {
        pub(super) const CASES: &[$crate::case::Case] = &[$($crate::case::Case {
            name: concat!(stringify!($area), "::", stringify!($case)),
            proves: &[$($id),*],
            on: $crate::case::cases!(@$kind $case),
        }),*];
    };
    (@both $case:ident) => {
        &[
            ("memory", $crate::case::cases!(@plain $crate::backends::Memory, $case)),
            ("sqlite", $crate::case::cases!(@plain $crate::backends::Sqlite, $case)),
            ("postgres", $crate::case::cases!(@plain $crate::backends::Postgres, $case)),
            ("mariadb", $crate::case::cases!(@plain $crate::backends::MySql, $case)),
            ("mssql", $crate::case::cases!(@plain $crate::backends::Mssql, $case)),
        ]
    };
    (@keyed $case:ident) => {
        &[
            ("memory", $crate::case::cases!(@plain $crate::backends::Memory, $case)),
            ("sqlite", $crate::case::cases!(@plain $crate::backends::Sqlite, $case)),
            ("postgres", $crate::case::cases!(@plain $crate::backends::Postgres, $case)),
            ("mariadb", $crate::case::cases!(@plain $crate::backends::MySql, $case)),
        ]
    };
    (@spoken $case:ident) => {
        &[
            ("sqlite", $crate::case::cases!(@staged $crate::backends::Sqlite, $case::<$crate::backends::Sqlite>)),
            ("postgres", $crate::case::cases!(@staged $crate::backends::Postgres, $case::<$crate::backends::Postgres>)),
            ("mariadb", $crate::case::cases!(@staged $crate::backends::MySql, $case::<$crate::backends::MySql>)),
        ]
    };
    (@worker $case:ident) => {
        &[
            ("memory", $crate::case::cases!(@staged $crate::backends::Memory, $case::<$crate::backends::Memory>)),
            ("sqlite", $crate::case::cases!(@staged $crate::backends::Sqlite, $case::<$crate::backends::Sqlite>)),
            ("postgres", $crate::case::cases!(@staged $crate::backends::Postgres, $case::<$crate::backends::Postgres>)),
            ("mariadb", $crate::case::cases!(@staged $crate::backends::MySql, $case::<$crate::backends::MySql>)),
            ("mssql", $crate::case::cases!(@staged $crate::backends::Mssql, $case::<$crate::backends::Mssql>)),
        ]
    };
    (@durable $case:ident) => {
        &[
            ("sqlite", $crate::case::cases!(@staged $crate::backends::Sqlite, $case::<$crate::backends::Sqlite>)),
            ("postgres", $crate::case::cases!(@staged $crate::backends::Postgres, $case::<$crate::backends::Postgres>)),
            ("mariadb", $crate::case::cases!(@staged $crate::backends::MySql, $case::<$crate::backends::MySql>)),
            ("mssql", $crate::case::cases!(@staged $crate::backends::Mssql, $case::<$crate::backends::Mssql>)),
        ]
    };
    (@server $case:ident) => {
        &[
            ("postgres", $crate::case::cases!(@staged $crate::backends::Postgres, $case::<$crate::backends::Postgres>)),
            ("mariadb", $crate::case::cases!(@staged $crate::backends::MySql, $case::<$crate::backends::MySql>)),
            ("mssql", $crate::case::cases!(@staged $crate::backends::Mssql, $case::<$crate::backends::Mssql>)),
        ]
    };
    (@started $case:ident) => {
        &[
            ("postgres", $crate::case::cases!(@staged $crate::backends::Postgres, $case::<$crate::backends::Postgres>)),
            ("mariadb", $crate::case::cases!(@staged $crate::backends::MySql, $case::<$crate::backends::MySql>)),
        ]
    };
    (@mssql $case:ident) => {
        &[("mssql", $crate::case::cases!(@staged $crate::backends::Mssql, $case))]
    };
    (@mariadb $case:ident) => {
        &[("mariadb", $crate::case::cases!(@staged $crate::backends::MySql, $case))]
    };
    (@postgres $case:ident) => {
        &[("postgres", $crate::case::cases!(@staged $crate::backends::Postgres, $case))]
    };
    (@pooler $case:ident) => {
        &[($crate::servers::PGBOUNCER, $crate::case::cases!(@staged $crate::backends::Postgres, $case))]
    };
    (@sqlite $case:ident) => {
        &[("sqlite", $crate::case::cases!(@staged $crate::backends::Sqlite, $case))]
    };
    (@memory $case:ident) => {
        &[("memory", $crate::case::cases!(@staged $crate::backends::Memory, $case))]
    };
    (@plain $backend:ty, $case:ident) => {
        |setup| Box::pin(async move {
            let stage = $crate::harness::Stage::<$backend>::open(setup).await?;
            let verdict = Box::pin($case(&stage)).await;
            stage.end(verdict).await
        })
    };
    (@staged $backend:ty, $case:expr) => {
        |setup| Box::pin(async move {
            let stage = $crate::harness::Stage::<$backend>::open(setup).await?;
            let verdict = Box::pin($case(&stage)).await;
            stage.end(verdict).await
        })
    };
}
pub(crate) use cases;
