//! A statement whose values are columns: a procedure that takes them as a table.

use futures_util::io::{AsyncRead, AsyncWrite};
use tiberius::error::Error as TdsError;
use tiberius::{Client, ColumnData, Command, SqlTableDataRow, TableValueRow};

use super::{Bound, column};
use crate::sql::{Statement, Value};

/// The procedure, the type of the table, the name of the table and those of what comes with it.
pub(super) struct Call<'s> {
    procedure: &'s str,
    table_type: &'s str,
    names: Vec<&'s str>,
    values: &'s [Value],
}

impl<'s> Call<'s> {
    /// The call that a statement is, if it is one.
    pub(super) fn of(statement: &'s Statement) -> Option<Self> {
        statement.values.iter().find(|value| rows_in(value).is_some())?;
        let mut words = statement.sql.split_ascii_whitespace();
        let (procedure, table_type) = (words.next()?, words.next()?);
        Some(Self { procedure, table_type, names: words.collect(), values: &statement.values })
    }

    /// What the procedure answers with.
    pub(super) async fn rows<S>(self, client: &mut Client<S>) -> Result<Vec<tiberius::Row>, TdsError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let (columns, others): (Vec<_>, Vec<_>) = self.values.iter().partition(|value| rows_in(value).is_some());
        let length = columns.iter().filter_map(|column| rows_in(column)).max().unwrap_or(0);
        let rows = (0..length).map(|row| Cells(columns.iter().map(|column| cell(column, row)).collect()));
        let mut command = Command::new(self.procedure);
        let mut names = self.names.into_iter();
        command.bind_table_with_dbtype(names.next().unwrap_or_default(), self.table_type, rows);
        for (name, value) in names.zip(others) {
            command.bind_param(name, Bound(column(value)));
        }
        let answer = command.exec(client).await?.into_command_result().await?;
        Ok(answer.into_iter().flatten().collect())
    }
}

fn rows_in(value: &Value) -> Option<usize> {
    match value {
        Value::Ints(column) => Some(column.len()),
        Value::Texts(column) => Some(column.len()),
        Value::Uuids(column) => Some(column.len()),
        _ => None,
    }
}

fn cell(column: &Value, row: usize) -> ColumnData<'_> {
    match column {
        Value::Ints(column) => ColumnData::I64(column.get(row).copied().flatten()),
        Value::Texts(column) => ColumnData::String(column.get(row).and_then(Option::as_deref).map(Into::into)),
        Value::Uuids(column) => ColumnData::Guid(column.get(row).copied().flatten()),
        _ => ColumnData::I64(None),
    }
}

struct Cells<'v>(Vec<ColumnData<'v>>);

impl<'v> TableValueRow<'v> for Cells<'v> {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'v>) {
        for cell in &self.0 {
            row.add_field(Bound(cell.clone()));
        }
    }

    /// Told with each table: it is named after the user's own.
    fn get_db_type() -> &'static str {
        ""
    }
}
