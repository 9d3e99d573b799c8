//! The text of a statement in the form that its database needs. Values are numbered in every text (`?1`). A database
//! gets its own sign before the number. If it only counts placeholders (`?`), it gets the values in that order. A text
//! may take many rows.

use std::sync::Arc;

use crate::sql::{Statement, Value};

/// How a database writes placeholders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Places {
    /// By number, after this sign. A value can be used in several places.
    Numbered(&'static str),
    /// In order.
    Counted,
}

/// A text without its values.
#[derive(Clone, Debug)]
pub(crate) struct SqlTemplate {
    sql: Arc<str>,
    order: Order,
    rows: RowsAs,
}

/// The order of the values.
#[derive(Clone, Debug)]
enum Order {
    /// By number: the highest number, and the sign before it.
    Numbered(usize, &'static str),
    /// In the order of the placeholders.
    Counted(Arc<[Place]>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The value with that number.
    Value(usize),
    /// The values of the rows.
    Rows,
}

/// How the rows of a batch travel in one statement.
#[derive(Clone, Debug)]
enum RowsAs {
    /// As columns: the first values are arrays.
    Columns,
    /// As one JSON text in the first value: `{json|n o}`, with the names of a row's values.
    Json(Arc<str>),
    /// In the text, in a part that is repeated for each row: `{each|(?, ?)|, }`. With `{list|`, a row may appear twice.
    Text { item: Arc<str>, separator: Arc<str>, is_list: bool },
}

const ROWS_HERE: &str = "{rows}";
/// The most rows in one set of arrays.
pub(crate) const ARRAY_ROWS_MAX: usize = 20_000;
/// The most bytes of payload in one set of arrays. A server refuses more than a gigabyte.
pub(crate) const ARRAY_BYTES_MAX: usize = 64 << 20;
/// The most rows in one JSON text.
const JSON_ROWS_MAX: usize = 1000;
/// The numbers of rows in one text. There are only a few sizes, so that their statements stay prepared.
pub(crate) const SIZES: [usize; 4] = [500, 200, 100, 50];
/// Up to this many rows, a text is made for exactly that number.
pub(crate) const SMALL: usize = 32;
/// A server that numbers values accepts 2,100 in one statement.
const NUMBERED_VALUES_MAX: usize = 2_000;
/// A text with many payloads must not exceed what the server accepts at once.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;

impl SqlTemplate {
    pub(crate) fn new(places: Places, text: &str) -> Self {
        let (text, rows) = cut_rows(text);
        let (mut sql, mut order, mut highest) = (String::with_capacity(text.len()), Vec::new(), 0);
        let mut rest = text.as_str();
        while let Some(at) = rest.find(['?', '{']) {
            let (before, found) = rest.split_at(at);
            sql.push_str(before);
            if let Some(after) = found.strip_prefix(ROWS_HERE) {
                order.push(Place::Rows);
                sql.push_str(ROWS_HERE);
                rest = after;
                continue;
            }
            let digits = found[1..].bytes().take_while(u8::is_ascii_digit).count();
            let (place, after) = found.split_at(1 + digits);
            match (place[1..].parse::<usize>(), places) {
                (Ok(number), Places::Numbered(sign)) => {
                    highest = highest.max(number);
                    sql.extend([sign, &place[1..]]);
                }
                (Ok(number), Places::Counted) => {
                    order.push(Place::Value(number.saturating_sub(1)));
                    sql.push('?');
                }
                (Err(_), _) => sql.push_str(place),
            }
            rest = after;
        }
        sql.push_str(rest);
        let order = match places {
            Places::Numbered(sign) => Order::Numbered(highest, sign),
            Places::Counted => Order::Counted(order.into()),
        };
        Self { sql: sql.into(), order, rows }
    }

    pub(crate) fn sql(&self) -> &Arc<str> {
        &self.sql
    }

    /// Returns whether rows travel as JSON, which changes some texts.
    pub(crate) fn takes_json(&self) -> bool {
        matches!(self.rows, RowsAs::Json(_))
    }

    /// Returns the statement with one value for each number. There may be more values than it uses.
    pub(crate) fn with(&self, mut values: Vec<Value>) -> Statement {
        let values = match &self.order {
            Order::Numbered(highest, _) => {
                values.truncate(*highest);
                values
            }
            Order::Counted(order) => placed(order, &values, Vec::new()),
        };
        Statement::new(self.sql.clone(), values)
    }

    /// Returns the statement for these rows, with further values that are the same for all rows. If the rows are in the
    /// text, the further values are numbered from one. Otherwise, they follow the value that holds the rows.
    pub(crate) fn with_rows(&self, rows: Vec<Vec<Value>>, values: &[Value]) -> Statement {
        let others = values.iter().cloned();
        let (item, separator) = match &self.rows {
            RowsAs::Columns => return self.with(columns_of(rows).into_iter().chain(others).collect()),
            RowsAs::Json(names) => return self.with([json(names, &rows)].into_iter().chain(others).collect()),
            RowsAs::Text { item, separator, .. } => (item.as_ref(), separator.as_ref()),
        };
        let repeated = vec![item; rows.len()].join(separator);
        let (repeated, values) = match &self.order {
            Order::Numbered(_, sign) => {
                (numbered(&repeated, values.len(), sign), others.chain(rows.into_iter().flatten()).collect())
            }
            Order::Counted(order) => (repeated, placed(order, values, rows)),
        };
        Statement::new(self.sql.replace(ROWS_HERE, &repeated).into(), values)
    }

    /// Returns the statements for these rows. Each takes as many rows as possible.
    pub(crate) fn for_rows(&self, mut rest: &[Vec<Value>], values: &[Value]) -> Vec<Statement> {
        let mut statements = Vec::new();
        while let Some(first) = rest.first() {
            let rows_max = match (&self.rows, &self.order) {
                (RowsAs::Columns, _) => ARRAY_ROWS_MAX,
                (RowsAs::Json(_), _) => JSON_ROWS_MAX,
                (RowsAs::Text { .. }, Order::Numbered(..)) => SIZES[0].min(NUMBERED_VALUES_MAX / first.len()),
                (RowsAs::Text { .. }, Order::Counted(_)) => SIZES[0],
            };
            let mut bytes = 0;
            let fit = rest.iter().take(rows_max).take_while(|row| {
                bytes += row.iter().map(Value::text_bytes).sum::<usize>();
                bytes <= TEXT_BYTES_MAX
            });
            let (chunk, after) = rest.split_at(fit.count().max(1));
            statements.push(match self.rows {
                RowsAs::Text { is_list: true, .. } => self.with_rows(filled(chunk), values),
                _ => self.with_rows(chunk.to_vec(), values),
            });
            rest = after;
        }
        statements
    }
}

/// Numbers the placeholders of a text, starting after `taken`.
fn numbered(text: &str, taken: usize, sign: &str) -> String {
    // Without a number it means the next one.
    if (taken, sign) == (0, "?") {
        return text.to_owned();
    }
    let mut pieces = text.split('?');
    let mut told = pieces.next().unwrap_or_default().to_owned();
    for (number, piece) in (taken + 1..).zip(pieces) {
        told.extend([sign, &number.to_string(), piece]);
    }
    told
}

/// Fills a list up to a size that stays prepared. A row that appears twice is found or changed once.
fn filled(list: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let size = SIZES.into_iter().rev().find(|size| list.len() > SMALL && *size >= list.len()).unwrap_or(list.len());
    let mut list = list.to_vec();
    list.resize(size, list.last().cloned().unwrap_or_default());
    list
}

/// The rows have one place in a text.
fn placed(order: &[Place], values: &[Value], mut rows: Vec<Vec<Value>>) -> Vec<Value> {
    let mut placed = Vec::with_capacity(order.len() + rows.len() * rows.first().map_or(0, Vec::len));
    for place in order {
        match place {
            Place::Value(number) => placed.extend(values.get(*number).cloned()),
            Place::Rows => placed.extend(std::mem::take(&mut rows).into_iter().flatten()),
        }
    }
    placed
}

/// Converts rows to columns, each as an array.
fn columns_of(rows: Vec<Vec<Value>>) -> Vec<Value> {
    let empty = |value: &Value| match value {
        Value::Text(_) => Value::Texts(Vec::with_capacity(rows.len())),
        Value::Uuid(_) => Value::Uuids(Vec::with_capacity(rows.len())),
        _ => Value::Ints(Vec::with_capacity(rows.len())),
    };
    let mut columns: Vec<Value> = rows.first().into_iter().flatten().map(empty).collect();
    for row in rows {
        for (column, value) in columns.iter_mut().zip(row) {
            match (column, value) {
                (Value::Texts(column), Value::Text(value)) => column.push(value),
                (Value::Uuids(column), Value::Uuid(value)) => column.push(value),
                (Value::Ints(column), Value::Int(value)) => column.push(value),
                _ => {}
            }
        }
    }
    columns
}

/// Converts rows to a JSON array of objects. It supports numbers, ids and texts.
fn json(names: &str, rows: &[Vec<Value>]) -> Value {
    let told = |value: &Value| match value {
        Value::Int(value) => serde_json::json!(value),
        Value::Uuid(value) => serde_json::json!(value.map(|id| id.to_string())),
        Value::Text(value) => serde_json::json!(value),
        _ => serde_json::Value::Null,
    };
    let object = |row: &Vec<Value>| {
        serde_json::Value::from_iter(names.split(' ').zip(row).map(|(name, value)| (name, told(value))))
    };
    Value::Text(Some(serde_json::Value::from_iter(rows.iter().map(object)).to_string()))
}

fn cut_rows(text: &str) -> (String, RowsAs) {
    if let Some((before, rest)) = text.split_once("{json|")
        && let Some((names, after)) = rest.split_once('}')
    {
        return (format!("{before}?1{after}"), RowsAs::Json(names.into()));
    }
    let cut = |mark: &str, is_list: bool| {
        let (before, rest) = text.split_once(mark)?;
        let (item, rest) = rest.split_once('|')?;
        let (separator, after) = rest.split_once('}')?;
        let rows = RowsAs::Text { item: item.into(), separator: separator.into(), is_list };
        Some((format!("{before}{ROWS_HERE}{after}"), rows))
    };
    cut("{each|", false).or_else(|| cut("{list|", true)).unwrap_or_else(|| (text.to_owned(), RowsAs::Columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(values: &[i64]) -> Vec<Value> {
        values.iter().map(|value| Value::Int(Some(*value))).collect()
    }

    #[test]
    fn a_database_that_counts_gets_a_value_for_each_place() {
        let text = SqlTemplate::new(Places::Counted, "SET a = ?2, b = ?1, c = ?2 WHERE d = 'x'");
        let statement = text.with(ints(&[1, 2]));
        assert_eq!(statement.sql(), "SET a = ?, b = ?, c = ? WHERE d = 'x'");
        assert_eq!(statement.values(), ints(&[2, 1, 2]));
    }

    #[test]
    fn numbers_stay_where_the_database_knows_them() {
        let text = SqlTemplate::new(Places::Numbered("$"), "SET a = ?2, b = ?1, c = ?2");
        assert_eq!(text.with(ints(&[1, 2])).sql(), "SET a = $2, b = $1, c = $2");
    }

    #[test]
    fn a_part_is_repeated_for_each_row() {
        let text = SqlTemplate::new(Places::Counted, "a = ?1 IN ({each|(?, ?)|, }) AND b = ?1");
        let statement = text.with_rows(vec![ints(&[1, 2]), ints(&[3, 4])], &ints(&[9]));
        assert_eq!(statement.sql(), "a = ? IN ((?, ?), (?, ?)) AND b = ?");
        assert_eq!(statement.values(), ints(&[9, 1, 2, 3, 4, 9]));
    }

    #[test]
    fn the_values_of_rows_are_numbered_after_the_others() {
        let text = SqlTemplate::new(Places::Numbered("@P"), "a = ?1 IN ({each|(?, ?)|, }) AND b = ?1");
        let statement = text.with_rows(vec![ints(&[1, 2]), ints(&[3, 4])], &ints(&[9]));
        assert_eq!(statement.sql(), "a = @P1 IN ((@P2, @P3), (@P4, @P5)) AND b = @P1");
        assert_eq!(statement.values(), ints(&[9, 1, 2, 3, 4]));
    }

    #[test]
    fn rows_travel_as_columns_or_as_json_before_the_other_values() {
        let rows = [ints(&[1, 2]), ints(&[3, 4])];
        let columns = SqlTemplate::new(Places::Numbered("$"), "n = ANY (?1) AND m = ANY (?2) AND at = ?3");
        let column = |values: [i64; 2]| Value::Ints(values.map(Some).to_vec());
        let values = [column([1, 3]), column([2, 4]), Value::Int(Some(9))];
        assert_eq!(columns.with_rows(rows.to_vec(), &ints(&[9])).values(), values);
        let text = SqlTemplate::new(Places::Numbered("@P"), "OPENJSON({json|n c}) WHERE at = ?2");
        let statement = text.with_rows(rows.to_vec(), &ints(&[9]));
        assert_eq!(statement.sql(), "OPENJSON(@P1) WHERE at = @P2");
        let json = Value::Text(Some(r#"[{"c":2,"n":1},{"c":4,"n":3}]"#.into()));
        assert_eq!(statement.values(), [json, Value::Int(Some(9))]);
    }

    #[test]
    fn a_list_is_filled_up_and_rows_that_are_written_are_not() {
        let rows: Vec<_> = (0..140).map(|number| ints(&[number])).collect();
        let values = |text: &str| {
            let statements = SqlTemplate::new(Places::Counted, text).for_rows(&rows, &[]);
            statements.iter().map(|statement| statement.values().len()).collect::<Vec<_>>()
        };
        assert_eq!(values("IN ({list|?|, })"), [200]);
        assert_eq!(values("VALUES {each|(?)|, }"), [140]);
    }
}
