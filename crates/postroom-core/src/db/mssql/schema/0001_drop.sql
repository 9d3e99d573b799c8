-- Undoes 0001_init.sql, 0001_each.sql and 0001_procedures.sql, and drops the schema, which must be empty by then.
DROP PROCEDURE {outbox}_enqueue;
DROP PROCEDURE {outbox}_ack;
DROP PROCEDURE {outbox}_abandon;
DROP PROCEDURE {outbox}_fail;
DROP PROCEDURE {outbox}_reap;
DROP PROCEDURE {outbox}_expire;
DROP PROCEDURE {outbox}_claim;
DROP PROCEDURE {inbox}_claim;
DROP TABLE {outbox}_failures;
DROP TABLE {outbox}_holds;
DROP TABLE {outbox}_audit;
DROP TABLE {outbox};
DROP TABLE {inbox}_failures;
DROP TABLE {inbox}_holds;
DROP TABLE {inbox}_audit;
DROP TABLE {inbox}_marks;
DROP TABLE {inbox};
DROP TABLE {s}postroom_schema;
GO
DROP SCHEMA {schema};
GO
