
SELECT setval(pg_get_serial_sequence('{outbox}', 'seq'), 20), setval(pg_get_serial_sequence('{inbox}', 'seq'), 7);
