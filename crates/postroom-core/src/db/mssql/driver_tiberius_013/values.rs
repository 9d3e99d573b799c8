//! How values travel to SQL Server.

use tiberius::ColumnData;

use crate::sql::Value;

/// A value in the form that the driver takes.
pub(super) struct Bound<'v>(ColumnData<'v>);

impl<'v> tiberius::IntoSql<'v> for Bound<'v> {
    fn into_sql(self) -> ColumnData<'v> {
        self.0
    }
}

/// The text with its values. The driver sends a null text or null bytes without a type, which not every server accepts.
/// The text names their type instead, and the other values move up.
pub(super) fn bound<'v>(text: &str, values: &'v [Value]) -> (String, Vec<Bound<'v>>) {
    let mut bound = Vec::with_capacity(values.len());
    let places: Vec<String> = values
        .iter()
        .map(|value| {
            if let Some(typed) = typed_null(value) {
                return typed.to_owned();
            }
            bound.push(Bound(column(value)));
            format!("@P{}", bound.len())
        })
        .collect();
    if bound.len() == values.len() {
        return (text.to_owned(), bound);
    }
    let mut placed = String::with_capacity(text.len());
    let mut pieces = text.split("@P");
    placed.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let place = piece[..digits].parse::<usize>().ok().and_then(|number| places.get(number.wrapping_sub(1)));
        match place {
            Some(place) => placed.push_str(place),
            None => {
                placed.push_str("@P");
                placed.push_str(&piece[..digits]);
            }
        }
        placed.push_str(&piece[digits..]);
    }
    (placed, bound)
}

fn typed_null(value: &Value) -> Option<&'static str> {
    match value {
        Value::Text(None) => Some("CAST(NULL AS nvarchar(max))"),
        Value::Bytes(None) => Some("CAST(NULL AS varbinary(max))"),
        _ => None,
    }
}

fn column(value: &Value) -> ColumnData<'_> {
    match value {
        Value::Int(value) => ColumnData::I64(*value),
        Value::Text(value) => ColumnData::String(value.as_deref().map(Into::into)),
        Value::Bytes(value) => ColumnData::Binary(value.as_deref().map(Into::into)),
        Value::Uuid(value) => ColumnData::Guid(*value),
        // Batches travel as rows or as JSON on SQL Server.
        Value::Ints(_) | Value::Texts(_) | Value::Uuids(_) => ColumnData::I64(None),
    }
}
