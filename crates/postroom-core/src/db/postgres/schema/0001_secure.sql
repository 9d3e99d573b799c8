-- The tables are where this deployment created them. Temporary tables come last, so that none can take their place.
DO $secure$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['{outbox}_entered', '{inbox}_entered', '{outbox}_laned', '{inbox}_laned',
                                '{inbox}_accepted', '{inbox}_replaced', '{inbox}_again', '{outbox}_key_taken'] LOOP
        EXECUTE format('ALTER FUNCTION %s() SET search_path = pg_catalog, %I, pg_temp', name, current_schema());
    END LOOP;
END
$secure$;

