-- Undoes the schema: drops the tables, all that is in them, the views and the procedures, and the schema, which must be
-- empty by then.
DROP PROCEDURE {outbox}_enqueue;
DROP PROCEDURE {outbox}_ack;
DROP PROCEDURE {outbox}_abandon;
DROP PROCEDURE {outbox}_fail;
DROP PROCEDURE {outbox}_reap;
DROP PROCEDURE {outbox}_expire;
DROP PROCEDURE {outbox}_claim;
DROP PROCEDURE {outbox}_move;
DROP TYPE {outbox}_moves;
DROP VIEW {outbox}_state;
DROP VIEW {outbox}_by_state;
DROP VIEW {outbox}_misplaced;
DROP TABLE {outbox};
DROP TABLE {outbox}_line;
DROP TABLE {outbox}_taken;
DROP TABLE {outbox}_trouble;
DROP TABLE {outbox}_answer;
DROP TABLE {outbox}_failures;
DROP TABLE {outbox}_holds;
DROP TABLE {outbox}_audit;
DROP PROCEDURE {inbox}_claim;
DROP PROCEDURE {inbox}_move;
DROP TYPE {inbox}_moves;
DROP VIEW {inbox}_state;
DROP VIEW {inbox}_by_state;
DROP VIEW {inbox}_misplaced;
DROP TABLE {inbox};
DROP TABLE {inbox}_line;
DROP TABLE {inbox}_taken;
DROP TABLE {inbox}_trouble;
DROP TABLE {inbox}_answer;
DROP TABLE {inbox}_failures;
DROP TABLE {inbox}_holds;
DROP TABLE {inbox}_audit;
DROP TABLE {inbox}_marks;
DROP TABLE {s}postroom_schema;
GO
DROP SCHEMA {schema};
GO
