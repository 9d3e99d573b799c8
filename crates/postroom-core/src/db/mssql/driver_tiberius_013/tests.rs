use super::*;

fn text(value: Option<&str>) -> Value {
    Value::Text(value.map(str::to_owned))
}

#[test]
fn a_null_without_a_type_is_told_in_the_text_and_the_others_move_up() {
    let values = [Value::Int(None), text(None), text(Some("a")), Value::Bytes(None), Value::Int(Some(7))];
    let (sql, bound) = bound("SELECT @P1, @P2, @P3, @P4, @P5, @P3, @Px, '@P'", &values);
    let null = "CAST(NULL AS nvarchar(max))";
    assert_eq!(sql, format!("SELECT @P1, {null}, @P2, CAST(NULL AS varbinary(max)), @P3, @P2, @Px, '@P'"));
    assert_eq!(bound.len(), 3);
}

#[test]
fn ten_is_not_one_and_a_zero() {
    let values: Vec<_> = (0..10).map(|n| if n == 0 { text(None) } else { Value::Int(Some(n)) }).collect();
    assert_eq!(bound("@P1 @P2 @P10", &values).0, "CAST(NULL AS nvarchar(max)) @P1 @P9");
}

#[test]
fn a_text_without_such_nulls_stays_as_it_is() {
    assert_eq!(bound("SELECT @P1", &[Value::Uuid(None)]).0, "SELECT @P1");
}

#[test]
fn the_schema_is_told_in_pieces_that_the_server_takes() {
    let schema = crate::MssqlStore::schema(&crate::TableNames::infra_capitals());
    let batches: Vec<_> = batches(&schema).collect();
    assert!(batches.len() > 20, "{}", batches.len());
    for batch in batches {
        // A statement that creates or changes a procedure must be the first in its batch, or in a separate text.
        let code = batch.lines().find(|line| !line.starts_with("--")).unwrap_or_default();
        let is_first = code.starts_with("ALTER PROCEDURE ") || code.starts_with("CREATE PROCEDURE ");
        let is_told = batch.contains("\nALTER PROCEDURE ") || batch.contains("\nCREATE PROCEDURE ");
        assert!(is_first || !is_told, "{batch}");
        assert!(!batch.contains('{') || batch.contains("{\"order\": 7}"), "a name is missing: {batch}");
    }
}
