-- Undoes 0001_init.sql: drops the tables, all that is in them, and the procedures.
DROP TABLE {outbox};
DROP TABLE {outbox}_failures;
DROP TABLE {outbox}_holds;
DROP TABLE {outbox}_audit;
DROP TABLE {inbox};
DROP TABLE {inbox}_failures;
DROP TABLE {inbox}_holds;
DROP TABLE {inbox}_audit;
DROP TABLE {inbox}_marks;
DROP PROCEDURE {outbox}_enqueue_with;
DROP PROCEDURE {outbox}_enqueue;
DELETE FROM {s}postroom_schema WHERE outbox = '{outbox_name}' AND inbox = '{inbox_name}';
-- The list of tables is dropped with the last of them.
SET @postroom_drop = IF((SELECT count(*) FROM {s}postroom_schema) = 0, 'DROP TABLE {s}postroom_schema', 'DO 0');
PREPARE postroom_drop FROM @postroom_drop;
EXECUTE postroom_drop;
DEALLOCATE PREPARE postroom_drop;
