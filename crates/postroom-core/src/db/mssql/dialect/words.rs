//! The words of SQL Server's statements, and of its schema.

pub(super) const WORDS: &[(&str, &str)] = &[
    ("v", "{t}_state"),
    ("f", "{t}_by_state"),
    ("views", include_str!("../schema/0001_views.sql")),
    ("move", include_str!("../schema/0001_move.sql")),
    ("claim", include_str!("../schema/0001_claim.sql")),
    ("error", "SUBSTRING(last_error, 1, {error_chars})"),
    // Keeps a read from waiting for other transactions: it skips the rows they have locked. In a database that
    // keeps row versions, only a read that asks for locks may skip rows. A view passes it on to its tables.
    ("past", " WITH (READPAST, READCOMMITTEDLOCK)"),
    ("locked", " WITH (UPDLOCK, ROWLOCK, READCOMMITTEDLOCK)"),
    ("locked_past", " WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)"),
    // A transaction that looks for the row waits for another one that is just writing the same row.
    ("if_new", "WHERE NOT EXISTS (SELECT 1 FROM {t} WITH (READCOMMITTEDLOCK) WHERE {key})"),
    // = or >, and a name. A text of the schema has no room for quotes.
    ("place", "CASE WHEN {here} THEN NCHAR(61) + topic ELSE NCHAR(62) + {destination} END"),
    // What stands beside the columns of a message.
    ("beside", "\n    LEFT JOIN {t}_trouble AS t ON t.seq = m.seq{answered}"),
    ("answered", "\n    LEFT JOIN {t}_answer AS a ON a.seq = m.seq{seen}"),
    ("troubled", "\n    LEFT JOIN {t}_trouble AS t ON t.seq = m.seq{seen}"),
    // The same as it is at this moment, also in a database that keeps row versions.
    (
        "beside_now",
        "\n    LEFT JOIN {t}_trouble AS t WITH (READCOMMITTEDLOCK) ON t.seq = m.seq
    LEFT JOIN {t}_answer AS a WITH (READCOMMITTEDLOCK) ON a.seq = m.seq{seen}",
    ),
    (
        "held",
        "1 AS state, h.until AS visible_at, h.claim_no, h.owner, h.until AS locked_until,
    h.at AS last_attempt_at, CAST(NULL AS bigint) AS processed_at, CAST(NULL AS uniqueidentifier) AS processed_by,
    a.response",
    ),
    (
        "ended",
        "t.state, CAST(NULL AS bigint) AS visible_at, t.claims AS claim_no, CAST(NULL AS uniqueidentifier) AS owner,
    CAST(NULL AS bigint) AS locked_until, t.last_attempt_at",
    ),
    // The leases of a batch.
    ("asked", "OPENJSON({json|n o c}) WITH (n bigint '$.n', o uniqueidentifier '$.o', c bigint '$.c') AS a"),
    // A row that is in a batch of leases. The table is named once: if it is joined with itself, a server may see a
    // row as it was before another transaction changed it.
    ("in_leases", "EXISTS (SELECT 1 FROM {asked} WHERE a.n = seq AND"),
    // Whether a claim covers a place: by the topic or by the destination. Each is a list of names between line breaks,
    // with a flag that says whether it means only these or all but these.
    ("br", "NCHAR(10)"),
    (
        "among",
        "1 = CASE
             WHEN CHARINDEX(N'=', place) = 1 AND CHARINDEX({br}, place) = 0
                  AND CHARINDEX({br} + SUBSTRING(place, 2, 510) + {br}, ?9) > 0 THEN ?10
             WHEN CHARINDEX(N'=', place) = 1 THEN 1 - ?10
             WHEN CHARINDEX({br}, place) = 0
                  AND CHARINDEX({br} + SUBSTRING(place, 2, 510) + {br}, ?11) > 0 THEN ?12
             ELSE 1 - ?12 END",
    ),
    (
        "among_asked",
        "1 = CASE
              WHEN CHARINDEX(N'=', place) = 1 AND CHARINDEX({br}, place) = 0
                   AND CHARINDEX({br} + SUBSTRING(place, 2, 510) + {br}, @topics) > 0 THEN @only_topics
              WHEN CHARINDEX(N'=', place) = 1 THEN 1 - @only_topics
              WHEN CHARINDEX({br}, place) = 0
                   AND CHARINDEX({br} + SUBSTRING(place, 2, 510) + {br}, @destinations) > 0 THEN @only_destinations
              ELSE 1 - @only_destinations END",
    ),
    (
        "claims",
        "EXEC {t}_claim @now = ?1, @batch_size = ?2, @owner_token = ?3, @until = ?4, @above = ?5, @bytes = ?6,
                               @least = ?7",
    ),
    ("claims_of", "{claims}, @topics = ?9, @only_topics = ?10, @destinations = ?11, @only_destinations = ?12"),
    // Moves messages, and says how many.
    ("moving", "DECLARE @moved bigint; DECLARE @moves {t}_moves; INSERT INTO @moves"),
    ("moved", "EXEC {t}_move @moves, @moved OUTPUT"),
    ("nobody", "CAST(NULL AS uniqueidentifier)"),
    ("count_up_to", "SELECT COUNT_BIG(*) FROM (SELECT TOP (?2) 1 AS one FROM"),
    ("bytes", "CAST(LEN(payload + N'.') - 1 AS bigint)"),
    ("failures", "{t}_failures AS f{past} JOIN {t} AS m{past} ON m.seq = f.seq"),
    ("last_done", "(SELECT MAX(done_at) FROM {t}_taken{past} WHERE done_at > 0)"),
    ("last_ended", "SELECT MAX(at) FROM {t}_trouble{past} WHERE state ="),
    ("updateability", "CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60))"),
];
