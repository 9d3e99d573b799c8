//! A program that uses SeaORM on PostgreSQL and on MariaDB.

#![allow(missing_docs, unreachable_pub, reason = "the ORM writes code")]

use std::time::Duration;

use postroom::message::OwnerToken;
use postroom::mysql::MySqlOptions;
use postroom::postgres::PostgresOptions;
use postroom::queue::Lease;
use postroom::sql::TableNames;
use postroom::{ErrorKind, Inbox, InboxKey, Incoming, NewMessage, Outbox};
use postroom_orms::with_sea_orm::{accept, ack, enqueue};
use sea_orm::entity::prelude::*;
use sea_orm::{ConnectOptions, Database, DatabaseConnection, Schema, Set, TransactionTrait};

mod order {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "orders")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

async fn place_order(tx: &impl ConnectionTrait, id: i32) -> anyhow::Result<()> {
    order::ActiveModel { id: Set(id) }.insert(tx).await?;
    Ok(())
}

async fn apply(conn: &DatabaseConnection, inbox: &Inbox, lease: &Lease, id: i32) -> anyhow::Result<()> {
    let tx = conn.begin().await?;
    place_order(&tx, id).await?;
    ack(&tx, inbox, lease, Some("applied")).await?;
    Ok(tx.commit().await?)
}

async fn a_message_travels_with_the_order(
    conn: DatabaseConnection,
    outbox: Outbox,
    inbox: Inbox,
) -> anyhow::Result<()> {
    conn.execute(&Schema::new(conn.get_database_backend()).create_table_from_entity(order::Entity)).await?;

    // Both are stored; the same message again is told, and the transaction goes on.
    let message = NewMessage::new("order.placed", "'7' 🦀").to("billing");
    let tx = conn.begin().await?;
    assert!(enqueue(&tx, &outbox, &message).await?);
    assert!(!enqueue(&tx, &outbox, &message).await?);
    place_order(&tx, 7).await?;
    tx.commit().await?;
    let stored = outbox.find(message.message_id().as_uuid()).await?;
    assert_eq!(stored[0].message().map(|message| message.payload.clone()), Ok("'7' 🦀".to_owned()));

    // Neither is.
    let tx = conn.begin().await?;
    place_order(&tx, 8).await?;
    enqueue(&tx, &outbox, &NewMessage::new("order.placed", "8")).await?;
    tx.rollback().await?;
    assert_eq!((outbox.queue().stats().await?.total(), order::Entity::find().count(&conn).await?), (1, 1));

    // Accepted once, also after somebody asked for it; applied and acknowledged together.
    let incoming = Incoming::new(InboxKey::new("shop", "9")?, "order.placed", "9");
    assert!(!inbox.already_processed(incoming.key()).await?);
    let tx = conn.begin().await?;
    assert!(accept(&tx, &inbox, &incoming).await?);
    assert!(!accept(&tx, &inbox, &incoming).await?);
    tx.commit().await?;
    let claims = inbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
    let lease = &claims.claimed[0].lease;
    apply(&conn, &inbox, lease, 9).await?;
    let lost = apply(&conn, &inbox, lease, 10).await.expect_err("the lease is gone");
    assert_eq!(lost.downcast_ref::<postroom::Error>().map(postroom::Error::kind), Some(ErrorKind::LeaseLost));
    assert_eq!((inbox.queue().stats().await?.done, order::Entity::find().count(&conn).await?), (1, 2));
    Ok(conn.close().await?)
}

/// The server's URL; without a server there is nothing to try.
fn url(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        eprintln!("skipped: {variable} is not set");
    }
    url
}

#[tokio::test]
async fn on_postgres() -> anyhow::Result<()> {
    let Some(url) = url("POSTROOM_TEST_POSTGRES_URL") else { return Ok(()) };
    let schema = format!("pr_{}_sea_orm", std::process::id());
    let tables = TableNames::new("outbox", "inbox")?.in_schema(&schema)?;
    let store = PostgresOptions::new(&url)?.tables(tables).deploy_schema(true).open().await?;
    let mut options = ConnectOptions::new(url);
    options.set_schema_search_path(&schema);
    let conn = Database::connect(options.clone()).await?;
    let verdict = a_message_travels_with_the_order(conn, Outbox::new(store.clone()), Inbox::new(store)).await;
    Database::connect(options).await?.execute_unprepared(&format!("DROP SCHEMA {schema} CASCADE")).await?;
    verdict
}

#[tokio::test]
async fn on_mariadb() -> anyhow::Result<()> {
    let Some(url) = url("POSTROOM_TEST_MYSQL_URL") else { return Ok(()) };
    let database = format!("pr_{}_sea_orm", std::process::id());
    let server = Database::connect(&url).await?;
    server.execute_unprepared(&format!("CREATE DATABASE {database}")).await?;
    let (address, query) = url.split_once('?').unwrap_or((&url, ""));
    let address = address.rsplit_once('/').map_or(address, |(server, _)| server);
    let own_url = format!("{address}/{database}?{query}");
    let store = MySqlOptions::new(&own_url)?.deploy_schema(true).open().await?;
    let conn = Database::connect(own_url).await?;
    let verdict = a_message_travels_with_the_order(conn, Outbox::new(store.clone()), Inbox::new(store)).await;
    server.execute_unprepared(&format!("DROP DATABASE {database}")).await?;
    verdict
}
