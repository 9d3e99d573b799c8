//! Rows by their numbers.

use super::batch::{ARRAY_ROWS_MAX, LIST_MAX, filled};
use super::rows::int;
use super::{Session, SqlVerbs};
use crate::sql::dialect::Batch;
use crate::sql::text::SqlTemplate;
use crate::sql::{Row, Value};
use crate::support::error::Result;

impl SqlVerbs {
    /// The rows with these numbers, as far as they are there, in any order.
    pub(super) async fn by_number<T: Send>(
        &self,
        session: &mut impl Session,
        sql: &SqlTemplate,
        seqs: &[i64],
        mut read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        let mut found = Vec::with_capacity(seqs.len());
        match self.batch {
            Batch::EachRow => {
                for seq in seqs {
                    found.extend(session.query(&sql.with(vec![int(*seq)]), &mut read).await?);
                }
            }
            Batch::Arrays => {
                for chunk in seqs.chunks(ARRAY_ROWS_MAX) {
                    let numbers = Value::Ints(chunk.iter().copied().map(Some).collect());
                    found.extend(session.query(&sql.with(vec![numbers]), &mut read).await?);
                }
            }
            Batch::Rows | Batch::Lists => {
                for chunk in seqs.chunks(LIST_MAX) {
                    let list = filled(chunk.iter().map(|seq| vec![int(*seq)]).collect());
                    found.extend(session.query(&sql.with_rows(&[], &list), &mut read).await?);
                }
            }
        }
        Ok(found)
    }
}
