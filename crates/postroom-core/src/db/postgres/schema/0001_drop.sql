-- What undoes 0001_init.sql: the schema, with everything in it.
DROP SCHEMA {schema} CASCADE;
