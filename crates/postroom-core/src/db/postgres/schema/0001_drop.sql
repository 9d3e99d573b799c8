-- Undoes 0001_init.sql: drops the schema, with everything in it.
DROP SCHEMA {schema} CASCADE;
