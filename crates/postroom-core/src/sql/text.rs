//! A statement's text as its database wants it. Values are numbered in every text (`?1`, `$1`); for a database that
//! only counts (`?`), they are put in the order it counts in.

use std::sync::Arc;

use crate::sql::{Statement, Value};

/// How a database marks the places of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Places {
    /// By number: a value can stand in several places.
    Numbered,
    /// One after the other.
    Counted,
}

/// A text that is ready to be given values.
#[derive(Clone, Debug)]
pub(crate) struct SqlTemplate {
    sql: Arc<str>,
    /// What stands in each place; none when the places are numbered.
    order: Option<Arc<[Place]>>,
    each: Option<Each>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The value of that number.
    Value(usize),
    /// The values of the rows.
    Rows,
}

/// A part that is repeated for each row of a batch: `{each|(?, ?)|, }`.
#[derive(Clone, Debug)]
struct Each {
    item: Arc<str>,
    separator: Arc<str>,
}

const EACH: &str = "{each|";
const ROWS_HERE: &str = "{rows}";

impl SqlTemplate {
    pub(crate) fn new(places: Places, text: &str) -> Self {
        let (text, each) = cut_each(text);
        if places == Places::Numbered {
            return Self { sql: text.into(), order: None, each };
        }
        let mut order = Vec::new();
        let mut sql = String::with_capacity(text.len());
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
            if let Ok(number) = found[1..=digits].parse::<usize>() {
                order.push(Place::Value(number.saturating_sub(1)));
                sql.push('?');
            } else {
                sql.push_str(&found[..1]);
            }
            rest = &found[1 + digits..];
        }
        sql.push_str(rest);
        Self { sql: sql.into(), order: Some(order.into()), each }
    }

    pub(crate) fn sql(&self) -> &Arc<str> {
        &self.sql
    }

    /// The text with one value for each number.
    pub(crate) fn with(&self, values: Vec<Value>) -> Statement {
        let values = match &self.order {
            None => values,
            Some(order) => placed(order, &values, &[]),
        };
        Statement::new(self.sql.clone(), values)
    }

    /// The text with one value for each number, and its repeated part once for each row. Where values are numbered,
    /// those of the rows come last.
    pub(crate) fn with_rows(&self, values: &[Value], rows: &[Vec<Value>]) -> Statement {
        let Some(each) = &self.each else { return self.with(values.to_vec()) };
        let Some(order) = &self.order else {
            let sql = self.sql.replace(ROWS_HERE, &each.numbered(values.len(), rows.len()));
            return Statement::new(sql.into(), values.iter().chain(rows.iter().flatten()).cloned().collect());
        };
        let repeated = vec![each.item.as_ref(); rows.len()].join(each.separator.as_ref());
        let sql = self.sql.replace(ROWS_HERE, &repeated);
        Statement::new(sql.into(), placed(order, values, rows))
    }
}

impl Each {
    /// Once for each row, with the numbers that follow `taken`.
    fn numbered(&self, taken: usize, rows: usize) -> String {
        let mut repeated = String::with_capacity(rows * self.item.len() * 2);
        let mut number = taken;
        for row in 0..rows {
            repeated.push_str(if row == 0 { "" } else { &self.separator });
            for (place, piece) in self.item.split('?').enumerate() {
                if place > 0 {
                    number += 1;
                    repeated.push_str("@P");
                    repeated.push_str(&number.to_string());
                }
                repeated.push_str(piece);
            }
        }
        repeated
    }
}

fn placed(order: &[Place], values: &[Value], rows: &[Vec<Value>]) -> Vec<Value> {
    let mut placed = Vec::with_capacity(order.len() + rows.len() * rows.first().map_or(0, Vec::len));
    for place in order {
        match place {
            Place::Value(number) => placed.extend(values.get(*number).cloned()),
            Place::Rows => placed.extend(rows.iter().flatten().cloned()),
        }
    }
    placed
}

fn cut_each(text: &str) -> (String, Option<Each>) {
    let cut = text.split_once(EACH).and_then(|(before, rest)| {
        let (item, rest) = rest.split_once('|')?;
        let (separator, after) = rest.split_once('}')?;
        Some((format!("{before}{ROWS_HERE}{after}"), Each { item: item.into(), separator: separator.into() }))
    });
    cut.map_or_else(|| (text.to_owned(), None), |(text, each)| (text, Some(each)))
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
        let text = SqlTemplate::new(Places::Numbered, "SET a = $2, b = $1, c = $2");
        assert_eq!(text.with(ints(&[1, 2])).sql(), "SET a = $2, b = $1, c = $2");
    }

    #[test]
    fn a_part_is_repeated_for_each_row() {
        let text = SqlTemplate::new(Places::Counted, "a = ?1 IN ({each|(?, ?)|, }) AND b = ?1");
        let statement = text.with_rows(&ints(&[9]), &[ints(&[1, 2]), ints(&[3, 4])]);
        assert_eq!(statement.sql(), "a = ? IN ((?, ?), (?, ?)) AND b = ?");
        assert_eq!(statement.values(), ints(&[9, 1, 2, 3, 4, 9]));
    }

    #[test]
    fn the_values_of_rows_are_numbered_after_the_others() {
        let text = SqlTemplate::new(Places::Numbered, "a = @P1 IN ({each|(?, ?)|, }) AND b = @P1");
        let statement = text.with_rows(&ints(&[9]), &[ints(&[1, 2]), ints(&[3, 4])]);
        assert_eq!(statement.sql(), "a = @P1 IN ((@P2, @P3), (@P4, @P5)) AND b = @P1");
        assert_eq!(statement.values(), ints(&[9, 1, 2, 3, 4]));
    }
}
