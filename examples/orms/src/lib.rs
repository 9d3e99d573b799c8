//! How a driver that Postroom does not know takes part: run a statement's text with its values in your transaction, and
//! hand the number of changed rows to [`check`](postroom::sql::Statement::check).

pub mod with_diesel;
pub mod with_sea_orm;
