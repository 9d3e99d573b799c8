//! Databases as programs of the first version left them: their tables, and messages in every state.

/// A kind of database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OldKind {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
    /// SQL Server. Its texts have several batches.
    Mssql,
}

/// Which programs: tables of version 1 got columns without a new number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Age {
    /// The first ones of all.
    First,
    /// Those right before version 2.
    Last,
}

/// Tables of version 1, with their names.
#[derive(Clone, Copy, Debug)]
pub struct Old<'a> {
    /// The kind of database.
    pub kind: OldKind,
    /// Which programs made them.
    pub age: Age,
    /// The schema they are in.
    pub schema: Option<&'a str>,
    /// The outbox.
    pub outbox: &'a str,
    /// The inbox.
    pub inbox: &'a str,
}

macro_rules! texts {
    ($kind:literal) => {
        [include_str!(concat!("old/", $kind, "_first.sql")), include_str!(concat!("old/", $kind, "_last.sql"))]
    };
}

impl Old<'_> {
    /// SQL that creates the tables, without messages.
    pub fn tables(&self) -> String {
        let [first, last] = match self.kind {
            OldKind::Sqlite => texts!("sqlite"),
            OldKind::Postgres => texts!("postgres"),
            OldKind::MySql => texts!("mysql"),
            OldKind::Mssql => texts!("mssql"),
        };
        let create = self.schema.map(|schema| match self.kind {
            OldKind::Mssql => format!("IF SCHEMA_ID(N'{schema}') IS NULL EXEC (N'CREATE SCHEMA {schema}');\nGO\n"),
            _ => format!("CREATE SCHEMA IF NOT EXISTS {schema};"),
        });
        self.named(if self.age == Age::First { first } else { last })
            .replace("{create_schema}", &create.unwrap_or_default())
            .replace("{channel}", "postroom_old")
            .replace("{each_byte}", &(0..=u8::MAX).map(|byte| format!("{byte:02x}")).collect::<String>())
            .replace("{now_ms}", "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)")
    }

    /// SQL that inserts messages in every state. Their times are around `now`, in microseconds since 1970.
    pub fn rows(&self, now: i64) -> String {
        let age = match self.age {
            Age::First => include_str!("old/rows_first.sql"),
            Age::Last => include_str!("old/rows_last.sql"),
        };
        let (is_postgres, is_mssql) = (self.kind == OldKind::Postgres, self.kind == OldKind::Mssql);
        // The numbers of these rows do not come from the database, which would give them again.
        let given = if is_postgres { include_str!("old/rows_postgres.sql") } else { "" };
        let mut text = [include_str!("old/rows.sql"), age, given].concat();
        if is_mssql {
            text = ["outbox", "inbox"].iter().fold(text, |text, table| own_numbers(&text, table));
        }
        text = self.named(&text);
        text = text.replace("{own_numbers}", if is_postgres { " OVERRIDING SYSTEM VALUE" } else { "" });
        text = filled(&text, "{u:", |digits| match self.kind {
            OldKind::Postgres => format!("'{digits:0>32}'::uuid"),
            OldKind::Mssql => format!("CAST('00000000-0000-0000-0000-{digits:0>12}' AS uniqueidentifier)"),
            _ => format!("x'{digits:0>32}'"),
        });
        text = filled(&text, "{b:", |digits| match self.kind {
            OldKind::Postgres => format!("'\\x{digits}'::bytea"),
            OldKind::Mssql => format!("0x{digits}"),
            _ => format!("x'{digits}'"),
        });
        filled(&text, "{at:", |seconds| (now + seconds.parse::<i64>().unwrap_or_default() * 1_000_000).to_string())
    }

    fn named(&self, text: &str) -> String {
        let prefix = self.schema.map(|schema| format!("{schema}.")).unwrap_or_default();
        text.replace("{outbox_name}", self.outbox)
            .replace("{inbox_name}", self.inbox)
            .replace("{outbox}", &format!("{prefix}{}", self.outbox))
            .replace("{inbox}", &format!("{prefix}{}", self.inbox))
            .replace("{s}", &prefix)
    }
}

/// Lets the first insert into a table give its rows their numbers, on SQL Server.
fn own_numbers(text: &str, table: &str) -> String {
    let (insert, next) = (format!("INSERT INTO {{{table}}} (seq"), format!("INSERT INTO {{{table}}}_failures"));
    text.replacen(&insert, &format!("SET IDENTITY_INSERT {{{table}}} ON;\n{insert}"), 1).replacen(
        &next,
        &format!("SET IDENTITY_INSERT {{{table}}} OFF;\n{next}"),
        1,
    )
}

/// Replaces everything from `mark` to the next brace.
fn filled(text: &str, mark: &str, value: impl Fn(&str) -> String) -> String {
    let mut parts = text.split(mark);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |done, part| {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        done + &value(name) + rest
    })
}
