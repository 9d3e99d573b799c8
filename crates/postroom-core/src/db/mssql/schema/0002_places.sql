-- From version 1, where a message was one row, to version 2, where it is written once and stands in a place.
-- The tables of the messages stay, with their payloads. What changes while a message is handled moves to tables beside
-- them. All of it is one transaction: programs of version 1 wait, and then find that they are too old.

-- The first programs did not know these columns.
IF COL_LENGTH(N'{outbox}', N'dismissed_by') IS NULL
    ALTER TABLE {outbox} ADD dismissed_by nvarchar(510) NULL;
IF COL_LENGTH(N'{outbox}', N'dismissed_why') IS NULL
    ALTER TABLE {outbox} ADD dismissed_why nvarchar(max) NULL;
IF COL_LENGTH(N'{inbox}', N'dismissed_by') IS NULL
    ALTER TABLE {inbox} ADD dismissed_by nvarchar(510) NULL;
IF COL_LENGTH(N'{inbox}', N'dismissed_why') IS NULL
    ALTER TABLE {inbox} ADD dismissed_why nvarchar(max) NULL;
IF COL_LENGTH(N'{outbox}_failures', N'code') IS NULL
    ALTER TABLE {outbox}_failures ADD code nvarchar(32) NULL;
IF COL_LENGTH(N'{inbox}_failures', N'code') IS NULL
    ALTER TABLE {inbox}_failures ADD code nvarchar(32) NULL;
IF COL_LENGTH(N'{inbox}_marks', N'topic') IS NULL
    ALTER TABLE {inbox}_marks ADD topic nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL DEFAULT N'';
IF COL_LENGTH(N'{s}postroom_schema', N'needs') IS NULL
    ALTER TABLE {s}postroom_schema ADD needs bigint NULL;
IF COL_LENGTH(N'{s}postroom_schema', N'payloads_from') IS NULL
    ALTER TABLE {s}postroom_schema ADD payloads_from bigint NOT NULL DEFAULT 0;
GO

-- The columns go before the triggers are created: a server may drop a trigger with a column of its table.
SELECT seq, visible_at, created_at, state, next_attempt_at, attempts, crashes, claim_no, owner,
       locked_until, last_attempt_at, last_error, processed_at, processed_by, response,
       dismissed_by, dismissed_why
INTO {outbox}_v1 FROM {outbox};
GO

DROP INDEX IF EXISTS {outbox_name}_ready ON {outbox};
DROP INDEX IF EXISTS {outbox_name}_suspects ON {outbox};
DROP INDEX IF EXISTS {outbox_name}_leased ON {outbox};
DROP INDEX IF EXISTS {outbox_name}_done ON {outbox};
DROP INDEX IF EXISTS {outbox_name}_dead ON {outbox};
DROP INDEX IF EXISTS {outbox_name}_expired ON {outbox};
DROP INDEX IF EXISTS {outbox_name}_expiring ON {outbox};
DROP INDEX IF EXISTS {outbox_name}_lapsing ON {outbox};
DROP INDEX IF EXISTS {outbox_name}_dismissed ON {outbox};
DROP INDEX IF EXISTS {outbox_name}_outside ON {outbox};
-- What a column must keep to would keep the column. Not every compatible server has names for that.
DECLARE @name nvarchar(260) = N'';
WHILE @name IS NOT NULL AND @@VERSION NOT LIKE N'%Babelfish%'
BEGIN
    SET @name = (SELECT MIN(kept.name) FROM (
        SELECT d.name FROM sys.default_constraints AS d
        JOIN sys.columns AS c ON c.object_id = d.parent_object_id AND c.column_id = d.parent_column_id
        WHERE d.parent_object_id = OBJECT_ID(N'{outbox}') AND c.name IN (N'state', N'attempts', N'crashes', N'claim_no')
        UNION ALL
        SELECT k.name FROM sys.check_constraints AS k WHERE k.parent_object_id = OBJECT_ID(N'{outbox}')) AS kept);
    IF @name IS NOT NULL
        EXEC (N'ALTER TABLE {outbox} DROP CONSTRAINT [' + @name + N']');
END
GO

ALTER TABLE {outbox} DROP COLUMN state;
ALTER TABLE {outbox} DROP COLUMN next_attempt_at;
ALTER TABLE {outbox} DROP COLUMN attempts;
ALTER TABLE {outbox} DROP COLUMN crashes;
ALTER TABLE {outbox} DROP COLUMN claim_no;
ALTER TABLE {outbox} DROP COLUMN owner;
ALTER TABLE {outbox} DROP COLUMN locked_until;
ALTER TABLE {outbox} DROP COLUMN last_attempt_at;
ALTER TABLE {outbox} DROP COLUMN last_error;
ALTER TABLE {outbox} DROP COLUMN processed_at;
ALTER TABLE {outbox} DROP COLUMN processed_by;
ALTER TABLE {outbox} DROP COLUMN response;
ALTER TABLE {outbox} DROP COLUMN dismissed_by;
ALTER TABLE {outbox} DROP COLUMN dismissed_why;
ALTER TABLE {outbox} ADD born smallint NOT NULL DEFAULT 0;
ALTER TABLE {outbox} ADD lane nvarchar(510) COLLATE Latin1_General_100_BIN2 NULL;
GO

UPDATE m SET visible_at = CASE WHEN m.due_at > m.created_at THEN m.due_at ELSE m.created_at END
FROM {outbox} AS m JOIN {outbox}_v1 AS v ON v.seq = m.seq
WHERE v.state NOT IN (0, 5, 6) OR v.state = 0 AND m.visible_at IS NULL;
GO

SELECT seq, visible_at, created_at, state, next_attempt_at, attempts, crashes, claim_no, owner,
       locked_until, last_attempt_at, last_error, processed_at, processed_by, response,
       dismissed_by, dismissed_why
INTO {inbox}_v1 FROM {inbox};
GO

DROP INDEX IF EXISTS {inbox_name}_ready ON {inbox};
DROP INDEX IF EXISTS {inbox_name}_suspects ON {inbox};
DROP INDEX IF EXISTS {inbox_name}_leased ON {inbox};
DROP INDEX IF EXISTS {inbox_name}_done ON {inbox};
DROP INDEX IF EXISTS {inbox_name}_dead ON {inbox};
DROP INDEX IF EXISTS {inbox_name}_expired ON {inbox};
DROP INDEX IF EXISTS {inbox_name}_expiring ON {inbox};
DROP INDEX IF EXISTS {inbox_name}_lapsing ON {inbox};
DROP INDEX IF EXISTS {inbox_name}_dismissed ON {inbox};
DROP INDEX IF EXISTS {inbox_name}_outside ON {inbox};
-- What a column must keep to would keep the column. Not every compatible server has names for that.
DECLARE @name nvarchar(260) = N'';
WHILE @name IS NOT NULL AND @@VERSION NOT LIKE N'%Babelfish%'
BEGIN
    SET @name = (SELECT MIN(kept.name) FROM (
        SELECT d.name FROM sys.default_constraints AS d
        JOIN sys.columns AS c ON c.object_id = d.parent_object_id AND c.column_id = d.parent_column_id
        WHERE d.parent_object_id = OBJECT_ID(N'{inbox}') AND c.name IN (N'state', N'attempts', N'crashes', N'claim_no')
        UNION ALL
        SELECT k.name FROM sys.check_constraints AS k WHERE k.parent_object_id = OBJECT_ID(N'{inbox}')) AS kept);
    IF @name IS NOT NULL
        EXEC (N'ALTER TABLE {inbox} DROP CONSTRAINT [' + @name + N']');
END
GO

ALTER TABLE {inbox} DROP COLUMN state;
ALTER TABLE {inbox} DROP COLUMN next_attempt_at;
ALTER TABLE {inbox} DROP COLUMN attempts;
ALTER TABLE {inbox} DROP COLUMN crashes;
ALTER TABLE {inbox} DROP COLUMN claim_no;
ALTER TABLE {inbox} DROP COLUMN owner;
ALTER TABLE {inbox} DROP COLUMN locked_until;
ALTER TABLE {inbox} DROP COLUMN last_attempt_at;
ALTER TABLE {inbox} DROP COLUMN last_error;
ALTER TABLE {inbox} DROP COLUMN processed_at;
ALTER TABLE {inbox} DROP COLUMN processed_by;
ALTER TABLE {inbox} DROP COLUMN response;
ALTER TABLE {inbox} DROP COLUMN dismissed_by;
ALTER TABLE {inbox} DROP COLUMN dismissed_why;
ALTER TABLE {inbox} ADD born smallint NOT NULL DEFAULT 5;
ALTER TABLE {inbox} ADD lane nvarchar(510) COLLATE Latin1_General_100_BIN2 NULL;
ALTER TABLE {inbox} ADD dropped_at bigint NULL;
GO

UPDATE m SET born = CASE WHEN v.state IN (5, 6) THEN v.state ELSE 0 END
FROM {inbox} AS m JOIN {inbox}_v1 AS v ON v.seq = m.seq;
UPDATE m SET visible_at = CASE WHEN m.due_at > m.created_at THEN m.due_at ELSE m.created_at END
FROM {inbox} AS m JOIN {inbox}_v1 AS v ON v.seq = m.seq
WHERE v.state NOT IN (0, 5, 6) OR v.state = 0 AND m.visible_at IS NULL;
GO

{tables}

{each}

UPDATE t SET at = m.last_seen_at FROM {inbox}_trouble AS t JOIN {inbox} AS m ON m.seq = t.seq WHERE t.state IN (5, 6);
GO
