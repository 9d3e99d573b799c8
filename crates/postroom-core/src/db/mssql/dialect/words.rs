//! Pieces that several statements share.

/// What keeps a look from waiting for other people's transactions: their rows are passed over. Where the database
/// keeps versions of rows, only those who ask for locks may pass over.
macro_rules! past {
    () => {
        " WITH (READPAST, READCOMMITTEDLOCK)"
    };
}

/// Rows in one finished state. The state is in the text: the index of that state alone serves no other. Which values
/// are null is told to the planner each time.
macro_rules! list_in {
    ($columns:literal, $state:literal) => {
        concat!(
            "SELECT TOP (@P6) ",
            $columns,
            " FROM {t} WHERE state = ",
            $state,
            " AND (@P1 IS NULL OR state = @P1)
               AND (@P2 IS NULL OR topic = @P2) AND (@P3 IS NULL OR {party} = @P3)
               AND (@P4 IS NULL OR processed_at >= @P4) AND seq > @P5 AND seq <= @P7
             ORDER BY seq OPTION (RECOMPILE)"
        )
    };
}

/// Rows in one finished state from a number on, counted by what they ended with, letter by letter.
macro_rules! groups_in {
    ($state:literal) => {
        concat!(
            "SELECT topic, party, error, COUNT_BIG(*), MIN(processed_at), MAX(processed_at), MIN(seq)
             FROM (SELECT topic, {party} AS party, SUBSTRING(last_error, 1, {error_chars})
                          COLLATE Latin1_General_100_BIN2 AS error, processed_at, seq
                   FROM {t}",
            past!(),
            " WHERE state = ",
            $state,
            " AND (@P1 IS NULL OR state = @P1) AND seq >= @P2) AS looked_at
             GROUP BY topic, party, error"
        )
    };
}

/// The number of one of the newest rows in one finished state.
macro_rules! nth_newest {
    ($state:literal) => {
        concat!(
            "SELECT seq FROM {t} WHERE state = ",
            $state,
            " AND (@P1 IS NULL OR state = @P1) ORDER BY seq DESC OFFSET @P2 ROWS FETCH NEXT 1 ROWS ONLY"
        )
    };
}

/// A row that is in a batch of leases. The table is named once: where it is joined with itself, a server may look at a
/// row as it was before somebody else changed it.
macro_rules! in_leases {
    ($fence:literal) => {
        concat!(
            " WHERE EXISTS (SELECT 1 FROM OPENJSON(@P1)
                       WITH (n bigint '$.n', o uniqueidentifier '$.o', c bigint '$.c') AS a
                       WHERE a.n = seq AND ",
            $fence,
            ")"
        )
    };
}

/// How many rows there are of a kind, up to a limit.
macro_rules! count_up_to {
    ($rows:literal) => {
        concat!("SELECT COUNT_BIG(*) FROM (SELECT TOP (@P2) 1 AS one FROM {t}", past!(), " WHERE ", $rows, ") AS found")
    };
}

/// How many rows are in one state.
macro_rules! count_in {
    ($state:literal) => {
        concat!("SELECT ", $state, ", COUNT_BIG(*) FROM {t}", past!(), " WHERE state = ", $state)
    };
}

/// Whether there is such a row.
macro_rules! any {
    ($table:literal, $rows:literal) => {
        concat!("EXISTS (SELECT 1 FROM ", $table, past!(), " WHERE ", $rows, ")")
    };
}

/// Whether a row is among those of a claim: by its topic when it is handled here, by its destination otherwise. The
/// procedure asks in the same words.
macro_rules! among {
    () => {
        "1 = CASE
             WHEN {here} AND CHARINDEX(NCHAR(10), topic) = 0
                  AND CHARINDEX(NCHAR(10) + topic + NCHAR(10), @P1) > 0 THEN @P2
             WHEN {here} THEN 1 - @P2
             WHEN CHARINDEX(NCHAR(10), {destination}) = 0
                  AND CHARINDEX(NCHAR(10) + {destination} + NCHAR(10), @P3) > 0 THEN @P4
             ELSE 1 - @P4 END"
    };
}
